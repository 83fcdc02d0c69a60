/** @file What the worker of this kind offers in the programs that it runs with stock torch, and names that Python has for it. */
import { getGradients } from '@backwire/dist-autograd';
import { rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { createRRef, type RRef } from '@backwire/rref';
import { add, rpcName, tensor, type Tensor } from '@backwire/tensor';
import { py } from '../src/py.ts';
import { Describer } from './describe.ts';

rpcFunction('mixed.scale', (x: Tensor, factor: number) => x.mul(factor));
rpcFunction('mixed.same', (value: unknown) => value);
rpcFunction('mixed.describe', (value: unknown) => new Describer().value(value));
rpcFunction('mixed.fails', (text: string): never => {
  throw new RangeError(text);
});
rpcFunction('mixed.doubled_by', async (to: string, x: Tensor) => rpcSync(to, add, [x, x]));
const weight = tensor([2, 5], { requiresGrad: true });
rpcFunction('mixed.weigh', (x: Tensor) => x.mul(weight));
rpcFunction('mixed.gradient_of', (id: bigint) => getGradients(id).get(weight)?.clone() ?? null);
rpcFunction('mixed.through', async (to: string, x: Tensor) =>
  (await rpcSync(to, py<(x: Tensor) => Tensor>('model.squared'), [x])).mul(3),
);
export interface Net {
  forward(x: Tensor): Tensor;
  parameter_rrefs(): RRef<Tensor>[];
}
const parameter = tensor([1, 2], { requiresGrad: true });
rpcFunction('mixed.parameter', () => parameter);
rpcFunction('mixed.times_parameter', (x: Tensor) => x.mul(parameter));
export class Counter {
  static readonly [rpcName] = 'mixed.Counter';
  count: number;
  constructor(start = 0) {
    this.count = start;
  }
  add(n = 1): number {
    return (this.count += n);
  }
}
rpcClass(Counter, { methods: ['add'] });
rpcFunction('mixed.fetch', (rref: RRef<number>) => rref.toHere());
rpcFunction('mixed.make', (value: number) => createRRef(value));
export const STUBS = [
  'weigh',
  'parameter',
  'times_parameter',
  'gradient_of',
  'through',
  'Counter',
  'fetch',
  'make',
  'scale',
  'same',
  'describe',
  'fails',
  'doubled_by',
  'not_offered',
].map((name) => `mixed.${name}`);
