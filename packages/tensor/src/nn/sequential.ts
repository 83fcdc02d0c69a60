/** @file Sequential: layers one after the other, waiting only where one is asynchronous. */
import { Module, type Callable } from './module.ts';

/* eslint-disable @typescript-eslint/no-explicit-any -- patterns that must match layers of any type */
/** What the last of `L` returns. */
export type LastOut<L extends readonly Callable[]> = L extends readonly [...any[], infer Z extends Callable]
  ? ReturnType<Z['forward']>
  : never;

/** Whether any of `L` returns a promise. */
export type AnyAsync<L extends readonly Callable[]> = true extends {
  [K in keyof L]: ReturnType<L[K]['forward']> extends Promise<any> ? true : false;
}[number]
  ? true
  : false;

type Output<L extends readonly Callable[]> = AnyAsync<L> extends true ? Promise<Awaited<LastOut<L>>> : LastOut<L>;

/** Calls each layer on the output of the one before. Synchronous unless a layer's `forward` is not. */
export class Sequential<L extends readonly (Module & Callable)[]> extends Module {
  readonly layers: L;

  constructor(...layers: L) {
    super();
    this.layers = layers;
  }

  forward(
    ...args: L extends readonly [infer F extends Callable, ...any[]] ? Parameters<F['forward']> : never
  ): Output<L> {
    let values: readonly unknown[] = args;
    for (const [i, layer] of this.layers.entries()) {
      const result: unknown = layer.forward(...values);
      if (isPromise(result)) return this.continueFrom(i + 1, result) as Output<L>;
      values = [result];
    }
    return values[0] as Output<L>;
  }

  override namedChildren(): [string, Module][] {
    return this.layers.map((layer, i): [string, Module] => [String(i), layer]);
  }

  private async continueFrom(start: number, input: PromiseLike<unknown>): Promise<unknown> {
    let value = await input;
    for (const layer of this.layers.slice(start)) value = await (layer.forward(value) as unknown);
    return value;
  }
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
