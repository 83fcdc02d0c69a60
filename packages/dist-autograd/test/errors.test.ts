import { describe, expect, it } from 'vitest';
import {
  createAgent,
  registerErrorType,
  RemoteError,
  RpcError,
  rpcAsync,
  rpcFunction,
  rpcInfo,
  rpcSync,
} from '@backwire/rpc';
import { errorMatching, shown, type ErrorMatcher } from '@backwire/testing';
import { rrefs } from '@backwire/rref';
import { add, customFunction, div, matmul, mul, tensor, type Tensor } from '@backwire/tensor';
import { expectClean, filled, leaf, unknownContext, useAgents } from './agents.ts';
import { backward, context, distAutograd, distAutogradDebugInfo, getGradients } from '../src/index.ts';
import { sessionOf } from '../src/internal.ts';
import { MAX_FUNCTIONS } from '../src/limits.ts';
import { Context, ContextTable } from '../src/protocol/context.ts';

const { at, agents, everywhere } = useAgents('errors', 4, { onLeak: 'throw' });
/** The worker so many after this one. */
const after = (rank: number, by: number): string => `w${(rank + by) % 4}`;

let broken = true;
const simulate = customFunction({
  forward: (_ctx, x) => x.clone(),
  backward: (_ctx, grad) => {
    if (broken) throw new Error('Simulate error on backward pass');
    return [grad];
  },
});
const breaks = rpcFunction('errors/breaks', (x: Tensor) => simulate(x));
/** PyTorch's product of four matrices, the last of which is `last` of the third: a sum of the first two. */
const product = (a: Tensor, b: Tensor, last: (sum: Tensor) => Tensor): Tensor => {
  const sum = a.add(b);
  return a.matmul(b).matmul(sum).matmul(last(sum));
};
const productBreaks = rpcFunction('errors/productBreaks', (a: Tensor, b: Tensor) => product(a, b, simulate));
const breaksOn = rpcFunction('errors/breaksOn', async (rest: readonly string[], x: Tensor): Promise<Tensor> => {
  const [next, ...after] = rest;
  return next === undefined ? simulate(x.mul(2)) : (await rpcAsync(next, breaksOn, [after, x])).mul(1);
});
const nestedBreaks = rpcFunction('errors/nestedBreaks', async (to: string, a: Tensor, b: Tensor) => {
  const [c, d] = [a.mul(b), a.mul(b).add(b)];
  return c.matmul(d).matmul(await rpcSync(to, productBreaks, [c, d]));
});
/** Whole numbers up to three. */
const small = (from: number): Tensor =>
  tensor(
    Array.from({ length: 9 }, (_, i) => 1 + ((i + from) % 3) - (i === 4 ? 1 : 0)),
    { shape: [3, 3], dtype: 'float32', requiresGrad: true },
  );
const setBroken = (value: boolean): void => void (broken = value);

/** A hook on the path of gradients runs `fn` once they come by. */
function whenReached(t: Tensor, fn: () => void): Tensor {
  const out = t.mul(1);
  out.registerHook(() => fn());
  return out;
}
let hookOnOwner: () => void = () => undefined;
const observed = rpcFunction('errors/observed', (x: Tensor) => whenReached(x.mul(2), () => hookOnOwner()));

class OutOfTune extends Error {}
registerErrorType(OutOfTune);
class Unknown extends Error {}

/** Whether `pass` has not ended after so many milliseconds. */
const stillWaits = (pass: Promise<unknown>, ms: number): Promise<boolean> =>
  Promise.race([
    pass.then(
      () => false,
      () => false,
    ),
    new Promise<boolean>((resolve) => setTimeout(resolve, ms, true)),
  ]);
const outOfTime = errorMatching(RpcError, {
  code: 'deadline-exceeded',
  message: 'RPC ran for more than set timeout (150 ms)',
});

/** What a pass whose context is left says. */
const left = (rank: number, id: bigint): ErrorMatcher =>
  errorMatching(RpcError, {
    code: 'failed-precondition',
    message: `Error on Node ${rank}: autograd context ${id} was released during the backward pass: await backward() before`,
  });

