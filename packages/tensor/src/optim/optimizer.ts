/** @file What every optimiser shares: parameters, their state, and steps over whole arrays with no operation in between. */
import { checkList } from '../shape.ts';
import type { DeviceUpdate } from '../backends/backend.ts';
import { asInt32 } from '../ops/indexing.ts';
import { argument, freeArguments } from '../ops/kernels.ts';
import { backendWorth } from '../backends/current.ts';
import { clearGrad } from '../autograd/backward/accumulate.ts';
import { noGrad } from '../autograd/record.ts';
import { asGroup, isGroup, type GivenGroup, type ParamGroup, type Params } from './groups.ts';
import { gradientsIn } from './uncombined.ts';
import { decode, isDifferentiable, type NumberArray } from '../dtype.ts';
import { DTypeError } from '../errors.ts';
import { readArray } from '../host.ts';
import { rpcName } from '../named.ts';
import { partsOf } from '../ops/sparse/parts.ts';
import { check, checkTensors, each, FLOATING } from '../ops/takes.ts';
import { sweep } from '../scope.ts';
import { Storage } from '../storage.ts';
import type { Tensor } from '../tensor.ts';
import { followDType, loadState, saveState, type OptimizerState, type Remembered } from './state.ts';
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
import { kindOf } from '../given.ts';
import { checkOptionNames } from '../option-names.ts';
import { checkComplete, checkEachOnce, checkGiven, checkKinds, checkNumbers, defined, nameOf } from './options.ts';
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

/** What a sparse gradient does. */
export type SparseGradients = 'rows' | 'dense' | 'refused' | 'refused with decay' | 'nothing else';

/** What schedulers note in a group, beside its options. */
const NOTES: ReadonlySet<string> = new Set(['initialLr', 'maxLr', 'minLr', 'maxMomentum', 'baseMomentum']);

/**
 * Updates parameters from gradients. `step()` reads each parameter's `grad`; `step(grads)` takes the gradients in the order of the
 * parameters, group after group, null where there is none. A parameter without a gradient is left alone. The gradients stay the caller's.
 * Complex parameters are updated as pairs of real numbers.
 */
export abstract class Optimizer<O extends CommonOptions = CommonOptions> {
  private readonly given: readonly GivenGroup[];
  private defaults: Readonly<Record<string, unknown>> = {};
  private readonly groups: ParamGroup[] = [];
  private readonly flat: Tensor[] = [];
  /** The group of each parameter. */
  private readonly groupAt: ParamGroup[] = [];
  /** The group whose options are in force: that of the parameter which is being updated. */
  private group: ParamGroup = { params: [], lr: 0, maximize: false };
  private readonly states: (Remembered | undefined)[] = [];

  /** @param params parameters, or groups of them with options of their own: `[{ params, lr: 0.1 }, { params: others }]`. */
  constructor(params: Params) {
    if (typeof (params as Iterable<Tensor> | undefined)?.[Symbol.iterator] !== 'function')
      throw new TypeError(
        `${nameOf(this)} takes a list of parameters, such as model.parameters(); got ${kindOf(params)}`,
      );
    const given = [...params];
    if (given.length === 0) throw new RangeError('optimizer got an empty parameter list');
    this.given = given.some(isGroup) ? given.map((one, i) => asGroup(one, i)) : [{ params: given as Tensor[] }];
    // Options are added by `configure`; an optimiser of a class without any has its parameters from the start.
    for (const group of this.given) this.admit(group, {});
    this.group = this.groups[0] as ParamGroup;
  }

  /** All parameters, group after group. */
  get params(): readonly Tensor[] {
    return this.flat;
  }

  /** The options in force, for each group. */
  get paramGroups(): readonly [ParamGroup, ...ParamGroup[]] {
    return this.groups as unknown as readonly [ParamGroup, ...ParamGroup[]];
  }

  /** The options of the group whose parameter is being updated. */
  protected get options(): Required<O> {
    return this.group as unknown as Required<O>;
  }

