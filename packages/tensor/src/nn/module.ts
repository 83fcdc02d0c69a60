/** @file Module: a tree of parameters and buffers with a mode and a state dict. */
import { clearGrad } from '../autograd/backward/accumulate.ts';
import { noGrad } from '../autograd/record.ts';
import { keep } from '../scope.ts';
import type { Device } from '../device.ts';
import { isDifferentiable, isDType } from '../dtype.ts';
import { Parameter, Tensor } from '../tensor.ts';
import { kindOf } from '../given.ts';
import { checkOptionNames } from '../option-names.ts';
import { hooksOf, type PostHook, type PreHook } from './forward-hooks.ts';
import { moduleText, SETTINGS, type Settings } from './printing.ts';

const LOAD_OPTIONS: ReadonlySet<string> = new Set(['strict']);

/** Anything with a `forward`; modules are composed through it. */
// Parameters and results are the subclass's own; `unknown` here would not let a method with typed parameters match.
/* eslint-disable @typescript-eslint/no-explicit-any */
export interface Callable<A extends any[] = any[], R = any> {
  forward(...args: A): R;
}
/* eslint-enable @typescript-eslint/no-explicit-any */

/** Names in which a module and a state dict differ. */
export interface StateDictMatch {
  /** In the module only: kept as they were. */
  readonly missing: readonly string[];
  /** In the state dict only: ignored. */
  readonly unexpected: readonly string[];
}

/**
 * The base of layers and models. Parameters, buffers (plain tensors in `registerBuffer`) and child modules are found among the own
 * fields of the instance, in the order they were assigned; parameters and modules in an array count by their index ('layers.0').
 * Deeper containers (arrays of arrays, maps, plain objects) are not looked into. A module may point back at one that contains it:
 * that counts as nothing inside. There is no `forward` on the base: subclasses may be synchronous, asynchronous, or take and return tuples.
 * @example
 * ```ts
 * class Net extends nn.Module {
 *   readonly hidden = new nn.Linear(4, 8);
 *   readonly out = new nn.Linear(8, 2);
 *   forward(x: Tensor): Tensor {
 *     return this.out.forward(this.hidden.forward(x).relu());
 *   }
 * }
 * const net = new Net();
 * console.log([...net.stateDict().keys()]); // [ 'hidden.weight', 'hidden.bias', 'out.weight', 'out.bias' ]
 * console.log(net.forward(randn([3, 4])).shape); // [ 3, 2 ]
 * ```
 */
export abstract class Module {
  /** Whether layers behave as in training (dropout, batch statistics). Set by `train` and `eval`. */
  training = true;
  private readonly held = new Map<string, Tensor>();

  /** The parameters of this module and, unless `recurse` is false, of those inside; each once. */
  parameters(recurse = true): Parameter[] {
    return this.namedParameters(recurse).map(([, parameter]) => parameter);
  }

  /** As `parameters`, with the path of each: 'layers.0.weight'. */
  namedParameters(recurse = true): [string, Parameter][] {
    return unlessOpen(this, listing, () => this.findParameters(recurse)) ?? [];
  }

  private findParameters(recurse: boolean): [string, Parameter][] {
    const found = new Map<Parameter, string>();
    for (const [name, parameter] of this.parameterEntries()) if (!found.has(parameter)) found.set(parameter, name);
    const own = [...found].map(([parameter, name]): [string, Parameter] => [name, parameter]);
    if (!recurse) return own;
    for (const [prefix, child] of this.namedChildren()) {
      for (const [name, parameter] of child.listParameters()) {
        if (found.has(parameter)) continue;
        found.set(parameter, name);
        own.push([`${prefix}.${name}`, parameter]);
      }
    }
    return own;
  }

  /** What `parameters` of a module around this one finds inside: of a module that stands for one elsewhere, nothing. */
  protected listParameters(): [string, Parameter][] {
    return this.namedParameters();
  }

  /** The modules directly inside, each once, with their names. */
  namedChildren(): [string, Module][] {
    const names = new Map<Module, string>();
    for (const [name, child] of this.moduleEntries()) if (!names.has(child)) names.set(child, name);
    return [...names].map(([child, name]) => [name, child]);
  }

