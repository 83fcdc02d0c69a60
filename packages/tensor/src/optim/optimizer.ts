/** @file What every optimiser shares: parameters, their state, and steps over whole arrays with no operation in between. */
import type { DeviceUpdate } from '../backends/backend.ts';
import { argument, freeArguments } from '../ops/kernels.ts';
import { backendWorth } from '../backends/current.ts';
import { noGrad } from '../autograd/record.ts';
import { isDifferentiable } from '../dtype.ts';
import { rpcName } from '../named.ts';
import { check, each, FLOATING } from '../ops/takes.ts';
import { sweep } from '../scope.ts';
import { Storage } from '../storage.ts';
import type { Tensor } from '../tensor.ts';
import { loadState, saveState, type OptimizerState, type Remembered } from './state.ts';
import {
  lanesOf,
  openValues,
  plainValues,
  valuesOf,
  withValues,
  workDType,
  zeroValues,
  type Values,
} from './values.ts';
import { checkOptionNames } from '../option-names.ts';

export type { Values };

/** What an optimiser remembers of one parameter. */
export interface ParameterState {
  /** Steps this parameter has taken, the current one included. */
  step: number;
  /** Whether the accumulators were made for this step. */
  readonly fresh: boolean;
  /** Accumulators of the parameter's size. */
  readonly slots: readonly Values[];
}

/** Options every optimiser has. */
export interface CommonOptions {
  /** Follows the gradient upwards instead of downwards. @default false */
  readonly maximize?: boolean;
}

/** Parameters and the options of their updates. Options may be changed between steps: `paramGroups[0].lr = 0.01`. */
export interface ParamGroup {
  readonly params: readonly Tensor[];
  /** Learning rate. */
  lr: number;
  maximize: boolean;
  /** The optimiser's other options, by the names its constructor takes. */
  [option: string]: unknown;
}

/**
 * Updates parameters from gradients. `step()` reads each parameter's `grad`; `step(grads)` takes the gradients in the order of the
 * parameters, null where there is none. A parameter without a gradient is left alone. The gradients stay the caller's. Complex
 * parameters are updated as pairs of real numbers.
 */
export abstract class Optimizer {
  readonly params: readonly Tensor[];
  /** The options in force: one group of all parameters. */
  readonly paramGroups: readonly [ParamGroup];
  private readonly states: (Remembered | undefined)[];

  constructor(params: Iterable<Tensor>) {
    if (typeof (params as Iterable<Tensor> | undefined)?.[Symbol.iterator] !== 'function')
      throw new TypeError(
        `${nameOf(this)} takes a list of parameters, such as model.parameters(); got ${kindOf(params)}`,
      );
    this.params = [...params];
    if (this.params.length === 0) throw new RangeError('optimizer got an empty parameter list');
    for (const [i, param] of this.params.entries()) {
      if (typeof (param as Tensor | undefined)?.isLeaf !== 'boolean')
        throw new TypeError(`${nameOf(this)} takes tensors; parameter ${i} is ${kindOf(param)}`);
      if (!param.isLeaf) throw new TypeError(`can't optimize a non-leaf Tensor (parameter ${i})`);
      if (param.layout !== 'strided') throw new TypeError(`can't optimize a sparse tensor (parameter ${i})`);
      if (!isDifferentiable(param.dtype))
        throw new TypeError(`can't optimize a tensor of ${param.dtype} (parameter ${i})`);
    }
    this.paramGroups = [{ params: this.params, lr: 0, maximize: false }];
    this.states = new Array<Remembered | undefined>(this.params.length).fill(undefined);
  }

