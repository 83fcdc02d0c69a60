/** @file What the tests of autograd are made with: calls of one rank after the other, and leaves. */
import { rpcAsync, rpcSync, type AnyFn } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { rand, type add, type Tensor } from '@backwire/tensor';
import type { PyNamed } from '../../../src/index.ts';
import { workerName, type Rank } from '../rank.ts';
import { inAutograd } from './body.ts';

export type Mode = 'here' | 'sync' | 'async' | 'remote';
export type Fn = PyNamed<AnyFn>;

/** Calls one rank after the other, as `_exec_func` does. */
export class Ring {
  private readonly rank: Rank;
  private at: number;

  constructor(rank: Rank) {
    this.rank = rank;
    this.at = rank.rank;
  }

  next(): string {
    do this.at = (this.at + 1) % this.rank.size;
    while (this.at === this.rank.rank);
    return workerName(this.at);
  }

  get id(): number {
    return this.at;
  }

  call(mode: Mode, fn: AnyFn, args: readonly unknown[], at: unknown = fn): Promise<Tensor> {
    if (mode === 'here') return Promise.resolve(fn(...(args as never[]))) as Promise<Tensor>;
    const to = this.next();
    if (mode === 'sync') return rpcSync(to, at as Fn, args as never) as Promise<Tensor>;
    if (mode === 'async') return rpcAsync(to, at as Fn, args as never) as Promise<Tensor>;
    return remote(to, at as Fn, args as never).toHere() as Promise<Tensor>;
  }
}

export const grown = (shape: readonly number[] = [3, 3], dtype: 'float32' | 'float64' = 'float32'): Tensor =>
  rand([...shape], { requiresGrad: true, dtype });

export const done = inAutograd<(id: bigint, distance: number) => void>('_set_rpc_done');
export const added = inAutograd<typeof add>('my_py_add');
/** Functions of the test's class. */
export const mine = (name: string): Fn => inAutograd<AnyFn>(`DistAutogradTest.${name}`);