  /** The own parameters by name; one that has several names comes under each. */
  protected parameterEntries(): [string, Parameter][] {
    return this.fields().flatMap(([name, value]) => (isParameter(value) ? [[name, value]] : []));
  }

  /** The modules directly inside by name; one that has several names comes under each. */
  protected moduleEntries(): [string, Module][] {
    return this.fields().flatMap(([name, value]) => (value instanceof Module ? [[name, value]] : []));
  }

  // A class of a program's may list what is in it in a way of its own.
  private ownParameters(): [string, Parameter][] {
    return this.namedParameters === Module.prototype.namedParameters
      ? this.parameterEntries()
      : this.namedParameters(false);
  }

  private ownModules(): [string, Module][] {
    return this.namedChildren === Module.prototype.namedChildren ? this.moduleEntries() : this.namedChildren();
  }

  /** Sets the mode of this module and all inside. */
  train(mode = true): this {
    this.training = mode;
    unlessOpen(this, switching, () => {
      for (const [, child] of this.namedChildren()) child.train(mode);
    });
    return this;
  }

  /** `train(false)`. */
  eval(): this {
    return this.train(false);
  }

  /** Makes `tensor` part of the state dict without training it: running statistics, tables. The module keeps it. */
  protected registerBuffer(name: string, tensor: Tensor): Tensor {
    this.held.set(name, keep(tensor));
    return tensor;
  }

  /** Parameters and buffers by path; what is in the module at several places comes under each path. The tensors are the module's own, detached from no one: copy them to keep a snapshot. */
  stateDict(): Map<string, Tensor> {
    return unlessOpen(this, saving, () => this.collectState()) ?? new Map<string, Tensor>();
  }

  private collectState(): Map<string, Tensor> {
    const state = new Map<string, Tensor>();
    for (const [name, parameter] of this.ownParameters()) state.set(name, parameter);
    for (const [name, buffer] of this.held) state.set(name, buffer);
    for (const [prefix, child] of this.ownModules()) {
      for (const [name, tensor] of child.stateDict()) state.set(`${prefix}.${name}`, tensor);
    }
    return state;
  }

  /**
   * Copies the values of `state` into the module's tensors. Nothing is changed unless all names and shapes fit; with `strict: false`
   * names may be missing or unexpected, and those that fit are copied. Returns the names that were.
   * @throws RangeError that lists every missing and unexpected name and every shape that differs.
   */
  loadStateDict(state: Map<string, Tensor>, options: { strict?: boolean } = {}): StateDictMatch {
    checkOptionNames(options, LOAD_OPTIONS, 'loadStateDict()');
    if (!(state instanceof Map))
      throw new TypeError(`loadStateDict() takes a Map of tensors, as stateDict() gives; got ${kindOf(state)}`);
    const own = this.stateDict();
    const missing = [...own.keys()].filter((name) => !state.has(name));
    const unexpected = [...state.keys()].filter((name) => !own.has(name));
    const problems: string[] = [];
    if (options.strict !== false) {
      problems.push(...missing.map((name) => `missing '${name}'`), ...unexpected.map((name) => `unexpected '${name}'`));
    }
    for (const [name, target] of own) {
      const source: unknown = state.get(name);
      if (source === undefined) continue;
      if (!(source instanceof Tensor)) problems.push(`'${name}' is ${kindOf(source)} instead of a tensor`);
      else if (String(source.shape) !== String(target.shape)) {
        problems.push(
          `size mismatch for '${name}': [${source.shape.join(', ')}] instead of [${target.shape.join(', ')}]`,
        );
      }
    }
    if (problems.length > 0) {
      throw new RangeError(`Error(s) in loading state dict for ${this.constructor.name}: ${problems.join('; ')}`);
    }
    // One that was disposed says so here, before anything has changed.
    for (const name of own.keys()) void state.get(name)?.storage;
    noGrad(() => {
      for (const [name, target] of own) {
        const source = state.get(name);
        if (source !== undefined) target.copy_(source);
      }
    });
    return { missing, unexpected };
  }