  /** Adds parameters, such as those of layers that are trained from now on; options left out are the optimiser's. */
  addParamGroup(group: GivenGroup): void {
    const given = asGroup(group, this.groups.length);
    const added = this.admit(given, this.defaults);
    try {
      this.put(added, given);
    } catch (error) {
      this.groups.pop();
      this.flat.length -= added.params.length;
      this.groupAt.length = this.flat.length;
      this.states.length = this.flat.length;
      throw error;
    } finally {
      this.group = this.groups[0] as ParamGroup;
    }
  }

  /** Changes options of the groups: those named, in the groups in which they are named; all of them or, when one does not fit, none. */
  changeOptions(changes: readonly (Readonly<Record<string, unknown>> | null)[]): void {
    checkList(changes, `${nameOf(this)}.changeOptions() takes a list, options for each group`);
    if (changes.length !== this.groups.length)
      throw new RangeError(`${nameOf(this)} has ${this.groups.length} groups; got options for ${changes.length}`);
    this.allOrNothing(() => {
      for (const [i, change] of changes.entries())
        if (change !== null) this.change(this.groups[i] as ParamGroup, change);
    });
  }

  /** Runs `fn`; when it throws, the options of the groups are what they were before. */
  private allOrNothing(fn: () => void): void {
    const before = this.groups.map((group) => ({ ...group }));
    try {
      fn();
    } catch (error) {
      for (const [i, group] of this.groups.entries()) {
        for (const name of Object.keys(group)) if (!Object.hasOwn(before[i] as ParamGroup, name)) delete group[name];
        Object.assign(group, before[i]);
      }
      throw error;
    }
  }

  private change(group: ParamGroup, options: Readonly<Record<string, unknown>>): void {
    const what = `a parameter group of ${nameOf(this)}`;
    checkOptionNames(options, new Set(Object.keys(this.defaults)), what);
    checkKinds(options, this.defaults, what);
    Object.assign(group, defined(options));
    this.validateGroup(group);
  }

  /** Makes a group of checked parameters. */
  private admit(given: GivenGroup, defaults: Readonly<Record<string, unknown>>): ParamGroup {
    const first = this.flat.length;
    const params = [...given.params];
    for (const [i, param] of params.entries()) this.checkParam(param, first + i);
    checkEachOnce(params, this.flat, nameOf(this));
    const group: ParamGroup = { params, lr: 0, maximize: false, ...defaults };
    this.groups.push(group);
    for (const param of params) {
      this.flat.push(param);
      this.groupAt.push(group);
      this.states.push(undefined);
    }
    return group;
  }

  private checkParam(param: Tensor, i: number): void {
    if (typeof (param as Tensor | undefined)?.isLeaf !== 'boolean')
      throw new TypeError(`${nameOf(this)} takes tensors; parameter ${i} is ${kindOf(param)}`);
    if (!param.isLeaf) throw new TypeError(`can't optimize a non-leaf Tensor (parameter ${i})`);
    if (param.layout !== 'strided') throw new TypeError(`can't optimize a sparse tensor (parameter ${i})`);
    if (!isDifferentiable(param.dtype))
      throw new TypeError(`can't optimize a tensor of ${param.dtype} (parameter ${i})`);
    if (param.dtype === 'complex64' && !this.takesComplex)
      throw new DTypeError(`${nameOf(this)} can't optimize a tensor of complex64 (parameter ${i})`);
  }

  /** @throws RangeError when `grads` is given with another length than `params`. */
  step(grads?: readonly (Tensor | null)[]): void {
    if (grads !== undefined) checkList(grads, `${nameOf(this)}.step() takes a list of gradients, null for none`);
    if (grads !== undefined && grads.length !== this.params.length) {
      throw new RangeError(
        `the optimizer has ${this.params.length} parameters, but was given ${grads.length} gradients: give null for none`,
      );
    }
    for (const [g, { lr }] of this.groups.entries())
      if (typeof lr !== 'number' || Number.isNaN(lr)) checkNumbers({ [`lr of group ${g}`]: lr }, nameOf(this));
    const given = grads === undefined ? gradientsIn(this.params) : this.params.map((_, i) => grads[i] ?? null);
    // All of them before anything changes.
    this.eachIn(given, (i, grad) => this.checkGradient(i, grad));
    noGrad(() => this.eachIn(given, (i, grad) => this.stepOne(i, grad)));
  }