describe('calls that the roots do not depend on', () => {
  const unused = async (rank = 0): Promise<{ loss: Tensor; a: Tensor }> => {
    const a = leaf([2], 1);
    await rpcSync(after(rank, 1), add, [a, a]);
    const used = await rpcSync(after(rank, 1), mul, [a, a]);
    await rpcSync(after(rank, 2), add, [a, used]);
    return { loss: used.sum(), a };
  };

  it('are no hindrance', () =>
    at(0, () =>
      context(async (id) => {
        const { loss, a } = await unused();
        await backward(id, [loss]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
      }),
    ));

  it('keep a fast pass waiting until its time is up, after which the context is as before', async () => {
    const unlimited: [pass: Promise<unknown>, failure: ErrorMatcher][] = [];
    await everywhere(async (rank) => {
      await context(async (id) => {
        const [a, b] = [leaf([3, 3], 1), leaf([3, 3], 2)];
        await rpcSync(after(rank, 1), add, [a, b]);
        // No call is behind this root.
        const here = a.mul(b).sum();
        const fast = backward(id, [here], { mode: 'fast', timeoutMs: 150, retainGraph: true });
        expect(await stillWaits(fast, 100)).toBe(true);
        await expect(fast).rejects.toThrow(outOfTime);
        expect(getGradients(id).size).toBe(0);
        await backward(id, [here]);
        const grads = getGradients(id);
        expect([a, b].map((t) => shown(grads.get(t)!))).toEqual([shown(filled([3, 3], 2)), shown(filled([3, 3], 1))]);
      });
      await context(async (id) => {
        const [a, b] = [leaf([3, 3], 1), leaf([3, 3], 2)];
        await rpcSync(after(rank, 1), add, [a, b]);
        const fast = backward(id, [a.mul(b).sum()], { mode: 'fast' }).catch((e: unknown) => e);
        unlimited.push([fast, left(rank, id)]);
        // That of calls, a minute, is its time: it waits until the context is left.
        expect(await stillWaits(fast, 500)).toBe(true);
      });
      await context(async (id) => {
        const { loss, a } = await unused(rank);
        const fast = backward(id, [loss], { mode: 'fast', timeoutMs: 150, retainGraph: true });
        expect(await stillWaits(fast, 100)).toBe(true);
        await expect(fast).rejects.toThrow(outOfTime);
        expect(getGradients(id).size).toBe(0);
        await backward(id, [loss]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
      });
    });
    for (const [pass, failure] of unlimited) expect(await pass).toEqual(failure);
    await expectClean(agents);
  });

  it('do not matter to a fast pass when there are none', () =>
    at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        const out = await rpcSync('w1', mul, [await rpcSync('w2', add, [a, a]), a]);
        await backward(id, [out.sum()], { mode: 'fast' });
        expect(getGradients(id).get(a)?.toArray()).toEqual([4, 4]);
      }),
    ));
});

