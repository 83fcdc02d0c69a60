/** @file Sequential: layers one after the other, waiting only where one is asynchronous. */
import { kindOf } from '../given.ts';
import type { Tensor } from '../tensor.ts';
import { Flatten, GELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh } from './activations.ts';
import { AdaptiveAvgPool2d, AvgPool2d, Conv2d, MaxPool2d } from './conv.ts';
import { Dropout } from './dropout.ts';
import { Linear } from './linear.ts';
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

/**
 * Calls each layer on the output of the one before. Synchronous unless a layer's `forward` is not.
 * @example
 * ```ts
 * const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
 * console.log(model.forward(randn([3, 4])).shape); // [ 3, 2 ]
 * ```
 */
export class Sequential<L extends readonly (Module & Callable)[]> extends Module {
  readonly layers: L;

  constructor(...layers: L) {
    super();
    for (const [i, layer] of layers.entries())
      if (!(layer instanceof Module))
        throw new TypeError(`nn.Sequential takes modules; number ${i} is ${kindOf(layer)}`);
    this.layers = layers;
  }

  forward(
    ...args: L extends readonly [infer F extends Callable, ...any[]] ? Parameters<F['forward']> : never
  ): Output<L> {
    let values: readonly unknown[] = args;
    let ours = false;
    for (const [i, layer] of this.layers.entries()) {
      const result: unknown = layer.forward(...values);
      if (isPromise(result)) return this.continueFrom(i + 1, result) as Output<L>;
      const forgets = keepsNothing(layer);
      // Between two such layers nothing else knows the tensor: its memory serves the next step sooner than a collection would free it.
      if (ours && forgets && result !== values[0]) (values[0] as Tensor).release();
      ours = forgets && result !== values[0];
      values = [result];
    }
    return values[0] as Output<L>;
  }

  protected override moduleEntries(): [string, Module][] {
    return this.layers.map((layer, i): [string, Module] => [String(i), layer]);
  }

  private async continueFrom(start: number, input: PromiseLike<unknown>): Promise<unknown> {
    let value = await input;
    for (const layer of this.layers.slice(start)) value = await (layer.forward(value) as unknown);
    return value;
  }
}

/** Layers that hold on to neither what they are given nor what they return. */
const FORGETFUL: ReadonlySet<unknown> = new Set([
  ...[Linear, Conv2d, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, Flatten, Dropout],
  ...[ReLU, LeakyReLU, Sigmoid, Tanh, GELU, SiLU, Softmax, LogSoftmax],
]);

/** A subclass, or an instance with a `forward` of its own, may do anything. */
function keepsNothing(layer: Module): boolean {
  return FORGETFUL.has(layer.constructor) && !Object.hasOwn(layer, 'forward');
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
