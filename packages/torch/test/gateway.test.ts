/** @file A gateway between a Backwire group and a torch group, without torch: what passes, and what does not. */
import {
  RemoteError,
  RpcError,
  registerErrorType,
  remoteFunction,
  rpcAsync,
  rpcClass,
  rpcFunction,
  rpcInfo,
  rpcSync,
  waitAll,
  type RpcAgent,
} from '@backwire/rpc';
import { context } from '@backwire/dist-autograd';
import { createRRef, isRRef, type RRef } from '@backwire/rref';
import { add, memory, rpcName, tensor, type Tensor } from '@backwire/tensor';
import { errorMatching } from '@backwire/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Agent } from '../src/agent.ts';
import {
  OpaqueTensor,
  PyComplex,
  PyDateTime,
  PySlice,
  PyTuple,
  TorchDType,
  TorchDevice,
  py,
  serveGateway,
  throughGateway,
} from '../src/index.ts';
import { GatewayGroup } from './gateway-group.ts';

// What the torch group offers.
rpcFunction('gate.scale', (x: Tensor, by: number) => x.mul(by));
rpcFunction('gate.hidden', () => new PySlice(createRRef(new Counter()), null));
rpcFunction('gate.total', (x: Tensor) => x.sum().item(), { scope: true });
const constant = tensor([5, 6]);
rpcFunction('gate.constant', () => constant);
rpcFunction('gate.same', (value: unknown) => value);
rpcFunction('gate.names', (values: readonly unknown[]) => values.map((value) => (value as object).constructor.name));
rpcFunction('gate.secret', () => 'nobody calls this');
rpcFunction('gate.fails', (text: string): never => {
  throw new RangeError(text);
});
/** Errors of a class that nobody in the Backwire group knows, and of one that all do. */
class OddError extends Error {}
class EvenError extends Error {}
registerErrorType(EvenError);
rpcFunction('gate.fails_strangely', (text: string): never => {
  throw text === 'odd' ? new OddError(text) : new EvenError(text);
});
let waiting = 0;
rpcFunction('gate.never', () => {
  waiting++;
  return new Promise<never>(() => undefined);
});
class Counter {
  static readonly [rpcName] = 'gate.Counter';
  count: number;
  constructor(start = 0) {
    if (start < 0) throw new RangeError('below zero');
    this.count = start;
  }
  add(n = 1): number {
    return (this.count += n);
  }
  value(): number {
    return this.count;
  }
  grown(by: Tensor): Tensor {
    return by.mul(this.count);
  }
  next(): RRef<Counter> {
    return createRRef(new Counter(this.count + 1));
  }
  secret(): string {
    return 'nobody calls this';
  }
}
rpcClass(Counter, { methods: ['add', 'value', 'grown', 'next', 'secret'] });
rpcFunction('gate.value_of', async (rref: RRef<Counter>) => rref.rpcSync().value());
rpcFunction('gate.pair', () => [createRRef(new Counter(10)), { b: createRRef(tensor([1, 2])) }]);
rpcFunction('gate.weights', () => tensor([1, 2], { requiresGrad: true }));

const names = {
  scale: py<(x: Tensor, by: number) => Tensor>('gate.scale'),
  hidden: py<() => unknown>('gate.hidden'),
  total: py<(x: Tensor) => number>('gate.total'),
  constant: py<() => Tensor>('gate.constant'),
  same: py<(value: unknown) => unknown>('gate.same'),
  names: py<(values: readonly unknown[]) => string[]>('gate.names'),
  secret: py<() => string>('gate.secret'),
  fails: py<(text: string) => never>('gate.fails'),
  failsStrangely: py<(text: string) => never>('gate.fails_strangely'),
  never: py<() => void>('gate.never'),
  Counter: py<Counter>('gate.Counter'),
  valueOf: py<(rref: RRef<Counter>) => number>('gate.value_of'),
  pair: py<() => [RRef<Counter>, Map<string, RRef<Tensor>>]>('gate.pair'),
  weights: py<() => Tensor>('gate.weights'),
};
const { secret: _, Counter: counter, pair, ...plain } = names;
const methods = ['add', 'value', 'grown', 'next'];

