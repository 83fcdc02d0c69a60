/** @file TensorFlow's eager operations through tfjs-node's binding: called directly, because the layers above it cost as much again. */
import { limits } from '../limits.ts';
import type { DeviceDType, DeviceUpdate } from './backend.ts';

/** One attribute of an operation. Types of tensors need none: they follow from the inputs. */
export interface Attribute {
  readonly name: string;
  readonly type: number;
  readonly value: unknown;
}

type Values = Float32Array | Int32Array | Uint8Array;

/** The part of the binding used here; the package is optional, so its own types may be absent. */
export interface Binding {
  readonly TF_FLOAT: number;
  readonly TF_INT32: number;
  readonly TF_BOOL: number;
  readonly TF_ATTR_TYPE: number;
  readonly TF_ATTR_BOOL: number;
  readonly TF_ATTR_SHAPE: number;
  readonly TF_ATTR_STRING: number;
  executeOp(
    op: string,
    attrs: readonly Attribute[],
    inputs: readonly number[],
    outputs: number,
  ): { id: number; shape: number[] }[];
  createTensor(shape: readonly number[], dtype: number, values: Values): number;
  deleteTensor(id: number): void;
  isUsingGpuDevice?(): boolean;
  /** A copy. */
  tensorDataSync(id: number): Values;
}

/** A native tensor: whoever holds it frees it. */
export interface Handle {
  readonly id: number;
  readonly shape: readonly number[];
}

const NONE: readonly Attribute[] = [];

/** Operations on native tensors. Results belong to the caller. */
export class NativeOps {
  private readonly binding: Binding;
  /** Lists of dimensions as tensors, by their text. */
  private readonly lists = new Map<string, number>();
  private readonly scalars = new Map<number, number>();
  /** Variables that a tensor is put into while it is changed in place, by position of the argument. */
  private readonly variables: number[] = [];
  private nothing: number | undefined;

  constructor(binding: Binding) {
    this.binding = binding;
  }

  make(bytes: Uint8Array, dtype: DeviceDType, shape: readonly number[]): Handle {
    const { buffer, byteOffset, byteLength } = bytes;
    const { binding } = this;
    if (dtype === 'bool') return { id: binding.createTensor(shape, binding.TF_BOOL, bytes), shape };
    const id =
      dtype === 'float32'
        ? binding.createTensor(shape, binding.TF_FLOAT, new Float32Array(buffer, byteOffset, byteLength >> 2))
        : binding.createTensor(shape, binding.TF_INT32, new Int32Array(buffer, byteOffset, byteLength >> 2));
    return { id, shape };
  }

  /** A copy of the elements. */
  read({ id }: Handle): Uint8Array {
    const { buffer, byteOffset, byteLength } = this.binding.tensorDataSync(id);
    return new Uint8Array(buffer, byteOffset, byteLength);
  }

  free({ id }: Handle): void {
    this.binding.deleteTensor(id);
  }

  run(op: string, inputs: readonly Handle[], attrs: readonly Attribute[] = NONE): Handle {
    const ids = inputs.map((input) => input.id);
    return this.binding.executeOp(op, attrs, ids, 1)[0] as Handle;
  }

  /** Copies `value` over the memory of `into`, which has its shape and a first dimension of 1: a result that is read has memory made for it. */
  put(into: Handle, value: Handle): void {
    const first = { id: this.list([0]), shape: [1] };
    this.free(this.run('InplaceUpdate', [into, first, value]));
  }

  /** An operation whose second input is a list of dimensions. */
  runAlong(op: string, input: Handle, dims: readonly number[], attrs: readonly Attribute[] = NONE): Handle {
    return this.binding.executeOp(op, attrs, [input.id, this.list(dims)], 1)[0] as Handle;
  }

  flag(name: string, value: boolean): Attribute {
    return { name, type: this.binding.TF_ATTR_BOOL, value };
  }