describe('an error on the way', () => {
  it.each([
    ['next door', ['w1'], 'Error on Node 0: Error on Node 1: Simulate error on backward pass'],
    [
      'far away',
      ['w1', 'w2', 'w3'],
      'Error on Node 0: Error on Node 1: Error on Node 2: Error on Node 3: Simulate error on backward pass',
    ],
    ['here, after a round trip', ['w1', 'w0'], 'Error on Node 0: Simulate error on backward pass'],
  ] as const)('%s reaches the origin with its path, and leaves nothing behind', async (_, route, text) => {
    setBroken(true);
    await at(0, async () => {
      await context(async (id) => {
        const a = leaf([2], 1);
        const [first, ...rest] = route;
        const out = await rpcSync(first, breaksOn, [rest, a]);
        const side = await rpcSync('w1', add, [a, a]);
        await expect(backward(id, [out.add(side).sum()])).rejects.toThrow(new Error(text));
        expect(getGradients(id).size).toBe(0);
      });
    });
    await expectClean(agents);
  });

  it('of the first function of a long chain over all workers comes after all the others', async () => {
    setBroken(true);
    await everywhere((rank) =>
      context(async (id) => {
        const [a, b] = [leaf([3, 3], 1), leaf([3, 3], 2)];
        const first = simulate(a.add(b).mul(a.add(b)));
        let value = await rpcSync(after(rank, 1), add, [b, first]);
        value = await rpcSync(after(rank, 2), mul, [value, b]);
        value = await rpcSync(after(rank, 3), matmul, [value, b]);
        value = await rpcSync(after(rank, 1), div, [value, b]);
        await expect(backward(id, [value.sum()])).rejects.toThrow(
          new Error(`Error on Node ${rank}: Simulate error on backward pass`),
        );
        expect(getGradients(id).size).toBe(0);
      }),
    );
    await expectClean(agents);
  });

  it('of a function that another one asked for, elsewhere, is the error of the pass', async () => {
    setBroken(true);
    await everywhere((rank) =>
      context(async (id) => {
        const [to, third] = [after(rank, 1), after(rank, 2)];
        const out = await rpcSync(to, nestedBreaks, [third, leaf([3, 3], 1), leaf([3, 3], 2)]);
        const path = [rank, (rank + 1) % 4, (rank + 2) % 4].map((node) => `Error on Node ${node}: `).join('');
        await expect(backward(id, [out.sum()])).rejects.toThrow(new Error(`${path}Simulate error on backward pass`));
        expect(getGradients(id).size).toBe(0);
      }),
    );
    await expectClean(agents);
  });

  it.each([
    ['a standard class', RangeError],
    ['a registered class', OutOfTune],
    ['a class of its own', Unknown],
  ])('of %s arrives as an error of a call would, here and there', async (_, ctor) => {
    await at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        for (const where of ['w0', 'w1']) {
          hookOnOwner = () => {
            throw new ctor('too far');
          };
          const error: unknown = await backward(id, [(await rpcSync(where, observed, [a])).sum()]).catch(
            (e: unknown) => e,
          );
          const known = ctor !== Unknown;
          expect((error as Error).constructor).toBe(known ? ctor : where === 'w0' ? Error : RemoteError);
          expect((error as Error).message).toContain('too far');
          const inner = known ? (error as Error).cause : error;
          if (where === 'w1') expect(inner).toMatchObject({ remoteName: ctor.name, peer: undefined });
          else expect((error as Error).cause).toBeInstanceOf(ctor);
        }
      }),
    );
    hookOnOwner = () => undefined;
    await expectClean(agents);
  });

  it('fifty times does not stop the next pass, which alone counts', async () => {
    setBroken(true);
    let failing = agents.length;
    await everywhere((rank) =>
      context(async (id) => {
        const [a, b] = [small(0), small(1)];
        // The gradients of a run here: whole numbers, fifty of which add up exactly.
        product(a, b, (sum) => sum)
          .add(a.add(b))
          .sum()
          .backward();
        const once = [a, b].map((t) => t.grad as Tensor);
        const [next, other] = [after(rank, 1), after(rank, 2)];
        // Nothing fails behind the other call.
        const loss = (await rpcSync(next, productBreaks, [a, b])).add(await rpcSync(other, add, [a, b])).sum();
        const message = `Error on Node ${rank}: Error on Node ${(rank + 1) % 4}: Simulate error on backward pass`;
        for (let i = 0; i < 50; i++)
          await expect(backward(id, [loss], { retainGraph: true })).rejects.toThrow(new Error(message));
        expect(getGradients(id).size).toBe(0);
        // All of them share the switch.
        if (--failing === 0) setBroken(false);
        await expect.poll(() => failing, { timeout: 20_000 }).toBe(0);
        for (let i = 1; i <= 50; i++) {
          await backward(id, [loss], { retainGraph: true });
          const grads = getGradients(id);
          expect(grads.size).toBe(2);
          expect([a, b].map((t) => shown(grads.get(t)!))).toEqual(once.map((grad) => shown(grad.mul(i))));
        }
      }),
    );
    await expectClean(agents);
  });

  it('of a peer is a RemoteError with the class that was thrown; of this worker it has the error as its cause', async () => {
    setBroken(true);
    await at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        const remote: unknown = await backward(id, [(await rpcSync('w1', breaks, [a])).sum()]).catch((e: unknown) => e);
        expect(rpcInfo(remote)).toMatchObject({ code: 'remote-error', remoteName: 'Error' });
        const local: unknown = await backward(id, [simulate(await rpcSync('w1', add, [a, a])).sum()]).catch(
          (e: unknown) => e,
        );
        expect((local as Error).cause).toEqual(new Error('Simulate error on backward pass'));
      }),
    );
  });
});

