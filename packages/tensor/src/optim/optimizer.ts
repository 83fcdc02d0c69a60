/** @file What every optimiser shares: parameters, their state, and steps over whole arrays with no operation in between. */
import type { DeviceUpdate } from '../backends/backend.ts';
import { argument, freeArguments } from '../backends/kernels.ts';
import { currentBackend } from '../backends/current.ts';
import { noGrad } from '../autograd/record.ts';
import { rpcName } from '../named.ts';
import { sweep } from '../scope.ts';
import { Storage } from '../storage.ts';
import type { Tensor } from '../tensor.ts';

/** The arrays an update works on: float32, or float64 for parameters of that type. */
export type Values = Float32Array | Float64Array;

/** What an optimiser remembers of one parameter. */
export interface ParameterState {
  /** Steps this parameter has taken, the current one included. */
  step: number;
  /** Accumulators of the parameter's size, zero at first. */
  readonly slots: readonly Values[];
}

/** The same between steps: the accumulators are wherever the last update left them. */
interface Remembered {
  step: number;
  readonly slots: readonly Storage[];
}

/**
 * Updates parameters from gradients. `step()` reads each parameter's `grad`; `step(grads)` takes the gradients in the order of the
 * parameters, null where there is none. A parameter without a gradient is left alone. The gradients stay the caller's.
 */
export abstract class Optimizer {
  readonly params: readonly Tensor[];
  private readonly states: (Remembered | undefined)[];

  constructor(params: Iterable<Tensor>) {
    this.params = [...params];
    if (this.params.length === 0) throw new RangeError('optimizer got an empty parameter list');
    for (const [i, param] of this.params.entries()) {
      if (!param.isLeaf) throw new TypeError(`can't optimize a non-leaf Tensor (parameter ${i})`);
      if (param.layout !== 'strided') throw new TypeError(`can't optimize a sparse tensor (parameter ${i})`);
    }
    this.states = new Array<Remembered | undefined>(this.params.length).fill(undefined);
  }

  /** @throws RangeError when `grads` is given with another length than `params`. */
  step(grads?: readonly (Tensor | null)[]): void {
    if (grads !== undefined && grads.length !== this.params.length) {
      throw new RangeError(
        `the optimizer has ${this.params.length} parameters, but was given ${grads.length} gradients: give null for none`,
      );
    }
    noGrad(() => {
      for (const [i, param] of this.params.entries()) {
        const grad = grads === undefined ? (param.meta?.grad ?? null) : (grads[i] ?? null);
        if (grad !== null) this.stepOne(i, param, grad);
      }
    });
  }

  /** Drops the gradients: `grad` is null afterwards. */
  zeroGrad(): void {
    for (const param of this.params) {
      const { meta } = param;
      if (meta === undefined) continue;
      // Freed at once unless the program has asked for it and may hold it.
      if (!meta.gradSeen) meta.grad?.release();
      meta.grad = null;
    }
  }

  /** How many accumulators a parameter needs. */
  protected abstract readonly slotCount: number;
  /** What an accumulator holds before the first step. @default 0 */
  protected readonly slotStart: number = 0;
  /** Changes `p` in place from gradient `g`; all arrays have one length. */
  protected abstract update(p: Values, g: Values, state: ParameterState): void;
  /** How the `step`th update is made by a device's own kernel; undefined where only `update` can. */
  protected deviceUpdate(_step: number): DeviceUpdate | undefined {
    return undefined;
  }
  /** Whether `update` may be given only the rows a sparse gradient names. */
  protected readonly acceptsSparse: boolean = false;

  private stepOne(i: number, param: Tensor, grad: Tensor): void {
    const sparse = grad.sparse !== undefined;
    if (grad.shape.length !== param.shape.length || grad.shape.some((n, d) => n !== param.shape[d])) {
      throw new RangeError(
        `gradient ${i} has shape [${grad.shape.join(', ')}], its parameter [${param.shape.join(', ')}]`,
      );
    }
    if (sparse && !this.acceptsSparse) {
      throw new TypeError(
        `${this.constructor.name} does not support sparse gradients, please consider SGD or Adagrad instead`,
      );
    }
    const state = (this.states[i] ??= this.newState(param));
    state.step++;
    if (sparse) this.stepRows(param, grad, state);
    else if (!this.stepOnDevice(param, grad, state)) {
      const dense = plainValues(grad, param.dtype);
      withValues(param, (p) => this.update(p, valuesOf(dense), opened(state, param)));
      dense.release();
    }
  }

