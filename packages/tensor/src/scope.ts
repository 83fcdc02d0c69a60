/** @file Frees tensors early: `scope` for programs, `sweep` for the library's own temporaries. */
import { checkFunction } from './given.ts';
import { ambient, runCall, runWith } from './ambient.ts';

/** Something that a scope may free: a tensor, or a handle of a package above that carries `Symbol.for('backwire.scoped')`. */
export interface Scoped {
  dispose(): void;
}

/** A tensor, as far as its lifetime goes. */
export interface ScopedTensor extends Scoped {
  /** Made by library code that frees it again. */
  temporary: boolean;
  readonly sparse: { readonly indices: ScopedTensor; readonly values: ScopedTensor } | undefined;
  release(how?: 'scope'): void;
}

/** A scope, for what comes to the program later than it was asked for. */
export interface CurrentScope {
  /** The tensors in `value`, but for those in `found`, are the scope's to free from now on; those of one around it where it has ended, or nobody's. */
  adopt(value: unknown, found?: ReadonlySet<unknown>): void;
  /** It still ends when its function is over, but what it has then stays until it is freed, or is left to the collector. */
  outlast(): Remains;
}

/** What a scope has at its end, where something of it goes on. */
export interface Remains {
  /** Runs code that may `keep` of it. */
  run<R>(fn: () => R): R;
  /** Nothing goes on any more. */
  free(): void;
}

/** What was created in one `scope()`, or was given to it, and is still its to free. */
class Scope implements CurrentScope {
  readonly owned = new Set<Scoped>();
  readonly parent: Scope | undefined;
  ended = false;
  private outlasted = false;

  private readonly heirs: Set<Scoped> | undefined;

  /** `heirs` gets what outlives it in place of the enclosing scope. */
  constructor(parent: Scope | undefined, heirs?: Set<Scoped>) {
    this.parent = parent;
    this.heirs = heirs;
  }

  adopt(value: unknown, found?: ReadonlySet<unknown>): void {
    const taker = takerFrom(this);
    if (typeof value !== 'object' || value === null || taker === undefined) return;
    for (const t of handlesIn(value, false)) if (found?.has(t) !== true) taker.owned.add(t);
  }

  outlast(): Remains {
    this.outlasted = true;
    return { run: (fn) => runWith({ scope: this }, fn), free: () => freeAll(this.owned) };
  }

  /** Frees all but what `result` reaches, which passes on. */
  close(result: unknown): void {
    this.ended = true;
    if (this.outlasted) return;
    const heirs = this.heirs ?? takerFrom(this.parent)?.owned;
    if (typeof result === 'object' && result !== null)
      for (const t of scopedIn(result)) if (this.owned.delete(t)) heirs?.add(t);
    freeAll(this.owned);
  }
}

/** As at the end of the scope in which they were made. */
export function freeAll(owned: Set<Scoped>): void {
  for (const t of owned)
    if (isTensor(t)) t.release('scope');
    else t.dispose();
  owned.clear();
}

/**
 * The nearest scope from `scope` outwards that has not ended. Timers and whatever else goes on after its scope make things for as long
 * as the program lasts: what has ended would hold all of that, beyond the collector, and never free it.
 */
function takerFrom(scope: Scope | undefined): Scope | undefined {
  let taker = scope;
  while (taker?.ended === true) taker = taker.parent;
  return taker;
}

/** The one in force here. */
function taker(): Scope | undefined {
  return takerFrom(ambient().scope as Scope | undefined);
}

/** Scopes open anywhere in the process: while there are none, creating a tensor needs no look-up. */
let open = 0;
let sweeping: ScopedTensor[] | undefined;
let unnoticed = 0;
/** Told of every handle: while leaks are looked for. */
const watchers = new Set<(t: ScopedTensor) => void>();