  /** Calls `fn` for each gradient that is there, with the options of its parameter in force. */
  private eachIn(grads: readonly (Tensor | null)[], fn: (i: number, grad: Tensor) => void): void {
    try {
      for (let i = 0; i < grads.length; i++) {
        const grad = grads[i] ?? null;
        if (grad === null) continue;
        this.group = this.groupAt[i] as ParamGroup;
        fn(i, grad);
      }
    } finally {
      this.group = this.groups[0] as ParamGroup;
    }
  }

  /** The names of the accumulators of parameter `i`. */
  private readonly namesAt = (i: number): readonly string[] => {
    this.group = this.groupAt[i] as ParamGroup;
    const names = this.slotNames;
    this.group = this.groups[0] as ParamGroup;
    return names;
  };

  /** Drops the gradients: `grad` is null afterwards. */
  zeroGrad(): void {
    for (const param of this.params) clearGrad(param);
  }

  /**
   * The options and what is remembered of each parameter, by its index, in PyTorch's shape and with its names of accumulators.
   * The tensors are copies, and the caller's.
   */
  stateDict(): OptimizerState {
    return saveState(this.params, this.states, this.namesAt, this.groups);
  }

  /**
   * Goes on from `saved`: options and accumulators are copied from it. Nothing is changed unless everything fits.
   * @throws RangeError when it belongs to other parameters or to another optimiser.
   */
  loadStateDict(saved: OptimizerState): void {
    this.allOrNothing(() => {
      // Which accumulators there are depends on the options.
      const load = loadState(this.params, saved, this.groups, NOTES);
      for (const [g, group] of this.groups.entries()) {
        checkComplete(group, this.defaults, `group ${g} of a loaded state dict of ${nameOf(this)}`);
        this.validateGroup(group);
      }
      load(this.namesAt, this.states);
    });
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
  /**
   * What a sparse gradient does: updates the rows it names, counts as a dense one whose other rows are zero, or is refused; or it updates
   * rows and a dense one is refused.
   */
  protected get sparseGradients(): SparseGradients {
    return 'refused';
  }
  /** Whether parameters may be complex; answered before the constructor has made any field. */
  protected get takesComplex(): boolean {
    return true;
  }
  /** Whether rows that a sparse gradient names several times may be updated as often, which spares sorting them. */
  protected get rowsOneByOne(): boolean {
    return false;
  }
  /** Throws when an option is outside its range. */
  protected validate(): void {}

  /** Puts the options in force, those left out or undefined by default. */
  protected configure(defaults: Omit<Required<O>, 'maximize'>, given: O): void {
    checkGiven(given, nameOf(this));
    checkOptionNames(given, new Set([...Object.keys(defaults), 'maximize']), nameOf(this));
    checkKinds(given, { maximize: false, ...defaults }, nameOf(this));
    this.defaults = { maximize: false, ...defaults, ...defined(given) };
    for (const [i, group] of this.groups.entries()) this.put(group, this.given[i] as GivenGroup);
  }

  /** Puts the options that a group was given over those of the optimiser. */
  private put(group: ParamGroup, { params: _, ...own }: GivenGroup): void {
    checkOptionNames(own, new Set([...Object.keys(this.defaults), ...NOTES]), `a parameter group of ${nameOf(this)}`);
    checkKinds(own, this.defaults, `a parameter group of ${nameOf(this)}`);
    Object.assign(group, this.defaults, defined(own));
    this.validateGroup(group);
  }

  private validateGroup(group: ParamGroup): void {
    this.group = group;
    try {
      this.validate();
    } finally {
      this.group = this.groups[0] as ParamGroup;
    }
  }

  private stepOne(i: number, grad: Tensor): void {
    const param = this.params[i] as Tensor;
    const state = this.stateOf(i, param);
    state.step++;
    if (!this.group.maximize && (grad.sparse === undefined || this.byRows)) {
      this.stepWith(param, grad, state);
    } else {
      const own = sweep(() => {
        const plain = this.byRows ? grad.detach() : grad.detach().toDense();
        return this.group.maximize ? plain.mul(-1) : plain;
      });
      this.stepWith(param, own, state);
      own.dispose();
    }
    state.fresh = false;
  }

  private checkGradient(i: number, grad: Tensor): void {
    const param = this.params[i] as Tensor;
    checkTensors(`${nameOf(this)}.step`, [grad]);
    if (grad.shape.length !== param.shape.length || grad.shape.some((n, d) => n !== param.shape[d])) {
      throw new RangeError(
        `gradient ${i} has shape [${grad.shape.join(', ')}], its parameter [${param.shape.join(', ')}]`,
      );
    }
    check(`${this.constructor.name}.step`, each(FLOATING), [grad]);
    if (grad.dtype === 'complex64' && param.dtype !== 'complex64') {
      throw new TypeError(`gradient ${i} is complex64, its parameter ${param.dtype}`);
    }
    if (grad.sparse !== undefined) this.checkSparse();
    else if (this.sparseGradients === 'nothing else')
      throw new TypeError(`${this.constructor.name} does not support dense gradients, please consider Adam instead`);
    const dims = grad.sparse?.indices.shape[0];
    if (dims !== undefined && dims !== 1 && this.byRows) {
      throw new RangeError(`a sparse gradient needs one sparse dimension, got ${dims}`);
    }
  }

  /** Whether a sparse gradient updates the rows that it names, and no others. */
  private get byRows(): boolean {
    return this.sparseGradients === 'rows' || this.sparseGradients === 'nothing else';
  }

  private checkSparse(): void {
    const { sparseGradients, group } = this;
    const does = 'does not support sparse gradients';
    if (sparseGradients === 'refused')
      throw new TypeError(`${this.constructor.name} ${does}, please consider SGD, Adagrad or SparseAdam instead`);
    if (sparseGradients === 'refused with decay')
      throw new TypeError(
        `${this.constructor.name} with weightDecay ${String(group['weightDecay'])} ${does}: decay changes rows that they do not name. Give their parameters a group with weightDecay 0`,
      );
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
    const summed = this.rowsOneByOne ? grad : grad.coalesce();
    const { indices, values } = partsOf(summed, 'step');
    const ids = decode(readArray(indices), 'int64');
    const width = (param.size / Math.max(1, param.shape[0] ?? 1)) * lanesOf(param);
    const dense = plainValues(values, workDType(param));
    if (this.rowsOneByOne && this.descendOnDevice(param, dense, ids)) {
      dense.dispose();
      return;
    }
    withValues(param, (p) => {
      this.updateRows(p, valuesOf(dense), ids, width, this.opened(state, param));
    });
    dense.dispose();
    if (summed !== grad) summed.dispose();
  }

  /** Leaves the rows to the device where it has a kernel for them and they are large enough; answers whether it did. */
  private descendOnDevice(param: Tensor, gradient: Tensor, ids: NumberArray): boolean {
    const { storage, shape, size } = param;
    const backend = backendWorth('update', gradient.size);
    if (backend?.descendRows === undefined || param.dtype !== 'float32') return false;
    if (size * 4 !== storage.nbytes || !param.isContiguous) return false;
    const rows = asInt32(ids);
    const given = [argument(backend, gradient), argument(backend, rows)] as const;
    try {
      const target = { buffer: storage.toDevice(backend, 'float32'), shape };
      backend.descendRows(target, given[1], given[0], this.group.lr);
    } finally {
      freeArguments(backend, given);
      rows.dispose();
    }
    storage.changedOnDevice();
    return true;
  }

  /** Applies `update` to the rows of `p` that `ids` name, row k of `g` being the gradient of row ids[k]. */
  protected updateRows(p: Values, g: Values, ids: NumberArray, width: number, state: ParameterState): void {
    const { slots, ...rest } = state;
    for (let k = 0; k < ids.length; k++) {
      const start = ids[k]! * width;
      this.update(p.subarray(start, start + width), g.subarray(k * width, (k + 1) * width), {
        ...rest,
        slots: slots.map((slot) => slot.subarray(start, start + width)),
      });
    }
  }

  /** A parameter's state with all the accumulators that the options in force need. */
  private stateOf(i: number, param: Tensor): Remembered {
    const dtype = workDType(param);
    const state = (this.states[i] ??= { step: 0, slots: new Map(), fresh: false, dtype });
    if (state.dtype !== dtype) followDType(state, param);
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