  /** This module, all inside, and so on, each once; this one first. */
  modules(): Module[] {
    return this.namedModules().map(([, module]) => module);
  }

  /** As `modules`, with the path of each: '' is this one. */
  namedModules(): [string, Module][] {
    const found = new Map<Module, string>();
    const visit = (module: Module, path: string): void => {
      if (found.has(module)) return;
      found.set(module, path);
      for (const [name, child] of module.listChildren()) visit(child, path === '' ? name : `${path}.${name}`);
    };
    visit(this, '');
    return [...found].map(([module, path]) => [path, module]);
  }

  /** What `modules` of a module around this one finds inside: of a module that stands for one elsewhere, nothing. */
  protected listChildren(): [string, Module][] {
    return this.namedChildren();
  }

  /** The tensors of the state dict that are no parameters. */
  buffers(recurse = true): Tensor[] {
    return this.namedBuffers(recurse).map(([, buffer]) => buffer);
  }

  namedBuffers(recurse = true): [string, Tensor][] {
    const modules: [string, Module][] = recurse ? this.namedModules() : [['', this]];
    return modules.flatMap(([path, module]) =>
      [...module.held].map(([name, buffer]): [string, Tensor] => [path === '' ? name : `${path}.${name}`, buffer]),
    );
  }

  /** Calls `fn` for all modules inside, then for this one: `model.apply((m) => …)` to begin with other weights. */
  apply(fn: (module: Module) => void): this {
    unlessOpen(this, visiting, () => {
      for (const [, child] of this.namedChildren()) child.apply(fn);
      fn(this);
    });
    return this;
  }

  /** Drops the gradients of all parameters. */
  zeroGrad(): void {
    for (const parameter of this.parameters()) clearGrad(parameter);
  }

  /** Whether the parameters are to be trained. */
  requiresGrad_(value = true): this {
    for (const parameter of this.parameters()) parameter.requiresGrad = value;
    return this;
  }

  /**
   * Converts parameters and buffers of floating dtypes to another one, or moves all to a device, with their gradients, in place: whoever
   * holds them sees the new ones. State of an optimizer stays where it is: move the module first.
   */
  to(target: 'float16' | 'bfloat16' | 'float32' | 'float64' | 'complex64' | Device): this {
    const moves = !isDType(target);
    if (!moves && !isDifferentiable(target))
      throw new TypeError(`nn.Module.to() only accepts floating point or complex dtypes, but got ${String(target)}`);
    const converted = (t: Tensor): Tensor => (moves ? t.to(target) : t.to(target));
    noGrad(() => {
      for (const t of new Set([...this.parameters(), ...this.buffers()])) {
        if (moves ? t.device === target : t.dtype === target || !isDifferentiable(t.dtype)) continue;
        const { grad } = t;
        const plain = t.detach();
        const moved = converted(plain);
        t.become(moved);
        plain.dispose();
        moved.dispose();
        if (grad !== null) t.grad = converted(grad);
      }
    });
    return this;
  }

  float(): this {
    return this.to('float32');
  }

  double(): this {
    return this.to('float64');
  }

  half(): this {
    return this.to('float16');
  }

  bfloat16(): this {
    return this.to('bfloat16');
  }

  /**
   * Calls `hook` before each `forward`, after those that came before it, with the arguments; what it returns, a list, takes their place.
   * Returns how to remove it.
   */
  registerForwardPreHook(hook: (module: this, args: readonly unknown[]) => readonly unknown[] | void): () => void {
    const { before } = hooksOf(this);
    const own: PreHook = (args) => hook(this, args);
    before.add(own);
    return () => void before.delete(own);
  }

  /**
   * Calls `hook` after each `forward`, after those that came before it, with the arguments and the result; what it returns takes the place
   * of that. Returns how to remove it.
   */
  registerForwardHook(hook: (module: this, args: readonly unknown[], output: unknown) => unknown): () => void {
    const { after } = hooksOf(this);
    const own: PostHook = (args, output) => hook(this, args, output);
    after.add(own);
    return () => void after.delete(own);
  }