// What members of the Backwire group do for each other.
const fetch = rpcFunction('gateway-test/fetch', (rref: RRef<unknown>) => rref.toHere(), { scope: true });
const bump = rpcFunction('gateway-test/bump', (rref: RRef<Counter>) => rref.rpcSync().add(5), { scope: true });
const kept: RRef<Counter>[] = [];
const keep = rpcFunction('gateway-test/keep', (rref: RRef<Counter>) => void kept.push(rref));

let all: GatewayGroup;
const python = throughGateway('gateway');
const inside = <T>(fn: () => T, agent: RpcAgent = all.a): T => agent.run(fn);

describe.each(['memory', 'ws'])('over %s', (transport) => {
  let end: () => void;
  beforeAll(async () => {
    all = await GatewayGroup.start(transport);
    end = serveGateway(all.inTorch, {
      serve: [...Object.values(plain), add, { make: counter, methods }, { make: pair, methods: ['value'] }],
      workers: ['n1'],
      agent: all.gateway,
    });
  }, 60_000);
  afterEach(() => all.isEmpty());
  afterAll(async () => {
    end();
    await all.end();
  });

  it('passes calls with tensors, keyword arguments and operators, by name and by id', async () => {
    await inside(async () => {
      expect((await python.rpcSync('n1', names.scale, [tensor([1, 2]), 3])).toArray()).toEqual([3, 6]);
      expect((await python.rpcAsync(1, names.scale, [tensor([1, 2]), 4])).toArray()).toEqual([4, 8]);
      expect((await python.rpcSync('n1', add, [tensor([1, 2]), 1])).toArray()).toEqual([2, 3]);
      expect(await python.rpcSync('n1', names.same, [py.kwargs({ value: 3 })])).toEqual(new Map([['value', 3]]));
      const large = tensor(new Float32Array(1 << 20).fill(2));
      const back = await python.rpcSync('n1', names.scale, [large, 2]);
      expect([back.shape, back.sum().item()]).toEqual([[1 << 20], 4 << 20]);
    });
  });

  it('passes the values of Python as what they are', async () => {
    await inside(async () => {
      const values = [py.float(1), new PyComplex(1, 2), new TorchDevice('cuda', 1), PyDateTime.from(new Date(5_000))];
      expect(await python.rpcSync('n1', names.same, [values])).toEqual([1, ...values.slice(1)]);
      const dtype = TorchDType.named('float16');
      expect(await python.rpcSync('n1', names.same, [dtype])).toBe(dtype);
      // Only what a program has made a tuple is one there; those that come from there are lists to others.
      expect(await python.rpcSync('n1', names.names, [[py.tuple<unknown>(1, py.tuple(2)), [1]]])).toEqual([
        'PyTuple',
        'Array',
      ]);
      const tuple = await python.rpcSync('n1', names.same, [py.tuple<unknown>(1, py.tuple(2))]);
      expect([tuple, tuple instanceof PyTuple]).toEqual([[1, [2]], false]);
      const opaque = new OpaqueTensor('complex128', tensor(new Uint8Array(32), { shape: [2, 16] }));
      const echoed = (await python.rpcSync('n1', names.same, [opaque])) as OpaqueTensor;
      expect([echoed.dtype, echoed.shape]).toEqual(['complex128', [2]]);
      const forged = Object.assign(Object.create(OpaqueTensor.prototype) as object, {
        dtype: 'complex128',
        bytes: tensor(new Uint8Array(2), { shape: [2, 1] }),
      });
      await expect(python.rpcSync('n1', names.same, [forged])).rejects.toMatchObject({
        code: 'decode-error',
        executed: 'no',
      });
    });
  });

  it('frees tensors when they have passed', () =>
    inside(async () => {
      const pass = async (): Promise<void> => {
        using x = tensor([1, 2]);
        expect(await python.rpcSync('n1', names.total, [x])).toBe(3);
        using y = await python.rpcSync('n1', names.constant);
        expect(y.toArray()).toEqual([5, 6]);
      };
      await pass();
      const before = memory().tensors;
      for (let i = 0; i < 20; i++) await pass();
      expect(memory().tensors).toBe(before);
    }));

  it('is waited for by waitAll where it is asked to be', () =>
    inside(async () => {
      await expect(waitAll(() => void python.rpcAsync('n1', names.fails, ['seen']))).rejects.toThrow('seen');
    }));

  it('gives errors their class, text and stack', async () => {
    const error = await inside(() => python.rpcSync('n1', names.fails, ['bad é'])).catch((thrown: unknown) => thrown);
    // RangeError is ValueError in Python; its own name is in the text between two workers of this kind.
    expect(error).toEqual(new RangeError('bad é'));
    expect(rpcInfo(error)).toMatchObject({ code: 'remote-error', executed: 'yes', remoteName: 'RangeError' });
    expect((rpcInfo(error) as RemoteError).remoteStack).toMatch(
      /On WorkerInfo\(id=1, name=n1\):\n.*gateway\.test\.ts/s,
    );
    const call = (text: string): Promise<unknown> => inside(() => python.rpcSync('n1', names.failsStrangely, [text]));
    const odd = errorMatching(RemoteError, { message: /:\nOddError: odd \[remote-error\]$/, remoteName: 'OddError' });
    await expect(call('odd')).rejects.toThrow(odd);
    await expect(call('even')).rejects.toThrow(new EvenError('even'));
  });

  it('refuses what it does not serve, by name', async () => {
    await inside(async () => {
      const denied = (message: RegExp) =>
        errorMatching(RpcError, { code: 'permission-denied', executed: 'no', message });
      await expect(python.rpcSync('n1', names.secret)).rejects.toThrow(
        denied(/gateway 'gateway' does not serve 'gate\.secret': name it in `serve`/),
      );
      const os = py<(command: string) => number>('os.system');
      await expect(python.rpcSync('n1', os, ['true'])).rejects.toThrow(denied(/does not serve 'os\.system'/));
      using made = python.remote('n1', names.secret);
      await expect(made.toHere()).rejects.toThrow(denied(/does not serve 'gate\.secret'/));
      await expect(python.rpcSync('n2', names.same, [1])).rejects.toThrow(denied(/does not let worker 'n2' be called/));
      await expect(python.rpcSync('n9', names.same, [1])).rejects.toThrow(denied(/does not let worker 'n9' be called/));
      await expect(python.rpcSync(2, names.same, [1])).rejects.toThrow(denied(/does not let worker 'n2' be called/));
      await expect(python.rpcSync(9, names.same, [1])).rejects.toMatchObject({ code: 'not-found', executed: 'no' });
      using counting = python.remote('n1', counter, [1]);
      await expect(counting.rpcSync().secret()).rejects.toThrow(
        denied(/does not serve the method 'secret' of what 'gate\.Counter' makes/),
      );
      using secret = counting.remote().secret();
      await expect(secret.toHere()).rejects.toThrow(denied(/does not serve the method 'secret'/));
      // Names of the torch agent's own, and calls that are none.
      const call = remoteFunction('backwire.torch/gateway.call');
      await expect(rpcSync('gateway', call, [{}, 'gate.same', []])).rejects.toMatchObject({ code: 'decode-error' });
      const invoke = 'py:torch.distributed.rpc.rref_proxy._local_invoke';
      await expect(rpcSync('gateway', call, ['n1', invoke, []])).rejects.toMatchObject({ code: 'permission-denied' });
      await expect(rpcSync('gateway', call, ['n1', '__proto__', []])).rejects.toMatchObject({
        code: 'permission-denied',
      });
    });
    // The other members are none.
    await expect(inside(() => throughGateway('b').rpcSync('n1', names.same, [1]))).rejects.toThrow(
      /worker 'b' is no gateway: call serveGateway\(\) on it .*\[failed-precondition\]/,
    );
  });

  it('passes the time limit: nobody waits in the torch group either', async () => {
    const late = inside(() => python.rpcSync('n1', names.never, [], { timeoutMs: 80 }));
    await expect.poll(() => all.inTorch.caller.active).toBe(1);
    await expect(late).rejects.toMatchObject({ code: 'deadline-exceeded' });
    await expect.poll(() => all.inTorch.caller.active).toBe(0);
    const made = inside(() => python.remote('n1', names.never, [], { timeoutMs: 80 }));
    await expect(made.toHere()).rejects.toMatchObject({ code: 'deadline-exceeded' });
    made.dispose();
  });

  it('says that the time is over, and not that something was cancelled, whoever notices first', () =>
    inside(async () => {
      for (let timeoutMs = 1; timeoutMs <= 20; timeoutMs++) {
        using made = python.remote('n1', names.never, [], { timeoutMs });
        const late = python.rpcSync('n1', names.never, [], { timeoutMs });
        await Promise.all([
          expect(late).rejects.toMatchObject({ code: 'deadline-exceeded' }),
          expect(made.toHere()).rejects.toMatchObject({ code: 'deadline-exceeded' }),
        ]);
      }
    }));

  it('passes the signal', async () => {
    const controller = new AbortController();
    const before = waiting;
    const call = inside(() => python.rpcSync('n1', names.never, [], { signal: controller.signal, timeoutMs: 0 }));
    await expect.poll(() => waiting).toBe(before + 1);
    expect(all.inTorch.caller.active).toBe(1);
    controller.abort(new Error('enough'));
    await expect(call).rejects.toMatchObject({ code: 'cancelled', cause: new Error('enough') });
    await expect.poll(() => all.inTorch.caller.active).toBe(0);
  });

  it('makes objects, whose RRef is used by its holder and by others, and lets go of them when nobody has it', async () => {
    const rref = inside(() => python.remote('n1', counter, [40]));
    expect([isRRef(rref), rref.ownerName()]).toEqual([true, 'gateway']);
    expect(await rref.rpcSync().add(2)).toBe(42);
    expect(await inside(() => rpcSync('b', bump, [rref]))).toBe(47);
    expect(await rref.typeName()).toBe('Counter');
    expect((await rref.rpcAsync().grown(tensor([1, 2]))).toArray()).toEqual([47, 94]);
    await inside(() => rpcSync('b', keep, [rref]));
    rref.dispose();
    await expect.poll(() => all.a.debugInfo()).toMatchObject({ num_forks: 0, num_pending_users: 0 });
    const [held] = kept.splice(0) as [RRef<Counter>];
    expect(await inside(() => held.rpcSync().value(), all.b)).toBe(47);
    expect((all.torch[1] as Agent).rrefs.debugInfo()).toMatchObject({ num_owner_rrefs: 1 });
    held.dispose();
    await all.isEmpty();
  });

  it('gives copies of what is there to two members', async () => {
    const rref = inside(() => python.remote('n1', names.scale, [tensor([1, 2]), 5]));
    expect((await rref.toHere()).toArray()).toEqual([5, 10]);
    const copy = await inside(() => rpcSync('b', fetch, [rref]));
    expect((copy as Tensor).toArray()).toEqual([5, 10]);
    rref.dispose();
  });

  it('keeps results of methods there', async () => {
    using rref = inside(() => python.remote('n1', counter, [3]));
    using grown = rref.remote().grown(tensor([1, 2]));
    expect((await grown.toHere()).toArray()).toEqual([3, 6]);
    expect(((await inside(() => rpcSync('b', fetch, [grown]))) as Tensor).toArray()).toEqual([3, 6]);
  });

  it('takes its RRefs as arguments, at any depth, and refuses others before anything is sent', async () => {
    await inside(async () => {
      using rref = python.remote('n1', counter, [7]);
      expect(await python.rpcSync('n1', names.valueOf, [rref])).toBe(7);
      expect(await rpcAsync('b', remoteFunction('gateway-test/value'), [rref])).toBe(7);
      const nested = await python.rpcSync('n1', names.same, [[{ rref }, py.tuple(rref), new Set([rref])]]);
      const [map, [inTuple], set] = nested as [Map<string, RRef<Counter>>, [RRef<Counter>], Set<RRef<Counter>>];
      for (const each of [map.get('rref'), inTuple, ...set] as RRef<Counter>[]) {
        expect(each.ownerName()).toBe('gateway');
        each.dispose();
      }
      const hidden = python.rpcSync('n1', names.same, [[new PySlice(rref, null)]]);
      await expect(hidden).rejects.toThrow(/an RRef inside of a PySlice cannot pass a gateway: give it by itself/);
      await expect(python.rpcSync('n1', names.hidden)).rejects.toThrow(/an RRef inside of a PySlice cannot pass/);
      const own = createRRef(new Counter());
      await expect(python.rpcSync('n1', names.valueOf, [own])).rejects.toThrow(
        /of worker 'a' cannot go into the torch group: only RRefs of what is there can; give its value, await rref.toHere\(\)/,
      );
      own.dispose();
    });
  });

  it('gives RRefs that come from there as its own, with the methods that are served', async () => {
    await inside(async () => {
      const [ten, map] = await python.rpcSync('n1', names.pair);
      const two = map.get('b') as RRef<Tensor>;
      expect([ten.ownerName(), two.ownerName()]).toEqual(['gateway', 'gateway']);
      expect(await ten.rpcSync().value()).toBe(10);
      await expect(ten.rpcSync().add(1)).rejects.toMatchObject({ code: 'permission-denied' });
      expect((await two.toHere()).toArray()).toEqual([1, 2]);
      ten.dispose();
      two.dispose();
      using rref = python.remote('n1', counter, [1]);
      const next = await rref.rpcSync().next();
      expect(await next.rpcSync().add(1)).toBe(3);
      next.dispose();
    });
  });

  it('says why there is no object, wherever its RRef is used', async () => {
    const rref = inside(() => python.remote('n1', counter, [-1]));
    await expect(rref.toHere()).rejects.toThrow(new RangeError('below zero'));
    await expect(inside(() => rpcSync('b', fetch, [rref]))).rejects.toThrow(new RangeError('below zero'));
    await expect(rref.rpcSync().value()).rejects.toThrow(new RangeError('below zero'));
    rref.dispose();
    const nowhere = inside(() => python.remote('n2', counter, [1]));
    await expect(nowhere.rpcSync().value()).rejects.toThrow(/does not let worker 'n2' be called/);
    nowhere.dispose();
  });

  it('lets go of what is made when nobody waits for it any more', async () => {
    const controller = new AbortController();
    const rref = inside(() => python.remote('n1', counter, [1], { signal: controller.signal }));
    controller.abort();
    await expect(rref.toHere()).rejects.toMatchObject({ code: 'cancelled' });
    rref.dispose();
    const unused = inside(() => python.remote('n1', counter, [1]));
    unused.dispose();
  });

  it('refuses to lose gradients', async () => {
    await inside(() =>
      context(async (id) => {
        const w = tensor([1, 2], { requiresGrad: true });
        const refused = (message: RegExp) => errorMatching(RpcError, { code: 'failed-precondition', message });
        await expect(python.rpcSync('n1', names.scale, [w, 2])).rejects.toThrow(
          refused(
            /an argument of 'gate\.scale' has tensors that require gradients, which do not pass a gateway: detach/,
          ),
        );
        await expect(python.rpcSync('n1', names.weights)).rejects.toThrow(
          refused(/the result of 'gate\.weights' has tensors that require gradients/),
        );
        using rref = python.remote('n1', counter, [2]);
        await expect(rref.rpcSync().grown(w)).rejects.toThrow(refused(/an argument of 'gate\.Counter\(\)\.grown'/));
        using grown = rref.remote().grown(w);
        await expect(grown.toHere()).rejects.toThrow(refused(/do not pass a gateway/));
        expect((await python.rpcSync('n1', names.scale, [w.detach(), 2])).toArray()).toEqual([2, 4]);
        using far = python.remote('n1', names.scale, [w.detach(), 2]);
        await expect(far.backward(id)).rejects.toThrow(refused(/outside of this group: no backward pass goes there/));
      }),
    );
    // Outside of contexts they are leaves, as between two workers of torch.
    expect((await inside(() => python.rpcSync('n1', names.weights))).requiresGrad).toBe(true);
  });

  it('serves its own process, too', async () => {
    await inside(async () => {
      expect(await python.rpcSync('n1', names.same, [1])).toBe(1);
      const rref = python.remote('n1', counter, [1]);
      expect(await rref.rpcSync().add(1)).toBe(2);
      const local = (await rref.localValue()) as unknown as RRef<Counter>;
      expect(await all.inTorch.run(() => local.rpcSync().add(1))).toBe(3);
      rref.dispose();
    }, all.gateway);
  });
});
rpcFunction('gateway-test/value', (rref: RRef<Counter>) => rref.rpcSync().value(), { scope: true });
