/** @file State dicts of optimisers: what a step remembers as plain data, and back. */
import { kindOf } from '../given.ts';
import { over } from '../host.ts';
import { sameShape } from '../shape.ts';
import { sweep } from '../scope.ts';
import { Storage } from '../storage.ts';
import { Tensor } from '../tensor.ts';
import { plainValues, valuesOf, workDType, type WorkDType } from './values.ts';

/** Parameters and their options, as this file needs them. */
interface ParamGroup {
  readonly params: readonly Tensor[];
  readonly [option: string]: unknown;
}

/** An optimiser's memory in PyTorch's shape. */
export interface OptimizerState {
  /** By index of the parameter: the steps it took, and accumulators of its shape. Parameters that took none are left out. */
  readonly state: Readonly<Record<number, Readonly<Record<string, Tensor | number>>>>;
  /** The options of each group, and the indices of its parameters. */
  readonly paramGroups: readonly Readonly<Record<string, unknown>>[];
}

/** What is kept of one parameter between steps: the accumulators are wherever the last update left them. */
export interface Remembered {
  step: number;
  /** Whether accumulators were made for the step under way. */
  fresh: boolean;
  /** That of the parameter when the accumulators were made: a module may have been made another since. */
  dtype: WorkDType;
  /** By name; those that the options in force do not need stay. */
  readonly slots: Map<string, Storage>;
}

export function saveState(
  params: readonly Tensor[],
  states: readonly (Remembered | undefined)[],
  namesAt: (param: number) => readonly string[],
  groups: readonly ParamGroup[],
): OptimizerState {
  const state: Record<number, Record<string, Tensor | number>> = {};
  for (const [i, param] of params.entries()) {
    const own = states[i];
    if (own === undefined || own.step === 0) continue;
    const saved: Record<string, Tensor | number> = { step: own.step };
    for (const name of namesAt(i)) {
      const slot = own.slots.get(name);
      if (slot !== undefined) saved[name] = over(new Storage(slot.peek().slice()), own.dtype, param.shape);
    }
    state[i] = saved;
  }
  let at = 0;
  return { state, paramGroups: groups.map((group) => ({ ...group, params: group.params.map(() => at++) })) };
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

/**
 * Puts the saved options into the groups. The result, called once they are known to be good, replaces the states; it checks all of
 * them before it changes any. `notes` are names that a group may have beside its options.
 */
export function loadState(
  params: readonly Tensor[],
  saved: OptimizerState,
  groups: readonly ParamGroup[],
  notes: ReadonlySet<string>,
): (namesAt: (param: number) => readonly string[], states: (Remembered | undefined)[]) => void {
  if (
    !Array.isArray((saved as OptimizerState | null)?.paramGroups) ||
    !saved.paramGroups.every(isObject) ||
    !isObject(saved.state) ||
    !Object.values(saved.state).every(isObject)
  )
    throw new TypeError(`loadStateDict() takes what stateDict() gives, { state, paramGroups }; got ${kindOf(saved)}`);
  if (saved.paramGroups.length !== groups.length)
    throw new RangeError('loaded state dict has a different number of parameter groups');
  /** The number under which each parameter was saved. */
  const keys: number[] = [];
  for (const [g, group] of groups.entries()) {
    const { params: indices, ...options } = saved.paramGroups[g] as Readonly<Record<string, unknown>>;
    if (!Array.isArray(indices) || indices.length !== group.params.length) {
      throw new RangeError(
        "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
      );
    }
    keys.push(...indices.map(Number));
    for (const [name, value] of Object.entries(options)) {
      if (!Object.hasOwn(group, name) && !notes.has(name))
        throw new RangeError(`loaded state dict has an option '${name}' that is not this optimizer's`);
      (group as Record<string, unknown>)[name] = value;
    }
  }
  return (namesAt, states) => {
    const loaded = params.map((param, i) => loadOne(param, i, saved.state[keys[i] as number], namesAt(i)));
    for (const [i, own] of loaded.entries()) {
      for (const slot of states[i]?.slots.values() ?? []) slot.release();
      states[i] = own;
    }
  };
}

function loadOne(
  param: Tensor,
  index: number,
  saved: Readonly<Record<string, Tensor | number>> | undefined,
  names: readonly string[],
): Remembered | undefined {
  if (saved === undefined) return undefined;
  const unknown = Object.keys(saved).find((name) => name !== 'step' && !names.includes(name));
  if (unknown !== undefined) {
    throw new RangeError(`loaded state of parameter ${index} has '${unknown}', which this optimizer does not keep`);
  }
  const { step } = saved;
  const steps = step instanceof Tensor ? step.item() : step;
  if (steps === undefined || !Number.isInteger(steps) || steps < 0) {
    throw new RangeError(`loaded state of parameter ${index} has no whole number of steps`);
  }
  const slots = new Map<string, Storage>();
  for (const name of names) {
    const value = saved[name];
    // An accumulator that is missing starts with the next step.
    if (value === undefined) continue;
    if (!(value instanceof Tensor) || !sameShape(value.shape, param.shape)) {
      const got = value instanceof Tensor ? `[${value.shape.join(', ')}]` : typeof value;
      throw new RangeError(`loaded '${name}' of parameter ${index} is ${got} instead of [${param.shape.join(', ')}]`);
    }
    slots.set(name, convertedTo(workDType(param), value));
  }
  return { step: steps, fresh: false, dtype: workDType(param), slots };
}

/** Makes the accumulators what `param` is updated in now, as its values were made. */
export function followDType(own: Remembered, param: Tensor): void {
  const dtype = workDType(param);
  const converted = [...own.slots].map(([name, slot]) => {
    const values = (): Storage => convertedTo(dtype, over(new Storage(slot.peek().slice()), own.dtype, param.shape));
    return [name, sweep(values)] as const;
  });
  for (const [name, storage] of converted) {
    own.slots.get(name)?.release();
    own.slots.set(name, storage);
  }
  own.dtype = dtype;
}

/** An accumulator with the values of `t`, held once. */
function convertedTo(dtype: WorkDType, t: Tensor): Storage {
  const values = sweep(() => valuesOf(plainValues(t, dtype)).slice());
  const storage = new Storage(new Uint8Array(values.buffer));
  storage.retain();
  return storage;
}