  /** The class, the shapes of parameters and buffers, settings, and what is inside; so `console.log` shows it, too. */
  toString(): string {
    const name = this.constructor.name;
    try {
      const text = unlessOpen(this, printing, () =>
        moduleText({
          name,
          tensors: [...this.ownParameters(), ...(Object.hasOwn(this, 'held') ? this.held : [])],
          settings: this[SETTINGS](),
          children: this.ownModules().map(([at, child]): [string, string] => [at, child.toString()]),
        }),
      );
      return text ?? `${name}(…)`;
    } catch {
      // A field of a program's that throws when it is looked at.
      return `${name}(…)`;
    }
  }

  /** What else is shown of it: its fields. @internal */
  [SETTINGS](): Settings {
    return Object.entries(this).filter(([field]) => field !== 'training');
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return this.toString();
  }

  private fields(): [string, unknown][] {
    const fields: [string, unknown][] = [];
    for (const [name, value] of Object.entries(this) as [string, unknown][]) {
      if (name === 'held' || name === 'training') continue;
      if (!Array.isArray(value)) fields.push([name, value]);
      else for (const [i, item] of value.entries()) fields.push([`${name}.${i}`, item]);
    }
    return fields;
  }
}

/** Modules whose parameters are being listed, whose state is being collected, whose mode is being set, which are being visited, printed. */
const [listing, saving, printing] = [new Set<Module>(), new Set<Module>(), new Set<Module>()];
const [switching, visiting] = [new Set<Module>(), new Set<Module>()];

/** Runs `visit`, unless a visit of the same module is under way: modules may point back at those that contain them. */
function unlessOpen<T>(module: Module, open: Set<Module>, visit: () => T): T | undefined {
  if (open.has(module)) return undefined;
  open.add(module);
  try {
    return visit();
  } finally {
    open.delete(module);
  }
}

/** A module of its own with the same structure and copies of the parameters and buffers. Its hooks stay behind. */
export function copyOf<M extends Module>(module: M, known = new Map<unknown, unknown>()): M {
  const copied = (value: unknown): unknown => {
    if (known.has(value)) return known.get(value);
    if (value instanceof Tensor) {
      const data = noGrad(() => value.detach().clone());
      const own = isParameter(value) ? new Parameter(data, value.requiresGrad) : keep(data);
      known.set(value, own);
      return own;
    }
    if (value instanceof Module) return copyOf(value, known);
    if (Array.isArray(value)) return value.map(copied);
    if (value instanceof Map) return new Map([...value].map(([key, one]: [unknown, unknown]) => [key, copied(one)]));
    return value;
  };
  const copy = Object.create(Object.getPrototypeOf(module) as object) as M;
  known.set(module, copy);
  for (const [name, value] of Object.entries(module)) Object.assign(copy, { [name]: copied(value) });
  return copy;
}

/** What is in a module itself, as it is saved elsewhere: its modules and parameters are among the fields. */
export interface ModuleContent {
  readonly training: boolean;
  readonly fields: ReadonlyMap<string, unknown>;
  /** By name; a field of that name holds the same tensor. */
  readonly buffers: ReadonlyMap<string, Tensor>;
}

/** What is in `module` itself. A field that is a buffer is among the buffers only. */
export function contentOf(module: Module): ModuleContent {
  const buffers = new Map(module.namedBuffers(false));
  const fields = Object.entries(module).filter(
    ([name, value]) => name !== 'held' && name !== 'training' && (value === undefined || buffers.get(name) !== value),
  );
  return { training: module.training, fields: new Map<string, unknown>(fields), buffers };
}

/** Puts content into a module whose constructor was not run. */
export function restoreContent(module: Module, { training, fields, buffers }: ModuleContent): void {
  const all = new Map<string, unknown>([['training', training], ['held', new Map(buffers)], ...buffers, ...fields]);
  for (const [name, value] of all)
    Object.defineProperty(module, name, { value, writable: true, enumerable: true, configurable: true });
}

/** `instanceof` alone would infer a Parameter of any dtype. */
function isParameter(value: unknown): value is Parameter {
  return value instanceof Parameter;
}