describe('a pass that is stopped', () => {
  it('by its signal fails with the reason, everywhere', async () => {
    await at(0, async () => {
      await context(async (id) => {
        const a = leaf([2], 1);
        const stop = new AbortController();
        const reason = new Error('changed my mind');
        hookOnOwner = () => stop.abort(reason);
        const out = await rpcSync('w1', observed, [a]);
        const error: unknown = await backward(id, [out.sum()], { signal: stop.signal }).catch((e: unknown) => e);
        expect(error).toMatchObject({ code: 'cancelled', cause: reason });
        await expect.poll(() => agents[1]!.run(() => distAutogradDebugInfo().num_current_backward_passes)).toBe(0);
        expect(getGradients(id).size).toBe(0);
        await expect(backward(id, [out.sum()], { signal: stop.signal })).rejects.toMatchObject({
          code: 'cancelled',
          cause: reason,
        });
      });
      hookOnOwner = () => undefined;
    });
    await expectClean(agents);
  });

  it('by leaving its context when its first function runs fails, with a hundred calls before it', async () => {
    const passes: Promise<unknown>[] = [];
    const expected: ErrorMatcher[] = [];
    const ids: bigint[] = [];
    let begin = (): void => undefined;
    // Every worker has the contexts of all of them when the passes begin.
    const ready = new Promise<void>((resolve) => (begin = resolve)).then(() => {
      const known = agents.map((agent) => ids.filter((id) => sessionOf(agent).contexts.find(id) !== undefined));
      expect(known).toEqual(agents.map(() => ids));
    });
    await everywhere((rank) =>
      context(async (id) => {
        let value = leaf([3, 3], 1);
        for (let i = 0; i < 100; i++) value = await rpcSync(after(rank, 1 + (i % 3)), add, [value, value]);
        expect(shown(value)).toEqual(shown(filled([3, 3], 2 ** 100)));
        expect(sessionOf().find(id).sends.size).toBe(100);
        await expect(backward(100n, [value.sum()])).rejects.toThrow(unknownContext(100n));
        if (ids.push(id) === agents.length) begin();
        await ready;
        expected.push(left(rank, id));
        await new Promise<void>((reached) => {
          passes.push(backward(id, [whenReached(value, reached).sum()]).catch((e: unknown) => e));
        });
      }),
    );
    expect(await Promise.all(passes)).toEqual(expected);
    await expectClean(agents);
  });

  it('by leaving its context fails, and nothing crashes', async () => {
    const pending: { pass?: Promise<unknown>; id?: bigint } = {};
    await at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        const out = await rpcSync('w1', mul, [await rpcSync('w2', add, [a, a]), a]);
        pending.pass = backward(id, [out.sum()]).catch((e: unknown) => e);
        pending.id = id;
      }),
    );
    expect(await pending.pass).toEqual(left(0, pending.id!));
    await expectClean(agents);
  });
});

describe('sends that fail on purpose', () => {
  // A graph of many functions is not looked through for each message, so its passes have to ask.
  it.each([
    ['a pass that is planned', 1, 1],
    ['a pass that asks', 100, 3],
  ])('fail the pass they belong to and no other, and cannot keep a context alive: %s', async (_, length, failures) => {
    const faults = {
      failFirst: { BACKWARD_AUTOGRAD_REQ: 1, AUTOGRAD_DISCOVER_REQ: 1, CLEANUP_AUTOGRAD_CONTEXT_REQ: 3 },
    };
    const pair = await Promise.all(
      [0, 1].map((rank) =>
        createAgent({
          name: `w${rank}`,
          rank,
          worldSize: 2,
          store: `memory://faults-${length}`,
          extensions: [rrefs(), distAutograd()],
          faults,
        }),
      ),
    );
    await pair[0]!.run(() =>
      context(async (id) => {
        const a = leaf([2], 1);
        let x = a;
        for (let i = 0; i < length; i++) x = x.mul(1);
        const loss = (await rpcSync('w1', add, [x, x])).sum();
        // The gradients that do not come with an answer, and the questions of either worker if there are any.
        for (let i = 0; i < failures; i++) {
          const error: unknown = await backward(id, [loss], { retainGraph: true }).catch((e: unknown) => e);
          expect(String(error)).toContain('Send attempt failed intentionally');
        }
        await backward(id, [loss]);
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
      }),
    );
    await expectClean(pair);
    await Promise.all(pair.map((agent) => agent.shutdown()));
  });
});

