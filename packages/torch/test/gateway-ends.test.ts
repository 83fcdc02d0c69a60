/** @file A gateway when somebody goes: workers of the torch group, those who call through it, the gateway itself; and what it is not made of. */
import { createAgent, rpcClass, rpcFunction, rpcSync, RpcError } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { rpcName } from '@backwire/tensor';
import { TestCluster, errorMatching, freePort } from '@backwire/testing';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { py, serveGateway, throughGateway } from '../src/index.ts';
import { GatewayGroup } from './gateway-group.ts';

let waiting = 0;
rpcFunction('ends.never', () => {
  waiting++;
  return new Promise<never>(() => undefined);
});
class Box {
  static readonly [rpcName] = 'ends.Box';
  value(): number {
    return 7;
  }
}
rpcClass(Box, { methods: ['value'] });
const kept = new Map<string, RRef<Box>>();
const keep = rpcFunction('ends-test/keep', (rref: RRef<Box>) => void kept.set('b', rref));

const never = py<() => void>('ends.never');
const box = py<Box>('ends.Box');
const seen: number[] = [];
const note = py<(i: number) => void>('ends.note');
rpcFunction('ends.note', (i: number) => void seen.push(i));
rpcFunction('ends.who', () => 'n1');
const serve = [never, note, { make: box, methods: ['value'] }];
const python = throughGateway('gateway');

