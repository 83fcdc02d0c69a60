/** @file A static group that ends and begins again, in the same processes. Skipped without a Python with torch. */
import { allGather, rpcSync } from '@backwire/rpc';
import { freePort } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { createTorchAgent } from '../src/join.ts';
import { py } from '../src/py.ts';
import { Python, torchVersion, withTorch } from './python.ts';

describe.skipIf(torchVersion === undefined)(withTorch, () => {
  it('joins again the processes that it left together with', { timeout: 120_000 }, async () => {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const { python, ready } = Python.start({ name: 'py', rank: 0, size: 2, init });
    const join = { name: 'node', rank: 1, worldSize: 2, initMethod: init, trustNetwork: true, initTimeoutMs: 60_000 };
    const [first] = await Promise.all([createTorchAgent(join), ready]);
    await Promise.all([first.shutdown({ timeoutMs: 20_000 }), python.run('rpc.shutdown()')]);
    const options = `rpc.TensorPipeRpcBackendOptions(init_method='${init}', rpc_timeout=20)`;
    const again = python.run(`rpc.init_rpc('py', rank=0, world_size=2, rpc_backend_options=${options})`);
    const [second] = await Promise.all([createTorchAgent({ ...join, initTimeoutMs: 20_000 }), again]);
    expect(await second.run(() => rpcSync('py', py<(value: number) => number>('model.same'), [7]))).toBe(7);
    const gathering = second.run(() => allGather('here', { timeoutMs: 20_000 }));
    const there = await python.run(`sorted(rpc.api._all_gather('there', timeout=20).items())`);
    expect([...(await gathering)].sort()).toEqual([
      ['node', 'here'],
      ['py', 'there'],
    ]);
    expect(there).toContain('here');
    const left = python.end();
    await second.shutdown({ timeoutMs: 20_000 });
    expect(await left).toBe(0);
  });
});
