/** @file Dynamic groups of stock torch workers and of ours: joining, leaving, coming back, and putting out the dead; torchrun. */
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { freePort } from '@backwire/testing';
import { afterEach, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { member } from './member.ts';
import { py } from '../src/py.ts';
import { Python, torchVersion, withTorch } from './python.ts';

rpcFunction('dynamic.same', (value: unknown) => value);
const STUBS = ['dynamic.same'];

describe.skipIf(torchVersion === undefined)(withTorch, { timeout: 120_000 }, () => {
  const nodes: Agent[] = [];
  const pythons: Python[] = [];
  let init = '';

  afterEach(async () => {
    for (const node of nodes.splice(0)) await node.shutdown({ graceful: false, timeoutMs: 10_000 });
    await Promise.all(pythons.splice(0).map((python) => python.end()));
  }, 60_000);

  async function python(name: string, rank: number): Promise<Python> {
    const started = Python.start({ name, rank, init, stubs: STUBS, timeout: 10 });
    pythons.push(started.python);
    await started.ready;
    return started.python;
  }

  async function node(name: string, options: { evict?: string[] } = {}): Promise<Agent> {
    const joined = await member({
      name,
      membership: 'dynamic',
      initMethod: init,
      trustNetwork: true,
      initTimeoutMs: 30_000,
      ...options,
    });
    nodes.push(joined);
    return joined;
  }

  it('joins, calls both ways, leaves, and comes back', async () => {
    init = `tcp://127.0.0.1:${await freePort()}`;
    const py0 = await python('py0', 0);
    for (let round = 0; round < 3; round++) {
      const web = await node('web');
      expect(web.id).toBe(1000 + round);
      expect(await web.run(() => rpcSync('py0', py('model.same'), [round]))).toBe(round);
      expect(await py0.run(`rpc.rpc_sync('web', dynamic.same, (${round},))`)).toBe(String(round));
      await web.shutdown({ timeoutMs: 10_000 });
      nodes.length = 0;
      await expect(py0.run(`rpc.rpc_sync('web', dynamic.same, (1,))`)).rejects.toThrow(/web/);
    }
    const web = await node('web');
    const py1 = await python('py1', 1);
    expect(await py1.run(`rpc.rpc_sync('web', dynamic.same, (7,))`)).toBe('7');
    expect(web.members.names()).toEqual(['py0', 'py1', 'web']);
    const other = await node('other');
    expect(await other.run(() => rpcSync('web', py('dynamic.same'), [8]))).toBe(8);
  });

  it('leaves as soon as it has joined, and no worker of torch is deaf to others afterwards', async () => {
    init = `tcp://127.0.0.1:${await freePort()}`;
    await python('py0', 0);
    for (let round = 0; round < 25; round++) {
      const web = await node('web');
      await web.shutdown({ timeoutMs: 10_000 });
      nodes.length = 0;
    }
    const last = await node('last');
    expect(await last.run(() => rpcSync('py0', py('model.same'), [7]))).toBe(7);
  });

  it('puts out the dead, and frees the token that one of them held', async () => {
    init = `tcp://127.0.0.1:${await freePort()}`;
    const py0 = await python('py0', 0);
    const web = await node('web');
    const py1 = await python('py1', 1);
    await py1.kill();
    pythons.splice(pythons.indexOf(py1), 1);
    // The next one of stock torch times out on the dead one, and dies with the token.
    const doomed = Python.start({ name: 'py2', rank: 2, init, stubs: STUBS, timeout: 3 });
    await expect(doomed.ready).rejects.toThrow();
    await doomed.python.kill();
    await expect(web.evict('nobody', { timeoutMs: 200 })).rejects.toThrow(/Token_for_py2_join/);
    await web.evict(['py2', 'py1']);
    const late = await node('late');
    expect(late.members.names()).toEqual(['late', 'py0', 'web']);
    const py3 = await python('py3', 3);
    expect(await py3.run(`rpc.rpc_sync('late', dynamic.same, (9,))`)).toBe('9');
    expect(await py0.run(`rpc.rpc_sync('py3', model.same, (10,))`)).toBe('10');
    await expect(web.run(() => rpcSync('py1', py('model.same'), [1]))).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('joins where the dead still hold the token, and puts them out', async () => {
    init = `tcp://127.0.0.1:${await freePort()}`;
    const py0 = await python('py0', 0);
    const py1 = await python('py1', 1);
    await py1.kill();
    pythons.splice(pythons.indexOf(py1), 1);
    const doomed = Python.start({ name: 'py2', rank: 2, init, stubs: STUBS, timeout: 3 });
    await expect(doomed.ready).rejects.toThrow();
    await doomed.python.kill();
    const web = await node('web', { evict: ['py1', 'py2'] });
    expect(web.members.names()).toEqual(['py0', 'web']);
    expect(await py0.run(`rpc.rpc_sync('web', dynamic.same, (9,))`)).toBe('9');
    await python('py3', 3);
  });
});