  /** @throws RangeError when `grads` is given with another length than `params`. */
  step(grads?: readonly (Tensor | null)[]): void {
    if (grads !== undefined && grads.length !== this.params.length) {
      throw new RangeError(
        `the optimizer has ${this.params.length} parameters, but was given ${grads.length} gradients: give null for none`,
      );
    }
    const given = this.params.map((param, i) => (grads === undefined ? param.meta?.grad : grads[i]) ?? null);
    // All of them before anything changes.
    for (const [i, grad] of given.entries()) if (grad !== null) this.checkGradient(i, grad);
    noGrad(() => {
      for (const [i, grad] of given.entries()) if (grad !== null) this.stepOne(i, grad);
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

  /**
   * The options and what is remembered of each parameter, by its index, in PyTorch's shape and with its names of accumulators.
   * The tensors are copies, and the caller's.
   */
  stateDict(): OptimizerState {
    return saveState(this.params, this.states, this.slotNames, this.paramGroups[0]);
  }

  /**
   * Goes on from `saved`: options and accumulators are copied from it. Nothing is changed unless everything fits.
   * @throws RangeError when it belongs to other parameters or to another optimiser.
   */
  loadStateDict(saved: OptimizerState): void {
    const [group] = this.paramGroups;
    const before = { ...group };
    try {
      // Which accumulators there are depends on the options.
      const load = loadState(this.params, saved, group);
      this.validate();
      load(this.slotNames, this.states);
    } catch (error) {
      Object.assign(group, before);
      throw error;
    }
  }

  /** PyTorch's names of the accumulators a parameter needs, under the options in force. */
  protected abstract readonly slotNames: readonly string[];
  /** What an accumulator holds before the first step. @default 0 */
  protected get slotStart(): number {
    return 0;
  }
  /** Changes `p` in place from gradient `g`; all arrays have one length. */
  protected abstract update(p: Values, g: Values, state: ParameterState): void;
  /** How the `step`th update is made by a device's own kernel; undefined where only `update` can. */
  protected deviceUpdate(_step: number): DeviceUpdate | undefined {
    return undefined;
  }
  /** What a sparse gradient does: updates the rows it names, counts as a dense one whose other rows are zero, or is refused. */
  protected get sparseGradients(): 'rows' | 'dense' | 'refused' {
    return 'refused';
  }
  /** Throws when an option is outside its range. */
  protected validate(): void {}

  /** Puts the options in force, those left out or undefined by default; the result changes with the parameter group. */
  protected configure<O extends CommonOptions>(defaults: Omit<Required<O>, 'maximize'>, given: O): Required<O> {
    const [group] = this.paramGroups;
    checkGiven(given, nameOf(this));
    checkOptionNames(given, new Set([...Object.keys(defaults), 'maximize']), nameOf(this));
    Object.assign(group, defaults);
    for (const [name, value] of Object.entries(given)) if (value !== undefined) group[name] = value;
    this.validate();
    return group as unknown as Required<O>;
  }

  private stepOne(i: number, grad: Tensor): void {
    const param = this.params[i] as Tensor;
    const state = this.stateOf(i, param);
    state.step++;
    if (!this.paramGroups[0].maximize && (grad.sparse === undefined || this.sparseGradients === 'rows')) {
      this.stepWith(param, grad, state);
    } else {
      const own = sweep(() => {
        const plain = this.sparseGradients === 'rows' ? grad.detach() : grad.detach().toDense();
        return this.paramGroups[0].maximize ? plain.mul(-1) : plain;
      });
      this.stepWith(param, own, state);
      own.dispose();
    }
    state.fresh = false;
  }

  private checkGradient(i: number, grad: Tensor): void {
    const param = this.params[i] as Tensor;
    if (grad.shape.length !== param.shape.length || grad.shape.some((n, d) => n !== param.shape[d])) {
      throw new RangeError(
        `gradient ${i} has shape [${grad.shape.join(', ')}], its parameter [${param.shape.join(', ')}]`,
      );
    }
    check(`${this.constructor.name}.step`, each(FLOATING), [grad]);
    if (grad.dtype === 'complex64' && param.dtype !== 'complex64') {
      throw new TypeError(`gradient ${i} is complex64, its parameter ${param.dtype}`);
    }
    if (grad.sparse !== undefined && this.sparseGradients === 'refused') {
      throw new TypeError(
        `${this.constructor.name} does not support sparse gradients, please consider SGD or Adagrad instead`,
      );
    }
    const dims = grad.sparse?.indices.shape[0];
    if (dims !== undefined && dims !== 1 && this.sparseGradients === 'rows') {
      throw new RangeError(`a sparse gradient needs one sparse dimension, got ${dims}`);
    }
  }

  private stepWith(param: Tensor, grad: Tensor, state: Remembered): void {
    if (grad.sparse !== undefined) this.stepRows(param, grad, state);
    else if (!this.stepOnDevice(param, grad, state)) {
      const dense = plainValues(grad, workDType(param));
      withValues(param, (p) => this.update(p, valuesOf(dense), this.opened(state, param)));
      dense.release();
    }
  }

  /** Leaves the update to a kernel of the device where it has one and the parameter is large enough; answers whether it did. */
  private stepOnDevice(param: Tensor, grad: Tensor, state: Remembered): boolean {
    const { storage, shape, size } = param;
    const backend = backendWorth('update', size);
    if (backend?.update === undefined) return false;
    if (param.dtype !== 'float32' || grad.dtype !== 'float32') return false;
    if (size * 4 !== storage.nbytes || !param.isContiguous) return false;
    const update = this.deviceUpdate(state.step);
    if (update === undefined) return false;
    const gradient = argument(backend, grad);
    const changed = [storage, ...this.slotNames.map((name) => state.slots.get(name) as Storage)];
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
    const ids = sweep(() => rows.contiguous().dataSync());
    const width = (param.size / Math.max(1, param.shape[0] ?? 1)) * lanesOf(param);
    const dense = plainValues(values, workDType(param));
    withValues(param, (p) => {
      const g = valuesOf(dense);
      const { slots, ...rest } = this.opened(state, param);
      for (let k = 0; k < ids.length; k++) {
        const start = Number(ids[k]) * width;
        this.update(p.subarray(start, start + width), g.subarray(k * width, (k + 1) * width), {
          ...rest,
          slots: slots.map((slot) => slot.subarray(start, start + width)),
        });
      }
    });
    dense.dispose();
    for (const t of [summed, rows, values]) if (t !== grad) t.dispose();
  }

  /** A parameter's state with all the accumulators that the options in force need. */
  private stateOf(i: number, param: Tensor): Remembered {
    const state = (this.states[i] ??= { step: 0, slots: new Map(), fresh: false });
    for (const name of this.slotNames) {
      if (state.slots.has(name)) continue;
      const values = zeroValues(param);
      if (this.slotStart !== 0) values.fill(this.slotStart);
      const storage = new Storage(new Uint8Array(values.buffer));
      storage.retain();
      state.slots.set(name, storage);
      state.fresh = true;
    }
    return state;
  }

  /** The state as `update` takes it: the accumulators in host memory. */
  private opened({ step, fresh, slots }: Remembered, param: Tensor): ParameterState {
    return { step, fresh, slots: this.slotNames.map((name) => openValues(slots.get(name) as Storage, param)) };
  }
}

/** The name under which peers may make an optimiser: 'optim.SGD' and so on. */
export { rpcName };

/** Refuses a hyperparameter outside its range, in PyTorch's words. */
export function checkRange(name: string, value: number, ok: boolean): void {
  if (!ok || Number.isNaN(value)) throw new RangeError(`Invalid ${name}: ${value}`);
}

/** 'optim.SGD'. */
function nameOf(optimizer: Optimizer): string {
  const ctor = optimizer.constructor as { readonly [rpcName]?: unknown; readonly name: string };
  return typeof ctor[rpcName] === 'string' ? ctor[rpcName] : ctor.name;
}

/** @throws TypeError for options that are missing or no object: programs without types may give the learning rate itself. */
function checkGiven(given: unknown, what: string): void {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return;
  const got = given === undefined ? 'none were given' : `got ${kindOf(given)}`;
  throw new TypeError(`${what} needs options, an object such as { lr: 0.01 }; ${got}`);
}

/** What a wrong argument is, for messages. */
function kindOf(value: unknown): string {
  if (typeof value === 'object' && value !== null)
    return Array.isArray(value) ? 'a list' : `an object of class ${value.constructor?.name ?? 'none'}`;
  return typeof value === 'function' ? `function ${value.name}` : String(value);
}
