/** @file Programs of PyTorch's gradient tests, run here and through calls, and compared. */
import { shown as all } from '@backwire/testing';
import { expect } from 'vitest';
import { getWorkerInfo, rpcSync, type AnyFn } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { runBackward, sparse, type Tensor } from '@backwire/tensor';
import { backward, context, getGradients } from '../src/index.ts';

/** All that makes two gradients equal, layout and dtype too; undefined for none. */
export const shown = (t: Tensor | null | undefined): unknown => (t ? all(t) : undefined);
/** As `shown`, of a sparse one with the entries of equal indices added up: how many there are depends on what was added to what. */
export const summed = (t: Tensor | null | undefined): unknown => shown(t?.layout === 'sparse_coo' ? t.coalesce() : t);
/** A gradient's values alone. */
export const valuesOf = (t: Tensor | null | undefined): unknown => t?.toDense().toArray();

/** The sum of a result as PyTorch's tests take it: of a sparse one by the function whose gradient is sparse, too. */
export const total = (t: Tensor): Tensor => (t.layout === 'sparse_coo' ? sparse.sum(t) : t.sum());

/** One way of running an operation or a function: here, or on other workers. */
export type Run = <F extends AnyFn>(fn: F, ...args: Parameters<F>) => Promise<Awaited<ReturnType<F>>>;
const here: Run = async (fn, ...args) => (await fn(...args)) as never;
/** Both, of functions that their types say nothing of. */
const sync = rpcSync as unknown as (to: string, fn: AnyFn, args: readonly unknown[]) => Promise<never>;
const makes = remote as unknown as (to: string, fn: AnyFn, args: readonly unknown[]) => RRef<never>;
export const callsTo =
  (to: string): Run =>
  (fn, ...args) =>
    sync(to, fn, args);
const makesAt =
  (to: string): Run =>
  (fn, ...args) =>
    makes(to, fn, args).toHere();
/** The other three of four workers in turn, from the next one on, one for each step of a program, as PyTorch's tests go through them. */
function inTurn(way: (to: string) => Run): Run {
  const turns = [0, 0, 0, 0];
  return (fn, ...args) => {
    const { id } = getWorkerInfo();
    const turn = turns[id]!++ % 3;
    return way(`w${(id + 1 + turn) % 4}`)(fn, ...args);
  };
}
export const WAYS: readonly Run[] = [inTurn(callsTo), inTurn(makesAt)];
/** By calls of a worker to itself. */
const toSelf =
  (way: (to: string) => Run): Run =>
  (fn, ...args) =>
    way(getWorkerInfo().name)(fn, ...args);
export const WAYS_TO_SELF: readonly Run[] = [toSelf(callsTo), toSelf(makesAt)];

/** `.grad` of the leaves after `program` ran here, which are taken away again: one of its own layout for each that requires one. */
async function gradients(
  leaves: readonly Tensor[],
  program: (run: Run) => Promise<Tensor[]>,
): Promise<(Tensor | null)[]> {
  runBackward(await program(here));
  const grads = leaves.map((t) => t.grad);
  expect(grads.map((grad) => grad?.layout)).toEqual(leaves.map((t) => (t.requiresGrad ? t.layout : undefined)));
  for (const t of leaves) t.grad = null;
  return grads;
}

/** `.grad` of the leaves after `program` ran here, as `shown` gives it. */
export async function local(leaves: readonly Tensor[], program: (run: Run) => Promise<Tensor[]>): Promise<unknown[]> {
  return (await gradients(leaves, program)).map(shown);
}

/** The program run each way gives the gradients that it gives here, for every leaf, and none for what has none: each run in a context of its own. */
export async function sameAsLocal(
  leaves: readonly Tensor[],
  program: (run: Run) => Promise<Tensor[]>,
  ways: readonly Run[] = WAYS,
): Promise<void> {
  const expected = await context(async (id) => {
    const grads = await gradients(leaves, program);
    // A pass of one process is no business of the context that it is in.
    expect(getGradients(id).size).toBe(0);
    return grads;
  });
  for (const run of ways)
    await context(async (id) => {
      await backward(id, await program(run));
      const grads = getGradients(id);
      const found = leaves.map((t) => grads.get(t));
      expect(found.map(shown)).toEqual(expected.map(shown));
      expect(grads.size).toBe(expected.filter((grad) => grad !== null).length);
      expect(leaves.map((t) => t.grad)).toEqual(leaves.map(() => null));
    });
}
