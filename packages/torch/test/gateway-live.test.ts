/** @file A gateway in front of a worker of stock torch. Skipped without a Python with torch. */
import {
  RemoteError,
  RpcError,
  createAgent,
  registerErrorType,
  rpcFunction,
  rpcSync,
  type RpcAgent,
} from '@backwire/rpc';
import { rrefs, type RRef } from '@backwire/rref';
import { add, tensor, type Tensor } from '@backwire/tensor';
import { errorMatching, freePort } from '@backwire/testing';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { py, serveGateway, throughGateway, type PyKwargs } from '../src/index.ts';
import type { Counter, Net } from './mixed-functions.ts';
import { Python, torchVersion, withTorch } from './python.ts';
import { member } from './member.ts';

class CustomError extends Error {}
registerErrorType(CustomError);

const same = py<(value: unknown) => unknown>('model.same');
const keywords = py<(a: number, more: PyKwargs) => number[]>('model.keywords');
const fails = py<(text: string) => never>('model.fails');
const failsStrangely = py<(text: string) => never>('model.fails_strangely');
const slow = py<(seconds: number) => string>('model.slow');
const typeName = py<(value: unknown) => string>('model.type_name');
const later = py.asyncExecution<(to: string, a: Tensor) => Tensor>('model.later');
const scripted = py.script<(a: Tensor, b: number) => Tensor>('model.scripted');
const counter = py<Counter>('model.Counter');
const local = py<(rref: RRef<number>) => number>('model.fetched');
const make = py<(value: number) => RRef<number>>('model.make');
const net = py<Net>('model.Net');
const serve = [
  ...[same, keywords, fails, failsStrangely, slow, typeName, scripted, later, local, make, add],
  { make: counter, methods: ['add'] },
  { make: net, methods: ['forward', 'parameter_rrefs'] },
];
const fetch = rpcFunction('live-gateway/fetch', (rref: RRef<unknown>) => rref.toHere(), { scope: true });