/** Calls `watcher` with every handle made from now on, the library's own included; returns how to stop. */
export function watchCreation(watcher: (t: ScopedTensor) => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/**
 * Runs code of the program that makes a value of `given`, and tells `found` of what that holds which is neither from there nor made by it:
 * the program has it elsewhere, too.
 */
export function noteFound<T>(given: unknown, make: () => T, found: (handle: Scoped) => void): T {
  const known = scopedIn(given);
  const stop = watchCreation((t) => known.add(t));
  try {
    const value = make();
    for (const handle of scopedIn(value)) if (!known.has(handle)) found(handle);
    return value;
  } finally {
    stop();
  }
}

/** Every handle passes here once, when it is made. */
export function noteCreated(t: ScopedTensor): void {
  if (watchers.size > 0) for (const watcher of watchers) watcher(t);
  if (unnoticed > 0) return;
  if (sweeping !== undefined) {
    t.temporary = true;
    sweeping.push(t);
  } else if (open > 0) taker()?.owned.add(t);
}

/** Makes something from outside the current scope's to free; nothing where there is no scope. */
export function adoptIntoScope(handle: Scoped): void {
  if (isTensor(handle)) noteCreated(handle);
  else if (open > 0) taker()?.owned.add(handle);
}

/** The scope in force; undefined where there is none, or none that has not ended. */
export function scopeHere(): CurrentScope | undefined {
  return open > 0 ? taker() : undefined;
}

/**
 * Frees, when what `fn` returns has settled, the tensors that were created inside and are neither reachable from the result nor
 * kept. Holds across `await`: what a call of another worker answers before the end is created inside, too. Tensors saved for a backward
 * pass stay usable by it. On a throw, all but the kept are freed. What goes on after the end makes what belongs to the scope around, or
 * to nobody.
 * @param fn what is run; tensors in what it gives, or resolves with, stay
 * @example
 * ```ts
 * const x = randn([1000]);
 * const deviation = scope(() => {
 *   const centred = x.sub(x.mean()); // freed at the end
 *   return centred.square().mean().sqrt();
 * });
 * console.log(deviation.shape); // []
 * ```
 */
export function scope<T>(fn: () => T): T {
  checkFunction('scope', fn);
  // None that has ended is held: a loop whose passes each begin in the scope of the last would hold them all.
  const own = new Scope(taker());
  return inside(own, () => runWith({ scope: own }, fn));
}

/** As `scope`; what is its own and outlives it goes to `heirs`, for whoever sends the result to free. */
export function scopeFor<T>(heirs: Set<Scoped>, fn: () => T): T {
  const own = new Scope(taker(), heirs);
  return inside(own, () => runWith({ scope: own }, fn));
}

/** As `scope` inside of `runCall`: a handler needs both, and each costs a turn of the AsyncLocalStorage. */
export function callScope<T>(agent: object, call: object, fn: () => T): T {
  const own = new Scope(undefined);
  return inside(own, () => runCall(agent, call, own, fn));
}

function inside<T>(own: Scope, run: () => T): T {
  open++;
  let result: T;
  try {
    result = run();
  } catch (error) {
    open--;
    own.close(undefined);
    throw error;
  }
  if (!isThenable(result)) {
    open--;
    own.close(result);
    return result;
  }
  return Promise.resolve(result).then(
    (value) => {
      open--;
      own.close(value);
      return value;
    },
    (error: unknown) => {
      open--;
      own.close(undefined);
      throw error;
    },
  ) as T;
}

/** Takes the tensors and RRefs in `value` out of every enclosing scope: they live until disposed or unreachable. Returns `value`. */
export function keep<T>(value: T): T {
  const here = ambient().scope as Scope | undefined;
  if (here === undefined) return value;
  for (const t of scopedIn(value)) {
    for (let s: Scope | undefined = here; s !== undefined; s = s.parent) s.owned.delete(t);
  }
  return value;
}

/**
 * Runs synchronous library code and frees at once every tensor it made but did not return. Only for code that hands no tensor to
 * the program.
 */
export function sweep<T>(fn: () => T): T {
  const outer = sweeping;
  const made: ScopedTensor[] = [];
  sweeping = made;
  let result: T | undefined;
  try {
    result = fn();
    return result;
  } finally {
    sweeping = outer;
    if (made.length > 0) settle(made, result);
  }
}

/** Frees what a sweep made, but for the result. */
function settle(made: readonly ScopedTensor[], result: unknown): void {
  const kept = keptBy(result);
  for (const t of made) {
    if (!kept(t)) {
      t.release();
      continue;
    }
    t.temporary = false;
    noteCreated(t);
  }
}

/** Whether a tensor belongs to a result; quick for one tensor and for a list of a few. */
function keptBy(result: unknown): (t: ScopedTensor) => boolean {
  if (typeof result !== 'object' || result === null) return () => false;
  if (isTensor(result)) return (t) => t === result;
  const flat = Array.isArray(result) && result.length <= 8 && result.every((v) => v === null || isTensor(v as object));
  if (flat) return (t) => result.includes(t);
  const all = handlesIn(result, false);
  return (t) => all.has(t);
}

/** Makes a handle that the library itself owns and frees: no scope or sweep knows of it. */
export function untracked<T>(fn: () => T): T {
  unnoticed++;
  try {
    return fn();
  } finally {
    unnoticed--;
  }
}

/** Runs code of the program in the middle of a `sweep`: what it makes is its own. */
export function unswept<T>(fn: () => T): T {
  const outer = sweeping;
  sweeping = undefined;
  try {
    return fn();
  } finally {
    sweeping = outer;
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}

/** The tensors, and whatever else a scope may free. */
export function scopedIn(value: unknown): Set<Scoped> {
  return handlesIn(value, true);
}

/** Tensors reachable through arrays, maps, sets and the own fields of objects; with `others`, whatever else a scope may free, too. */
export function handlesIn(value: unknown, others: boolean): Set<Scoped> {
  const found = new Set<Scoped>();
  if (typeof value !== 'object' || value === null) return found;
  const seen = new Set<object>();
  const pending: object[] = [value];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (seen.has(next)) continue;
    seen.add(next);
    if (isTensor(next)) {
      found.add(next);
      if (next.sparse !== undefined) pending.push(next.sparse.indices, next.sparse.values);
      continue;
    }
    if (ArrayBuffer.isView(next)) continue;
    if (others && isMarked(next)) {
      found.add(next);
      continue;
    }
    const inside: Iterable<unknown> =
      next instanceof Map ? [...next.keys(), ...next.values()] : next instanceof Set ? next : Object.values(next);
    for (const item of inside) if (typeof item === 'object' && item !== null) pending.push(item);
  }
  return found;
}

const TENSOR = Symbol.for('backwire.isTensor');

/** Whether a value is a tensor: for files that the class is made of. */
export function isTensor(value: unknown): value is ScopedTensor {
  return (value as { [TENSOR]?: true } | null)?.[TENSOR] === true;
}

const SCOPED = Symbol.for('backwire.scoped');

function isMarked(value: object): value is Scoped {
  return (value as { [SCOPED]?: true })[SCOPED] === true;
}
