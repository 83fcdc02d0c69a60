/** @file Options as programs give them to optimisers: what kind each is of. */
import { kindOf } from '../given.ts';
import { rpcName } from '../named.ts';
import type { Tensor } from '../tensor.ts';

/** Without what is undefined. */
export function defined(options: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** 'optim.SGD'. */
export function nameOf(optimizer: object): string {
  const ctor = optimizer.constructor as { readonly [rpcName]?: unknown; readonly name: string };
  return typeof ctor[rpcName] === 'string' ? ctor[rpcName] : ctor.name;
}

/** @throws TypeError for options that are missing or no object: programs without types may give the learning rate itself. */
export function checkGiven(given: unknown, what: string): void {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return;
  const got = given === undefined ? 'none were given' : `got ${kindOf(given)}`;
  throw new TypeError(`${what} needs options, an object such as { lr: 0.01 }; ${got}`);
}

/** @throws TypeError for an option that is of another kind than its default: texts would be computed with. */
export function checkKinds(given: object, defaults: Readonly<Record<string, unknown>>, what: string): void {
  for (const [name, value] of Object.entries(defined(given))) checkKind(name, value, defaults[name], what);
}

/** @throws TypeError for an option that is missing or of another kind than its default, in options that have to be complete. */
export function checkComplete(
  options: Readonly<Record<string, unknown>>,
  defaults: Readonly<Record<string, unknown>>,
  what: string,
): void {
  for (const [name, usual] of Object.entries(defaults)) checkKind(name, options[name], usual, what);
}

function checkKind(name: string, value: unknown, usual: unknown, what: string): void {
  const wanted = wordsFor(usual);
  if (wanted === undefined || fits(value, usual)) return;
  throw new TypeError(`${what}: ${name} is ${wanted}, got ${kindOf(value)}`);
}

/** What an option with this default is, in words; undefined where it may be anything. */
function wordsFor(usual: unknown): string | undefined {
  if (Array.isArray(usual)) return `a list of ${usual.length} numbers`;
  if (typeof usual === 'number') return 'a number';
  return typeof usual === 'boolean' ? 'true or false' : undefined;
}

function fits(value: unknown, usual: unknown): boolean {
  if (!Array.isArray(usual)) return typeof value === typeof usual;
  return Array.isArray(value) && value.length === usual.length && value.every((each) => typeof each === 'number');
}

/** @throws TypeError for a setting of a schedule that is no number or NaN: the rates would be as well. Lists are looked through. */
export function checkNumbers(settings: Readonly<Record<string, unknown>>, what: string): void {
  for (const [name, value] of Object.entries(settings)) {
    for (const each of Array.isArray(value) ? (value as unknown[]) : [value])
      if (typeof each !== 'number' || Number.isNaN(each))
        throw new TypeError(`${what}: ${name} is a number, got ${kindOf(each)}`);
  }
}

/** @throws TypeError for what has no groups of parameters, as optimisers do. */
export function checkOptimizer(optimizer: unknown, what: string): void {
  if (Array.isArray((optimizer as { paramGroups?: unknown } | null | undefined)?.paramGroups)) return;
  throw new TypeError(`${what} takes an optimizer, got ${kindOf(optimizer)}`);
}

/** @throws TypeError for what no `stateDict()` gives. */
export function checkState(saved: unknown, what: string): void {
  if (typeof saved === 'object' && saved !== null) return;
  throw new TypeError(`loadStateDict() of ${what} takes what stateDict() gave, got ${kindOf(saved)}`);
}

/**
 * Options with those that are loaded in their place, lists copied; what `saved`, of an earlier version, is without stays.
 * @throws TypeError for one that is true or false and loaded as something else.
 */
export function overlaid<T extends object>(options: T, saved: Readonly<Record<string, unknown>>): T {
  const all = Object.entries(options).map(([name, own]) => {
    const value = saved[name] ?? (own as unknown);
    if (typeof own === 'boolean' && typeof value !== 'boolean')
      throw new TypeError(`loadStateDict(): ${name} is true or false, got ${kindOf(value)}`);
    return [name, Array.isArray(value) ? [...(value as unknown[])] : value];
  });
  return Object.fromEntries(all) as T;
}

/** @throws RangeError for what is divided by. */
export function checkAbove0(what: string, value: number): void {
  if (!(value > 0)) throw new RangeError(`${what} is above 0, but got ${value}`);
}

/** @throws RangeError for a list that has not one value for each group. */
export function checkEach(what: string, values: unknown, groups: readonly unknown[]): void {
  if (Array.isArray(values) && values.length !== groups.length)
    throw new RangeError(`${what} has ${values.length} values for ${groups.length} groups`);
}

/**
 * @throws RangeError for a parameter that is given twice, or is in a group before. PyTorch warns that the first will be an error, and
 * steps such a parameter as often as it is named.
 */
export function checkEachOnce(params: readonly Tensor[], before: readonly Tensor[], what: string): void {
  const seen = new Set(before);
  if (params.some((param) => seen.has(param)))
    throw new RangeError('some parameters appear in more than one parameter group');
  for (const [i, param] of params.entries()) {
    const { size } = seen;
    if (seen.add(param).size > size) continue;
    const [one, again] = [params.indexOf(param), i].map((at) => at + before.length);
    throw new RangeError(
      `${what}: parameter ${again} is parameter ${one} again, and would be stepped twice: leave one of them out`,
    );
  }
}