  /** Leaves the update to a kernel of the device where it has one and the parameter is large enough; answers whether it did. */
  private stepOnDevice(param: Tensor, grad: Tensor, state: Remembered): boolean {
    const backend = currentBackend();
    const { storage, shape, size } = param;
    if (backend.update === undefined || size < backend.worth.elementwise) return false;
    if (param.dtype !== 'float32' || grad.dtype !== 'float32') return false;
    if (size * 4 !== storage.nbytes || !param.isContiguous) return false;
    const update = this.deviceUpdate(state.step);
    if (update === undefined) return false;
    const gradient = argument(backend, grad);
    const changed = [storage, ...state.slots];
    try {
      const targets = changed.map((s) => ({ buffer: s.toDevice(backend, 'float32'), shape }));
      backend.update(update, targets, gradient);
    } finally {
      freeArguments(backend, [gradient]);
    }
    for (const s of changed) s.changedOnDevice();
    return true;
  }

  /** Applies `update` row by row: rows that the gradient does not name keep their values and their state. */
  private stepRows(param: Tensor, grad: Tensor, state: Remembered): void {
    const summed = grad.coalesce();
    const rows = summed.indices();
    const values = summed.values();
    if (rows.shape[0] !== 1) throw new RangeError(`a sparse gradient needs one sparse dimension, got ${rows.shape[0]}`);
    const ids = sweep(() => rows.contiguous().dataSync());
    const width = param.size / Math.max(1, param.shape[0] ?? 1);
    const dense = plainValues(values, param.dtype);
    withValues(param, (p) => {
      const g = valuesOf(dense);
      const { step, slots } = opened(state, param);
      for (let k = 0; k < ids.length; k++) {
        const start = Number(ids[k]) * width;
        this.update(p.subarray(start, start + width), g.subarray(k * width, (k + 1) * width), {
          step,
          slots: slots.map((slot) => slot.subarray(start, start + width)),
        });
      }
    });
    dense.dispose();
    for (const t of [summed, rows, values]) if (t !== grad) t.dispose();
  }

  private newState(param: Tensor): Remembered {
    const make = arrayFor(param);
    const slots = Array.from({ length: this.slotCount }, () => {
      const values = new make(param.size);
      if (this.slotStart !== 0) values.fill(this.slotStart);
      const storage = new Storage(new Uint8Array(values.buffer));
      storage.retain();
      return storage;
    });
    return { step: 0, slots };
  }
}

/** The name under which peers may make an optimiser: 'optim.SGD' and so on. */
export { rpcName };

const arrayOf = { float32: Float32Array, float64: Float64Array } as const;

function arrayFor(param: Tensor): typeof Float32Array | typeof Float64Array {
  return param.dtype === 'float64' ? Float64Array : Float32Array;
}

/** A parameter's state as `update` takes it: the accumulators in host memory. */
function opened({ step, slots }: Remembered, param: Tensor): ParameterState {
  const make = arrayFor(param);
  return {
    step,
    slots: slots.map((slot) => {
      const bytes = slot.mutate();
      return new make(bytes.buffer as ArrayBuffer, bytes.byteOffset, param.size);
    }),
  };
}

/** Gives `fn` the parameter's own memory when it is contiguous floats, else a copy that is written back. */
function withValues(param: Tensor, fn: (values: Values) => void): void {
  if ((param.dtype === 'float32' || param.dtype === 'float64') && param.isContiguous) {
    const bytes = param.storage.mutate();
    const make = arrayOf[param.dtype];
    fn(new make(bytes.buffer as ArrayBuffer, bytes.byteOffset + param.offset * make.BYTES_PER_ELEMENT, param.size));
    return;
  }
  const copy = sweep(() => param.detach().to('float32').clone());
  withValues(copy, fn);
  param.copy_(copy);
  copy.dispose();
}

/** The gradient, contiguous and in the type its parameter is updated in. The caller disposes it. */
function plainValues(grad: Tensor, dtype: string): Tensor {
  const wanted = dtype === 'float64' ? 'float64' : 'float32';
  if (grad.dtype === wanted && grad.isContiguous) return grad.detach();
  return sweep(() => grad.detach().to(wanted).contiguous());
}

/**
 * The values where they lie; to be read only. Taken after the parameter's own memory: making a gradient plain may grow the device's
 * memory, and that moves every view of it.
 */
function valuesOf(dense: Tensor): Values {
  const bytes = dense.storage.peek();
  const make = arrayOf[dense.dtype as 'float32' | 'float64'];
  return new make(bytes.buffer as ArrayBuffer, bytes.byteOffset + dense.offset * make.BYTES_PER_ELEMENT, dense.size);
}

/** Refuses a hyperparameter outside its range, in PyTorch's words. */
export function checkRange(name: string, value: number, ok: boolean): void {
  if (!ok || Number.isNaN(value)) throw new RangeError(`Invalid ${name}: ${value}`);
}