describe.skipIf(torchVersion === undefined)(withTorch, { timeout: 60_000 }, () => {
  let torch: Agent;
  let first: Python;
  let second: Python;
  const agents: RpcAgent[] = [];
  const python = throughGateway('gateway');
  const inside = <T>(fn: () => T): T => (agents[1] as RpcAgent).run(fn);

  beforeAll(async () => {
    const init = `tcp://127.0.0.1:${await freePort()}`;
    const started = ['py0', 'py1'].map((name, rank) => Python.start({ name, rank, init }));
    [first, second] = started.map((each) => each.python) as [Python, Python];
    await started[0]?.ready;
    await started[1]?.ready;
    torch = await member({
      name: 'node',
      membership: 'dynamic',
      initMethod: init,
      trustNetwork: true,
      initTimeoutMs: 60_000,
      logger: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
    });
    const store = `memory://live-gateway-${process.pid}`;
    const starting = ['gateway', 'member', 'other', 'leaving'].map((name, rank) =>
      createAgent({ name, rank, worldSize: 4, store, serve: rank === 0 ? [] : 'all-defined', extensions: [rrefs()] }),
    );
    agents.push(...(await Promise.all(starting)));
    serveGateway(torch, { serve, agent: agents[0] });
  }, 120_000);

  afterAll(async () => {
    await Promise.all(agents.map((agent) => agent.shutdown({ graceful: false })));
    await torch?.shutdown({ graceful: false, timeoutMs: 10_000 });
    await first?.end();
    await second?.kill();
  }, 60_000);

  /** What Python keeps for others. */
  const owned = async (): Promise<string> => first.run("int(rpc._rref_context_get_debug_info()['num_owner_rrefs'])");

  it('calls functions, operators and TorchScript, with what Python wants to be given', () =>
    inside(async () => {
      expect((await python.rpcSync('py0', add, [tensor([1, 2]), tensor([3, 4])])).toArray()).toEqual([4, 6]);
      expect((await python.rpcSync('py0', scripted, [tensor([1, 2]), 3])).toArray()).toEqual([3, 6]);
      expect(await python.rpcSync('py0', keywords, [1, py.kwargs({ c: 5 })])).toEqual([1, 2, 5]);
      const values: readonly (readonly [unknown, string])[] = [
        [py.float(1), 'float'],
        [1, 'int'],
        [py.tuple(1, 2), 'tuple'],
        [[1], 'list'],
        [{ a: 1 }, 'dict'],
        [tensor([1]), 'Tensor'],
      ];
      for (const [value, type] of values) expect(await python.rpcSync('py0', typeName, [value])).toBe(type);
      expect(await python.rpcSync('py0', same, [new Map([['a', [1, 'é', null]]])])).toEqual(
        new Map([['a', [1, 'é', null]]]),
      );
    }));

  it('waits for what Python runs asynchronously', () =>
    inside(async () => {
      expect((await python.rpcSync('py0', later, ['py1', tensor([1, 2])])).toArray()).toEqual([2, 4]);
    }));

  it('serves several members at once, and lets go in Python of what one held that has gone', async () => {
    const counters = agents.slice(1).map((agent, i) => agent.run(() => python.remote('py0', counter, [100 * i])));
    await Promise.all(counters.flatMap((each) => Array.from({ length: 50 }, () => each.rpcSync().add(1))));
    expect(await Promise.all(counters.map((each) => each.rpcSync().add(0)))).toEqual([50, 150, 250]);
    expect(await owned()).toBe('3');
    await agents[3]?.shutdown({ graceful: false });
    await vi.waitFor(async () => expect(await owned()).toBe('2'), { timeout: 20_000 });
    expect(await counters[1]?.rpcSync().add(1)).toBe(151);
    for (const each of counters.slice(0, 2)) each.dispose();
    await vi.waitFor(async () => expect(await owned()).toBe('0'), { timeout: 10_000 });
  });

  it('throws what Python raises: class, text and stack', async () => {
    const error = await inside(() => python.rpcSync('py0', fails, ['bad\nvalue'])).catch((thrown: unknown) => thrown);
    expect(error).toEqual(
      expect.objectContaining({ code: 'remote-error', remoteName: 'ValueError', executed: 'yes' }) as unknown,
    );
    expect(error).toBeInstanceOf(RemoteError);
    expect((error as Error).message).toBe('On WorkerInfo(id=0, name=gateway):\nValueError: bad\nvalue [remote-error]');
    expect((error as RemoteError).remoteStack).toMatch(/name=py0.*torch_model\.py", line \d+, in fails/s);
    await expect(inside(() => python.rpcSync('py0', failsStrangely, ['odd']))).rejects.toThrow(new CustomError('odd'));
    await expect(inside(() => python.rpcSync('py0', add, [tensor([1, 2]), tensor([1, 2, 3])]))).rejects.toThrow(
      /size of tensor a/,
    );
  });

  it('lets nothing else through', () =>
    inside(async () => {
      await expect(python.rpcSync('py0', py('os.system'), ['true'])).rejects.toMatchObject({
        code: 'permission-denied',
        executed: 'no',
      });
      using made = python.remote('py0', counter, [1]);
      await expect((made.rpcSync() as never as Net).forward(tensor([1]))).rejects.toMatchObject({
        code: 'permission-denied',
      });
    }));

  it('makes objects in Python, which two members use, and which go with the last of them', async () => {
    const rref = inside(() => python.remote('py0', counter, [40]));
    expect(await rref.rpcSync().add(1)).toBe(41);
    expect(await rref.typeName()).toBe('Counter');
    expect(await owned()).toBe('1');
    using sum = rref.remote().add(1);
    expect(await sum.toHere()).toBe(42);
    expect(await inside(() => rpcSync('other', fetch, [sum]))).toBe(42);
    expect(await inside(() => python.rpcSync('py1', local, [sum]))).toBe(42);
    const given = await inside(() => python.rpcSync('py0', make, [9]));
    expect([given.ownerName(), await given.toHere()]).toEqual(['gateway', 9]);
    given.dispose();
    sum.dispose();
    rref.dispose();
    await vi.waitFor(async () => expect(await owned()).toBe('0'), { timeout: 10_000 });
    expect(torch.rrefs.debugInfo()).toMatchObject({ num_owner_rrefs: 0, num_pending_users: 0 });
  });

  it('calls a module, and gives references to its parameters', async () => {
    const model = inside(() => python.remote('py0', net, [3]));
    const y = await model.rpcSync().forward(tensor([[1, 2, 3]]));
    expect(y.shape).toEqual([1, 2]);
    const parameters = await model.rpcSync().parameter_rrefs();
    expect((await Promise.all(parameters.map((each) => each.toHere()))).map(({ shape }) => shape)).toEqual([
      [2, 3],
      [2],
    ]);
    for (const each of parameters) each.dispose();
    model.dispose();
    await vi.waitFor(async () => expect(await owned()).toBe('0'), { timeout: 10_000 });
  });

  it('stops waiting when the time is over, or the caller says so', async () => {
    await expect(
      inside(() => python.rpcSync('py0', slow, [py.float(1) as never], { timeoutMs: 100 })),
    ).rejects.toMatchObject({
      code: 'deadline-exceeded',
    });
    const controller = new AbortController();
    const call = inside(() => python.rpcSync('py0', slow, [py.float(1) as never], { signal: controller.signal }));
    await expect.poll(() => torch.caller.active).toBe(1);
    controller.abort();
    await expect(call).rejects.toMatchObject({ code: 'cancelled' });
    await expect.poll(() => torch.caller.active).toBe(0);
  });

  it('names a worker of Python that is killed', async () => {
    const rref = inside(() => python.remote('py1', counter, [1]));
    expect(await rref.rpcSync().add(1)).toBe(2);
    const call = inside(() => python.rpcSync('py1', slow, [py.float(20) as never]));
    const failing = expect(call).rejects.toThrow(
      errorMatching(RpcError, { code: 'peer-died', message: /the connection to worker 'py1' ended/ }),
    );
    await expect.poll(() => torch.caller.active).toBe(1);
    await second.kill();
    await failing;
    await expect(rref.rpcSync().add(1)).rejects.toThrow(/worker 'py1' cannot be reached/);
    expect(await inside(() => python.rpcSync('py0', same, [1]))).toBe(1);
    rref.dispose();
  });
});