describe('two passes at once in one context', () => {
  it('from one worker: the second fails', async () => {
    await at(0, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        const loss = (await rpcSync('w1', add, [a, a])).sum();
        const outcomes = await Promise.allSettled([
          backward(id, [loss], { retainGraph: true }),
          backward(id, [loss], { retainGraph: true }),
        ]);
        expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
        expect((outcomes[1] as PromiseRejectedResult).reason).toMatchObject({ code: 'failed-precondition' });
        expect(getGradients(id).get(a)?.toArray()).toEqual([2, 2]);
      }),
    );
    await expectClean(agents);
  });

  it('from two workers: each counts once or is told, and the context stays usable', async () => {
    await at(1, () =>
      context(async (id) => {
        const a = leaf([2], 1);
        for (let round = 0; round < 20; round++) {
          const mine = (await rpcSync('w2', add, [a, a])).sum();
          const before = getGradients(id).get(a)?.toArray() ?? [0, 0];
          const outcomes = await Promise.allSettled([
            rpcAsync('w0', passThere, [id, a]),
            backward(id, [mine], { retainGraph: true }),
          ]);
          const won = outcomes.filter(({ status }) => status === 'fulfilled').length;
          for (const outcome of outcomes) {
            if (outcome.status === 'rejected') expect(rpcInfo(outcome.reason)?.code).toBe('failed-precondition');
          }
          const after = getGradients(id).get(a)?.toArray() as number[] | undefined;
          expect(won).toBeGreaterThan(0);
          expect(after?.[0]).toBe((before as number[])[0]! + 2 * won);
        }
        const mine = (await rpcSync('w2', add, [a, a])).sum();
        await backward(id, [mine]);
      }),
    );
    await expectClean(agents);
  });
});

const passThere = rpcFunction('errors/passThere', async (id: bigint, a: Tensor) => {
  const out = await rpcAsync('w2', add, [a, a]);
  await backward(id, [out.sum()]);
});

describe('limits', () => {
  it('refuse the context over the bound and say how many there are', async () => {
    const table = new ContextTable({ worker: 0, incarnation: 1 }, 0, (ref) => new Context(ref), 2);
    table.create();
    table.create();
    expect(() => table.create()).toThrow(
      '2 autograd contexts are alive on this worker, and no more may be: one ends when what runs in it does, and limits.maxContexts (2) bounds them',
    );
    expect(sessionOf(agents[0]).contexts.size).toBe(0);
  });

  it('refuse the call whose function has no room in its context, on either side', () =>
    at(0, () =>
      context(async (id) => {
        const x = leaf([2], 1);
        const tooMany = {
          name: 'RpcError',
          code: 'resource-exhausted',
          message: expect.stringContaining(
            `autograd context ${id} has ${MAX_FUNCTIONS} functions, and no more fit: go on in a new context`,
          ) as string,
        };
        // Millions of functions would take minutes.
        const fill = (functions: object | undefined): object =>
          Object.defineProperty(functions ?? {}, 'size', { value: MAX_FUNCTIONS, configurable: true });
        await rpcAsync('w1', add, [x, 1]);
        fill(sessionOf(agents[1]).find(id).recvs.get(0));
        await expect(rpcAsync('w1', add, [x, 1])).rejects.toMatchObject(tooMany);
        expect((await rpcAsync('w2', add, [x, 1])).toArray()).toEqual([2, 2]);
        fill(sessionOf(agents[0]).find(id).sends);
        await expect(rpcAsync('w2', add, [x, 1])).rejects.toMatchObject(tooMany);
      }),
    ));
});
