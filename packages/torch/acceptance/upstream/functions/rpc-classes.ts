/** @file Classes of `rpc_test`. */
import { currentAgent, rpcAsync, rpcClass, rpcFunction } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import { add, rpcName, type Tensor } from '@backwire/tensor';
import { readingFrom } from '../../../src/calls/values.ts';
import type { Agent } from '../../../src/agent.ts';
import { PyTuple } from '../../../src/index.ts';
import { setState, type Stateful } from '../../../src/values/name.ts';
import type { PythonUdf } from '../../../src/values/objects.ts';
import { Slot } from '../state.ts';
import { RPC_TEST, plus, sleep, type Value } from './common.ts';

export class MyClass {
  static readonly [rpcName] = `${RPC_TEST}.MyClass`;
  a: Value;

  /** @param delay whether it takes its time, as Python's does, with this worker at a standstill: constructors cannot wait otherwise */
  constructor(a: Value, delay = false) {
    this.a = a;
    if (delay) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_000);
  }

  my_instance_method(b: Value): Value {
    return plus(this.a, b);
  }

  my_class_method(d: Value, e: Value): Value {
    return plus(d, e);
  }

  my_static_method(f: number): boolean {
    return f > 10;
  }

  increment_value(increment: Value): null {
    this.a = plus(this.a, increment);
    return null;
  }

  get_value(): Value {
    return this.a;
  }

  async my_slow_method(x: Tensor): Promise<Value> {
    await sleep(5);
    return plus(this.a, x);
  }
}
rpcClass(MyClass, {
  methods: [
    'my_instance_method',
    'my_class_method',
    'my_static_method',
    'increment_value',
    'get_value',
    'my_slow_method',
  ],
});
for (const method of ['increment_value', 'get_value', 'my_instance_method'] as const)
  rpcFunction(`${RPC_TEST}.MyClass.${method}`, (self: MyClass, ...args: [Value]) => self[method](...args));
rpcFunction(`${RPC_TEST}.MyClass.my_class_method`, (d: Value, e: Value) => plus(d, e));
rpcFunction(`${RPC_TEST}.MyClass.my_static_method`, (f: number) => f > 10);

export class AsyncExecutionClass {
  static readonly [rpcName] = `${RPC_TEST}.AsyncExecutionClass`;

  static_async_add(to: string, x: Tensor, y: Tensor, z: Tensor): Promise<Value> {
    return this.bound_async_add(to, x, y, z);
  }

  class_async_add(to: string, x: Tensor, y: Tensor, z: Tensor): Promise<Value> {
    return this.bound_async_add(to, x, y, z);
  }

  async bound_async_add(to: string, x: Tensor, y: Tensor, z: Value): Promise<Value> {
    return plus(await rpcAsync(to, add, [x, y]), z);
  }
}
rpcClass(AsyncExecutionClass, { methods: ['static_async_add', 'class_async_add', 'bound_async_add'] });
rpcFunction(`${RPC_TEST}.AsyncExecutionClass.class_async_add`, async (to: string, x: Tensor, y: Tensor, z: Value) =>
  plus(await rpcAsync(to, add, [x, y]), z),
);

/** A named tuple. */
class TensorClass extends PyTuple {
  static readonly [rpcName] = `${RPC_TEST}.TensorClass`;

  get tensors(): unknown {
    return this[0];
  }
}
rpcClass(TensorClass, { methods: [] });

/** Its state is a call of its own, pickled. */
class MyPickleClass implements Stateful {
  static readonly [rpcName] = `${RPC_TEST}.MyPickleClass`;
  t: Tensor | undefined;

  [setState](state: unknown): void {
    const [pickled, tensors] = state as [Uint8Array, Tensor[]];
    const agent = currentAgent() as unknown as Agent;
    const { args } = agent.values.read(pickled, tensors, readingFrom(agent.self)) as PythonUdf;
    this.t = add(args[0] as Tensor, args[1] as Tensor);
  }
}
rpcClass(MyPickleClass, { methods: [] });

/** Takes its time to be read: this worker does nothing else meanwhile. */
class SlowPickleClass implements Stateful {
  static readonly [rpcName] = `${RPC_TEST}.SlowPickleClass`;
  t: unknown;

  [setState](state: unknown): void {
    const [seconds] = state as readonly [number];
    this.t = seconds;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1_000);
  }
}
rpcClass(SlowPickleClass, { methods: [] });

/** The server of `test_my_parameter_server`: rounds of gradients, averaged when all trainers' are in. */
export class MyParameterServer {
  static readonly [rpcName] = `${RPC_TEST}.MyParameterServer`;
  private readonly trainers: number;
  private iteration = 0;
  private updates = 0;
  private waiting: Slot<Tensor>[] = [];
  private total: Tensor | undefined;
  gradient: Tensor | undefined;

  constructor(trainers: number) {
    this.trainers = trainers;
  }

  async get_gradient(rref: RRef<MyParameterServer>): Promise<Tensor | undefined> {
    return (await rref.localValue()).gradient;
  }

  async average(rref: RRef<MyParameterServer>, iteration: number, gradient: Tensor): Promise<Tensor> {
    return (await rref.localValue()).take(iteration, gradient);
  }

  private take(iteration: number, gradient: Tensor): Promise<Tensor> {
    if (iteration > this.iteration) {
      this.iteration = iteration;
      this.updates = 0;
      this.waiting = [];
    }
    const mine = new Slot<Tensor>();
    this.waiting.push(mine);
    this.total = this.total === undefined ? gradient : add(this.total, gradient);
    if (++this.updates === this.trainers) {
      this.gradient = this.total.div(this.trainers);
      for (const each of this.waiting) each.set(this.total.div(this.trainers));
    }
    return mine.value;
  }
}
rpcClass(MyParameterServer, { methods: ['get_gradient', 'average'] });
