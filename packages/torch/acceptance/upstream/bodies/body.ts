/** @file Bodies of tests: how they are written down, and what they assert with. */
import assert from 'node:assert/strict';
import { rpcSync, rpcAsync, type AnyFn } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { Tensor, ones } from '@backwire/tensor';
import { py, type PyNamed } from '../../../src/index.ts';
import { Describer } from '../../../test/describe.ts';
import { AUTOGRAD_TEST, OPTIMIZER_TEST, RPC_TEST } from '../functions/common.ts';
import type { Rank } from '../rank.ts';

const describeOf = (value: unknown): string => new Describer().value(value);

export interface Body {
  /** In words, for the file of results. */
  readonly does: string;
  /** Whether it joins and leaves by itself. */
  readonly own?: boolean;
  /** Whether no rank serves the store: some leave while others use it, or all come twice. */
  readonly storeApart?: boolean;
  run(rank: Rank): Promise<unknown> | undefined;
}

export type Bodies = Readonly<Record<string, Body>>;

/** Bodies that do and assert what those of Python do, by the calls that programs here make. */
export function mirrored(runs: Readonly<Record<string, (rank: Rank) => Promise<unknown>>>): Bodies {
  const does = 'the body of the test: the same calls, and the same assertions of what comes of them';
  return Object.fromEntries(Object.entries(runs).map(([test, run]) => [test, { does, run }]));
}

/** The same, of tests that join, meet and leave by themselves. */
export function joining(runs: Readonly<Record<string, (rank: Rank) => Promise<unknown>>>): Bodies {
  const does = 'the body of the test, which joins, meets the others and leaves by itself';
  return Object.fromEntries(Object.entries(runs).map(([test, run]) => [test, { does, run, own: true }]));
}

/** The same, where ranks come and go while others use the store. */
export function comingAndGoing(runs: Readonly<Record<string, (rank: Rank) => Promise<unknown>>>): Bodies {
  return Object.fromEntries(Object.entries(joining(runs)).map(([test, body]) => [test, { ...body, storeApart: true }]));
}

/** Functions of torch's test modules. */
export const inRpc = <T = AnyFn>(name: string): PyNamed<T> => py<T>(`${RPC_TEST}.${name}`);
export const inAutograd = <T = AnyFn>(name: string): PyNamed<T> => py<T>(`${AUTOGRAD_TEST}.${name}`);
export const inOptimizer = <T = AnyFn>(name: string): PyNamed<T> => py<T>(`${OPTIMIZER_TEST}.${name}`);

type Fn = PyNamed<AnyFn>;

/** The three ways to call, as PyTorch's tests go through them. */
export const MODES: readonly ((to: string | number, fn: Fn, args: readonly unknown[]) => Promise<unknown>)[] = [
  (to, fn, args) => rpcSync(to, fn, args as never),
  (to, fn, args) => rpcAsync(to, fn, args as never),
  (to, fn, args) => remote(to, fn, args as never).toHere(),
];

/** A tensor n × n of ones, plus a number. */
export function onesPlus(n: number, more = 0): Tensor {
  return ones([n, n]).add(more);
}

/** torch's `assertEqual`: tensors by dtype, shape and values. */
export function equal(found: unknown, expected: unknown): void {
  if (expected instanceof Tensor) {
    assert.ok(found instanceof Tensor, `${String(found)} is no tensor`);
    assert.equal(found.dtype, expected.dtype);
    assert.deepEqual([...found.shape], [...expected.shape]);
    const [a, b] = [found.toDense(), expected.toDense()];
    assert.ok(a.allClose(b as Tensor), `${describeOf(a)} is not ${describeOf(b)}`);
    return;
  }
  if (Array.isArray(expected)) {
    assert.ok(Array.isArray(found) && found.length === expected.length, `${String(found)} is not ${String(expected)}`);
    expected.forEach((each, i) => equal((found as unknown[])[i], each));
    return;
  }
  assert.deepEqual(found, expected);
}

/** Like `assertRaisesRegex`. */
export async function fails(promise: Promise<unknown>, text: RegExp): Promise<void> {
  await assert.rejects(promise, (error: Error) => {
    assert.match(error.message, text);
    return true;
  });
}