describe('a gateway', { timeout: 90_000 }, () => {
  let all: GatewayGroup | undefined;
  const started = async (): Promise<GatewayGroup> => {
    all = await GatewayGroup.start('unix');
    serveGateway(all.inTorch, { serve, agent: all.gateway });
    return all;
  };
  afterEach(async () => {
    kept.clear();
    await all?.end();
    all = undefined;
  });

  it('names a worker that dies, in calls that wait for it and in later ones', async () => {
    const { a, torch } = await started();
    await a.run(async () => {
      const rref = python.remote('n2', box);
      expect(await rref.rpcSync().value()).toBe(7);
      const before = waiting;
      const open = python.rpcSync('n2', never);
      await expect.poll(() => waiting).toBe(before + 1);
      const died = errorMatching(RpcError, { code: 'peer-died', message: /worker 'n2' ended/, executed: 'yes' });
      const failing = expect(open).rejects.toThrow(died);
      await (torch[2] as Agent)[Symbol.asyncDispose]();
      await failing;
      const gone = errorMatching(RpcError, { code: 'unavailable', message: /worker 'n2'/ });
      await expect(python.rpcSync('n2', never)).rejects.toThrow(gone);
      // The owner of the RRef is the gateway, and alive.
      await expect(rref.rpcSync().value()).rejects.toThrow(gone);
      await expect(rref.toHere()).rejects.toThrow(gone);
      expect(await python.remote('n1', box).rpcSync().value()).toBe(7);
      rref.dispose();
    });
  });

  it('lets go of what a member held that has gone, and of nothing that another has', async () => {
    const { a, b, torch, gateway } = await started();
    const owned = (): unknown => (torch[1] as Agent).rrefs.debugInfo()['num_owner_rrefs'];
    await a.run(async () => {
      await python.remote('n1', box).confirmed();
      const shared = python.remote('n1', box);
      await rpcSync('b', keep, [shared]);
      expect(owned()).toBe(2);
    });
    await a.shutdown({ graceful: false });
    await vi.waitFor(() => expect(owned()).toBe(1), { timeout: 10_000 });
    expect(await b.run(() => (kept.get('b') as RRef<Box>).rpcSync().value())).toBe(7);
    kept.get('b')?.dispose();
    await expect.poll(() => owned()).toBe(0);
    expect(gateway.debugInfo()).toMatchObject({ num_owner_rrefs: 0, num_forks: 0 });
  });

  it('that goes is named, its RRefs have lost their owner, and the torch group goes on without them', async () => {
    const { a, gateway, torch } = await started();
    await a.run(async () => {
      const rref = python.remote('n1', box);
      expect(await rref.rpcSync().value()).toBe(7);
      const open = python.rpcSync('n1', never);
      const failing = expect(open).rejects.toThrow(/'gateway'/);
      await gateway.shutdown({ graceful: false });
      await failing;
      await expect(rref.toHere()).rejects.toMatchObject({ code: 'owner-died' });
      await expect(python.rpcSync('n1', never)).rejects.toThrow(/worker 'gateway' has left|worker 'gateway' died/);
    });
    await expect.poll(() => (torch[1] as Agent).rrefs.debugInfo()['num_owner_rrefs']).toBe(0);
    expect(await torch[0]?.run(() => rpcSync('n1', py<() => string>('ends.who')))).toBe('n1');
  });

  it('that is killed is named, at once, and its RRefs have lost their owner', async () => {
    const port = String(await freePort());
    await using cluster = new TestCluster({
      program: new URL('gateway-process.ts', import.meta.url),
      worldSize: 2,
      env: { MASTER_ADDR: '127.0.0.1', MASTER_PORT: port, BACKWIRE_SECRET: 'a secret for tests only' },
    });
    const [member, gateway] = [cluster.worker(0), cluster.worker(1)];
    await gateway.line('ready', { timeoutMs: 60_000 });
    member.send('go');
    expect(await member.line(/^value /)).toBe('value 7');
    await gateway.line('kill');
    gateway.kill('SIGKILL');
    expect(await member.line(/^open /)).toBe('open ["peer-died",true]');
    expect(await member.line(/^used /)).toBe('used ["owner-died",true]');
    expect(await member.line(/^later /)).toBe('later ["peer-died",true]');
    expect(await member.exited()).toEqual({ code: 0, signal: null });
  });

  it('that has left its torch group says so', async () => {
    const { a, torch } = await started();
    void torch[0]?.shutdown({ graceful: false });
    await expect.poll(() => torch[0]?.isClosed).toBe(true);
    await expect(a.run(() => python.rpcSync('n1', never))).rejects.toThrow(
      errorMatching(RpcError, { code: 'unavailable', message: /gateway 'gateway' has left its torch group/ }),
    );
  });

  it('ends when its program says so: nothing passes, RRefs can be let go of', async () => {
    const { a, gateway, inTorch, torch } = (all = await GatewayGroup.start('unix'));
    const end = serveGateway(inTorch, { serve, agent: gateway });
    await a.run(async () => {
      const rref = python.remote('n1', box);
      expect(await rref.rpcSync().value()).toBe(7);
      expect(() => serveGateway(inTorch, { serve, agent: gateway })).toThrow(/worker 'gateway' is a gateway already/);
      end();
      end();
      await expect(python.rpcSync('n1', never)).rejects.toMatchObject({ code: 'permission-denied' });
      await expect(rref.toHere()).rejects.toThrow(/is no gateway into a torch group any more/);
      rref.dispose();
      await expect.poll(() => (torch[1] as Agent).rrefs.debugInfo()['num_owner_rrefs']).toBe(0);
      // Another list, from now on.
      serveGateway(inTorch, { serve: [box], agent: gateway });
      await expect(python.rpcSync('n1', never)).rejects.toThrow(/does not serve 'ends\.never'/);
      await expect(python.remote('n1', box).rpcSync().value()).rejects.toThrow(/does not serve the method 'value'/);
    });
  });

  it('begins the calls of one caller in their order', async () => {
    const { a } = await started();
    seen.length = 0;
    await a.run(async () => {
      await Promise.all(Array.from({ length: 100 }, (_, i) => python.rpcSync('n1', note, [i])));
    });
    expect(seen).toEqual(Array.from({ length: 100 }, (_, i) => i));
  });

  it('is not made of anything', async () => {
    const { gateway, inTorch } = (all = await GatewayGroup.start('unix'));
    const make = (options: unknown, torch: unknown = inTorch) =>
      expect(() => serveGateway(torch as Agent, options as never));
    const agent = gateway;
    make({ serve, agent }, {}).toThrow(/takes the agent that createTorchAgent\(\) gives/);
    make(undefined).toThrow(/needs options: at least \{ serve/);
    make({ agent }).toThrow(/needs the list of what may be called/);
    make({ serve: [() => 1], agent }).toThrow(/has no name that peers know/);
    make({ serve: [never, never], agent }).toThrow(/'ends\.never' is in `serve` twice \[invalid-argument\]/);
    make({ serve: [{ make: box, methods: ['_value'] }], agent }).toThrow(
      /names that begin with a letter, got '_value'/,
    );
    make({ serve: [{ make: box }], agent }).toThrow(/the methods of what 'ends\.Box' makes are a list of names/);
    make({ serve, agent, workers: 'n1' }).toThrow(/a list of names/);
    make({ serve, agent, worker: ['n1'] }).toThrow(/unknown option 'worker'; did you mean 'workers'\?/);
    make({ serve, agent: inTorch }).toThrow(/'n0' is one of a torch group: start one with initRpc\(\)/);
    const without = await createAgent({ name: 'w', rank: 0, worldSize: 1, store: 'memory://gateway-without' });
    make({ serve, agent: without }).toThrow(/worker 'w' has no extension 'rref'/);
    await without.shutdown();
  });
});
