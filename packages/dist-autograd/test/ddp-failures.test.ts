/** Passes that fail on one worker: everybody whose replicas they would have combined is told, and by whom. */
import { rpcInfo } from '@backwire/rpc';
import { tensor, type nn, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { expectClean, useAgents } from './agents.ts';
import { gradientIn, passOver, replicasAt, type Replica } from './replica-models.ts';
import { backward, context } from '../src/index.ts';

const { agents, at } = useAgents('ddp-failures', 3);
const TIMED = { timeoutMs: 4_000 };

/** What a worker's context comes to: its value, or its error. */
const inContext = (rank: number, fn: (id: bigint) => Promise<unknown>): Promise<unknown> =>
  at(rank, () => context(fn)).catch((error: unknown) => error);

/** One pass of a worker over replicas that are run with their slopes. */
const pass = (rank: number, ...runs: [Replica, number][]): Promise<unknown> =>
  inContext(rank, (id) => passOver(id, runs, TIMED));

/** Checks that a worker was told who makes no further pass. */
function expectTold(error: unknown, by: number, why: RegExp): void {
  expect(String(error)).toMatch(new RegExp(`worker 'w${by}' makes no further pass with replica \\d+ of its group: `));
  expect(String(error)).toMatch(why);
  expect(rpcInfo(error)?.code).toBe('failed-precondition');
}

const REFUSED = /may be out of step with its group since a pass failed/;

function throwsOn(replica: Replica, text: string, when: () => boolean = () => true): void {
  replica.module.weight.registerHook((grad) => {
    if (when()) throw new RangeError(text);
    return grad;
  });
}

describe('a pass over replicas of two groups', () => {
  it('that fails in a hook of one tells the other', async () => {
    const groups = new Map<number, nn.ProcessGroup>();
    const kept = (group: nn.ProcessGroup): nn.ProcessGroup => (groups.set(group.rank, group), group);
    const [a, b] = [replicasAt(agents, [0, 1], kept), replicasAt(agents, [0, 2])];
    for (const [rank, replica] of a)
      replica.registerCommHook(groups.get(rank), (group, bucket) => {
        if (rank === 0) throw new RangeError('no bucket today');
        return group!.allReduce(bucket.buffer(), 'mean', { signal: bucket.signal, tags: bucket.tags });
      });
    const [own, first, second] = await Promise.all([
      pass(0, [a.get(0)!, 1], [b.get(0)!, 1]),
      pass(1, [a.get(1)!, 1]),
      pass(2, [b.get(2)!, 1]),
    ]);
    expect(String(own)).toBe('RangeError: Error on Node 0: no bucket today');
    expectTold(first, 0, /no bucket today/);
    expectTold(second, 0, /no bucket today/);
    await expectClean(agents);
  });

  it('that fails as another worker gives one up tells the other', async () => {
    const [a, b] = [replicasAt(agents, [0, 1]), replicasAt(agents, [0, 2])];
    throwsOn(a.get(1)!, 'none today');
    const [first, own, second] = await Promise.all([
      pass(0, [a.get(0)!, 1], [b.get(0)!, 1]),
      pass(1, [a.get(1)!, 1]),
      pass(2, [b.get(2)!, 1]),
    ]);
    expect(String(own)).toBe('RangeError: Error on Node 1: none today');
    expectTold(first, 1, /none today/);
    expectTold(second, 0, /none today/);
    await expectClean(agents);
  });

  it('ends also those that were combined already, as this worker has not stepped', async () => {
    const [a, b] = [replicasAt(agents, [0, 1]), replicasAt(agents, [0, 2])];
    const both = pass(0, [a.get(0)!, 1], [b.get(0)!, 1]);
    expect(await pass(1, [a.get(1)!, 3])).toEqual([2]);
    throwsOn(b.get(2)!, 'none today');
    await pass(2, [b.get(2)!, 1]);
    expectTold(await both, 2, /none today/);
    expectTold(await pass(1, [a.get(1)!, 3]), 0, /none today/);
    await expectClean(agents);
  });
});

describe('a second pass over a retained graph', () => {
  it('that fails on one worker tells the others', async () => {
    const a = replicasAt(agents, [0, 1]);
    let second = false;
    throwsOn(a.get(1)!, 'none twice', () => second);
    const twice = (rank: number): Promise<unknown> =>
      inContext(rank, async (id) => {
        const loss = a.get(rank)!.forward(1 + 2 * rank);
        await backward(id, [loss], { retainGraph: true, ...TIMED });
        expect(gradientIn(id, a.get(rank)!)).toBe(2);
        if (rank === 1) second = true;
        await backward(id, [loss], TIMED);
      });
    const [told, own] = await Promise.all([twice(0), twice(1)]);
    expect(String(own)).toBe('RangeError: Error on Node 1: none twice');
    expectTold(told, 1, /none twice/);
    await expectClean(agents);
  });

  it('leaves replicas alone that it does not reach', async () => {
    const a = replicasAt(agents, [0, 1]);
    const found = await Promise.all(
      [0, 1].map((rank) =>
        inContext(rank, async (id) => {
          const replica = a.get(rank)!;
          await backward(id, [replica.forward(1 + 2 * rank)], TIMED);
          const other = tensor([1], { requiresGrad: true });
          other.registerHook(() => {
            throw new RangeError('none today');
          });
          await expect(backward(id, [other.mul(2).sum()], TIMED)).rejects.toThrow('none today');
          await backward(id, [replica.forward(10 + 20 * rank)], TIMED);
          return gradientIn(id, replica);
        }),
      ),
    );
    expect(found).toEqual([22, 22]);
    await expectClean(agents);
  });
});

describe('a pass that cannot begin', () => {
  const wrong: readonly [string, (loss: Tensor) => unknown, RegExp, (object | null)?][] = [
    ['a root needs no gradient', (loss) => [loss.detach()], /requires_grad not set on root 0/],
    ['there are no roots', () => [], /No tensors provided for gradient computation/],
    ['its roots are no list', (loss) => loss, /roots must be a list of tensors/],
    ['there is no such mode', (loss) => [loss], /the mode of a backward pass is 'smart' or 'fast'/, { mode: 'faster' }],
    ['it was cancelled before', (loss) => [loss], /backward was cancelled/, { signal: AbortSignal.abort() }],
    ['its time is no number', (loss) => [loss], /timeoutMs/, { timeoutMs: NaN }],
    ['it has an option that there is not', (loss) => [loss], /retain/, { retain: true }],
    ['its options are none', (loss) => [loss], /the options of backward\(\) are an object/, null],
  ];
  it.each(wrong)('on one worker, as %s, tells the others', async (_what, rootsOf, text, options) => {
    const a = replicasAt(agents, [0, 1]);
    const [told, own] = await Promise.all([
      pass(0, [a.get(0)!, 1]),
      inContext(1, (id) =>
        backward(
          id,
          rootsOf(a.get(1)!.forward(1)) as Tensor[],
          options === null ? (null as never) : { ...TIMED, ...options },
        ),
      ),
    ]);
    expect(String(own)).toMatch(text);
    expect(String(own)).not.toMatch(/Error on Node/);
    expectTold(told, 1, text);
    expect(String(await pass(1, [a.get(1)!, 1]))).toMatch(REFUSED);
    await expectClean(agents);
  });

  it('tells the others at a second pass too', async () => {
    const a = replicasAt(agents, [0, 1]);
    const twice = (rank: number): Promise<unknown> =>
      inContext(rank, async (id) => {
        const loss = a.get(rank)!.forward(1);
        await backward(id, [loss], { retainGraph: true, ...TIMED });
        await backward(id, [rank === 1 ? loss.detach() : loss], TIMED);
      });
    const [told, own] = await Promise.all([twice(0), twice(1)]);
    expect(String(own)).toMatch(/requires_grad not set on root 0/);
    expectTold(told, 1, /requires_grad not set on root 0/);
    await expectClean(agents);
  });

  it('as another is in progress, leaves that one and its replicas alone', async () => {
    const a = replicasAt(agents, [0, 1]);
    const found = await Promise.all(
      [0, 1].map((rank) =>
        inContext(rank, async (id) => {
          const loss = a.get(rank)!.forward(1 + 2 * rank);
          const first = backward(id, [loss], { retainGraph: true, ...TIMED });
          await expect(backward(id, [loss], TIMED)).rejects.toThrow(/a backward pass is in progress/);
          await first;
          return gradientIn(id, a.get(rank)!);
        }),
      ),
    );
    expect(found).toEqual([2, 2]);
    await expectClean(agents);
  });

  it('is not what a context is that ends after a forward alone', async () => {
    const a = replicasAt(agents, [0, 1]);
    for (const rank of [0, 1]) await inContext(rank, () => Promise.resolve(a.get(rank)!.forward(1)));
    expect(await Promise.all([0, 1].map((rank) => pass(rank, [a.get(rank)!, 1 + 2 * rank])))).toEqual([[2], [2]]);
    await expectClean(agents);
  });
});