  /**
   * Runs an update on `targets`, which are freed: their memory comes back, changed, in the tensors answered, also when the kernel
   * fails: `failed` is then set to its error.
   */
  update(update: DeviceUpdate, targets: readonly Handle[], gradient: Handle): { after: Handle[]; failed?: unknown } {
    const { scalars, gradientAt, penalty, shrink } = update;
    const parameter = targets[0] as Handle;
    const pull = penalty === 0 ? gradient : this.pulled(gradient, parameter, penalty);
    const start = shrink === 1 ? parameter : this.scaled(parameter, shrink);
    const variables = targets.map((target, i) => {
      this.assign(this.variable(i), i === 0 ? start.id : target.id);
      // A variable changes in place what it alone refers to.
      this.free(target);
      return this.variable(i);
    });
    if (start !== parameter) this.free(start);
    const args = scalars.map((value) => this.scalar(value));
    args.splice(gradientAt, 0, pull.id);
    const flags = Object.entries(update.flags ?? {}).map(([name, value]) => this.flag(name, value));
    const result: { after: Handle[]; failed?: unknown } = { after: [] };
    try {
      this.binding.executeOp(update.kernel, flags, [...variables, ...args], 0);
    } catch (error) {
      result.failed = error;
    }
    if (pull !== gradient) this.free(pull);
    for (const variable of variables) {
      result.after.push(this.binding.executeOp('ReadVariableOp', this.float(), [variable], 1)[0] as Handle);
      // Else it would keep the memory from being freed.
      this.assign(
        variable,
        (this.nothing ??= this.binding.createTensor([], this.binding.TF_FLOAT, new Float32Array(1))),
      );
    }
    return result;
  }

  /** The gradient with the penalty's. */
  private pulled(gradient: Handle, parameter: Handle, penalty: number): Handle {
    const decay = this.scaled(parameter, penalty);
    const sum = this.run('AddV2', [gradient, decay]);
    this.free(decay);
    return sum;
  }

  private scaled(t: Handle, factor: number): Handle {
    return this.run('Mul', [t, { id: this.scalar(factor), shape: [] }]);
  }

  private assign(variable: number, value: number): void {
    this.binding.executeOp('AssignVariableOp', NONE, [variable, value], 0);
  }

  private variable(i: number): number {
    const { binding } = this;
    const attrs = [
      ...this.float(),
      { name: 'shape', type: binding.TF_ATTR_SHAPE, value: [] },
      { name: 'container', type: binding.TF_ATTR_STRING, value: '' },
      { name: 'shared_name', type: binding.TF_ATTR_STRING, value: `backwire_update_${i}` },
    ];
    return (this.variables[i] ??= (binding.executeOp('VarHandleOp', attrs, [], 1)[0] as Handle).id);
  }

  private float(): Attribute[] {
    return [{ name: 'dtype', type: this.binding.TF_ATTR_TYPE, value: this.binding.TF_FLOAT }];
  }

  /** Rates and decays come back every step: as tensors they are kept, the latest ones. */
  private scalar(value: number): number {
    return this.remembered(this.scalars, value, () =>
      this.binding.createTensor([], this.binding.TF_FLOAT, Float32Array.of(value)),
    );
  }

  private list(dims: readonly number[]): number {
    return this.remembered(this.lists, dims.join(), () =>
      this.binding.createTensor([dims.length], this.binding.TF_INT32, Int32Array.from(dims)),
    );
  }

  private remembered<K>(known: Map<K, number>, key: K, make: () => number): number {
    const before = known.get(key);
    if (before !== undefined) {
      // To the end of the order of age: what this very call uses must not be the next to go.
      known.delete(key);
      known.set(key, before);
      return before;
    }
    if (known.size >= limits.nativeConstants) {
      const [oldest, id] = known.entries().next().value as [K, number];
      known.delete(oldest);
      this.binding.deleteTensor(id);
    }
    const made = make();
    known.set(key, made);
    return made;
  }
}
