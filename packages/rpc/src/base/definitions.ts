/** @file The table of functions and classes that have a name in this process, and how a name is found. What an agent serves of it: served.ts. */
import { rpcName, type Named } from '@backwire/tensor';
import { nearestName } from '@backwire/tensor/internal';
import { builtinClass, builtinClassName, builtinOperation } from './builtins.ts';
import { invalidArgument, RpcError } from './errors.ts';
import { checkSwitch, refuseUnknown, show } from './options.ts';
import { callSite, linesOf, placeOf, type CallSite } from './program-lines.ts';

// `any`: only it lets every function and class be given.
/* eslint-disable @typescript-eslint/no-explicit-any */
/** Any function. */
export type AnyFn = (...args: any[]) => any;
/** Any class, abstract ones included. */
export type AnyCtor = abstract new (...args: any[]) => any;
/**
 * Any function, written as a method: parameters of a method may be narrower than here, so that every function fits, while one whose
 * parameters have no types of their own gets `unknown` for them. `AnyFn` would give it `any`, and its callers with it.
 */
type Definable = { method(...args: unknown[]): unknown }['method'];
type Methods<T> = { [K in keyof T]: T[K] extends AnyFn ? K : never }[keyof T] & string;

/** A generator is called with `rpcStream`; the type says so where a call is written. */
export type NotGenerator<R> = [R] extends [never]
  ? unknown // It only throws.
  : R extends AsyncIterable<any> | Iterator<any, any, any>
    ? 'a generator is called with rpcStream()'
    : unknown;

/** What a call takes: a function that peers know by a name. The compiler shows the text where one has none. */
export type Callable<F extends AnyFn> = F extends Named
  ? NotGenerator<ReturnType<F>>
  : // A caller who writes the function's type himself gives one that has no name, and then a function that has.
    | (Named & NotGenerator<ReturnType<F>>)
    | "not known to peers: call what rpcFunction('name', fn) returns, or a static method of what rpcClass(Class, { methods, statics }) returns";

/** A class whose listed static methods can be given to `rpcSync` and its like. */
export type Published<C, S extends PropertyKey> = C & { readonly [K in S & keyof C]: C[K] & Named };

/* eslint-enable @typescript-eslint/no-explicit-any */

/** One name and its body. */
export interface Definition {
  readonly name: string;
  readonly kind: 'function' | 'class';
  /** The function, or the constructor. */
  readonly body: AnyFn;
  /** `this` of a function: the class of a static method. */
  readonly self: unknown;
  /** Of a class: the methods that may be called on its instances. */
  readonly methods: ReadonlySet<string>;
  /** Whether a call runs in a `scope` that frees its arguments and temporaries at its end. */
  readonly scope: boolean;
  /**
   * Who defined it: the program; the tensor package, whose operations and classes of `nn` and `optim` are called builtins; or the
   * library for its own use ('system').
   */
  readonly origin: 'program' | 'builtin' | 'system';
  /** Of a system function that runs what others have defined: what that is. It is served where some such definition is. */
  readonly runs: Kind | undefined;
  /** Where the program has defined it. */
  readonly site?: CallSite | undefined;
}

/** A kind of definitions. */
export interface Kind {
  /** For messages: 'an optimizer'. */
  readonly text: string;
  includes(definition: Definition): boolean;
}

// On a well-known global symbol, so that two installed copies of this package agree on what is defined.
const KEY = Symbol.for('backwire.rpc.definitions');
interface Table {
  readonly byName: Map<string, Definition>;
  readonly byClass: Map<unknown, Definition>;
}
const holder = globalThis as { [KEY]?: Table };
const table: Table = (holder[KEY] ??= { byName: new Map(), byClass: new Map() });

const NONE: ReadonlySet<string> = new Set();
const FUNCTION_OPTIONS: ReadonlySet<string> = new Set(['scope']);
const CLASS_OPTIONS: ReadonlySet<string> = new Set(['methods', 'statics', 'scope']);
/** Names that must mean nothing on the proxy of a remote object, or awaiting or printing it would make calls. */
const HIDDEN: ReadonlySet<string> = new Set(['then', 'toJSON']);
/** The longest name; it also bounds what a peer may ask for. */
const MAX_NAME_LENGTH = 512;
/** Has no UTF-8: names with different ones would be one name on the way. */
const HALF_PAIR = /\p{Surrogate}/u;

/**
 * Lets peers call `fn` under `name`, and returns `fn` itself, which now carries the name.
 * With `scope` a call runs in a `scope()`: arguments and temporaries are freed at its end. Of a stream, these are what there is before the
 * first item; what is made for items is left to the collector, or to a `scope()` of the program's own.
 * @param name what peers call it by; the same on all workers, and one body a process
 * @param fn the body; what it gives or resolves with travels back, a generator is called with `rpcStream`. Its types are those of the
 * calls: a parameter without one is `unknown`
 * @param options `scope`: whether a call's arguments and temporaries are freed at its end; false by default
 * @throws RpcError 'failed-precondition' when the name means another body already, or the function has another name; 'invalid-argument' for
 * a name that is empty, longer than 512 characters, or no Unicode (half of a surrogate pair).
 * @example
 * ```ts workers=worker1
 * const norm = rpcFunction('example/norm', (x: Tensor) => x.norm().item());
 * console.log(norm(tensor([3, 4]))); // 5
 * console.log(await rpcSync('worker1', norm, [tensor([3, 4])])); // 5
 * ```
 */
export function rpcFunction<F extends Definable>(name: string, fn: F, options: { scope?: boolean } = {}): F & Named {
  refuseUnknown(options, FUNCTION_OPTIONS, 'rpcFunction()');
  checkSwitch(options.scope, 'scope of rpcFunction()');
  return define(fn, plainFunction(name, fn, { scope: options.scope ?? false, site: callSite(rpcFunction) }));
}

/**
 * As `rpcFunction`, for the library's own. One that runs no code of the program is served whatever `serve` says. One that does says which
 * (`runs`), has to ask `ExtensionHost.served` or `servedClassOf` for each definition before it runs it, and is served only where some
 * definition of that kind is. `scope` as in `rpcFunction`. All of them are listed in docs/security.md.
 */
export function systemFunction<F extends AnyFn>(name: string, fn: F, runs?: Kind, scope = false): F & Named {
  return define(fn, plainFunction(name, fn, { origin: 'system', runs, scope }));
}

/**
 * Lets peers construct `ctor` and call the listed methods of its instances and its listed static methods (under 'Class.method').
 * The class carries `static readonly [rpcName] = 'Name'`, its own, not inherited. Returns the class itself, whose static methods now can be
 * called by `rpcSync(to, Model.load, …)`: `const Model = rpcClass(class { … }, { methods: [], statics: ['load'] })`. The type of a class
 * that was declared before (`class Model {}`) cannot learn it: give what is returned a name of its own.
 * @param ctor the class
 * @param options `methods` and `statics`: what peers may call, nothing else is; `scope` as in `rpcFunction`
 * @throws RpcError 'failed-precondition' when the name is missing or taken, 'invalid-argument' when a listed method does not exist or has a
 * name that proxies hide: `then`, `toJSON`, or one that begins with an underscore; TypeError for names and a `scope` of another kind.
 * @example
 * ```ts workers=worker1
 * class Counter {
 *   static readonly [rpcName] = 'example/Counter';
 *   n = 0;
 *   add(by: number): number {
 *     return (this.n += by);
 *   }
 * }
 * rpcClass(Counter, { methods: ['add'] }); // on every worker
 *
 * using counter = remote('worker1', Counter);
 * console.log(await counter.rpcSync().add(2), await counter.rpcSync().add(3)); // 2 5
 * ```
 */
export function rpcClass<C extends AnyCtor & Named, const S extends string = never>(
  ctor: C,
  options: { methods: readonly Methods<InstanceType<C>>[]; statics?: readonly S[]; scope?: boolean },
): Published<C, S> {
  const holder = ctor as unknown as AnyFn & Record<string, unknown>;
  if (typeof ctor !== 'function' || !Object.hasOwn(ctor, rpcName)) {
    const what = typeof ctor === 'function' ? `class '${ctor.name}'` : show(ctor);
    throw new RpcError(
      'failed-precondition',
      `${what} has no [rpcName] of its own: rpcClass() takes a class with static readonly [rpcName] = 'Name'`,
    );
  }
  const name = checkName(ctor[rpcName]);
  checkPublished(name, options);
  for (const method of options.methods) {
    if (HIDDEN.has(method) || method.startsWith('_')) {
      throw invalidArgument(
        `method '${method}' of class '${name}' cannot be called from elsewhere: proxies have no method of that name`,
      );
    }
    if (!isMethod(ctor.prototype as object, method))
      throw invalidArgument(`class '${name}' has no method '${method}'${meant(method, methodsOf(holder))}`);
  }
  const scope = options.scope ?? false;
  const definition: Definition = {
    ...plainFunction(name, holder, { scope, site: callSite(rpcClass) }),
    kind: 'class',
    methods: new Set(options.methods),
  };
  insert(definition);
  table.byClass.set(ctor, definition);
  for (const method of options.statics ?? []) {
    const body = Object.hasOwn(holder, method) ? holder[method] : undefined;
    if (typeof body !== 'function')
      throw invalidArgument(
        `class '${name}' has no static method '${method}'${meant(method, Object.getOwnPropertyNames(holder))}`,
      );
    define(body as AnyFn, plainFunction(`${name}.${method}`, body as AnyFn, { self: ctor, scope }));
  }
  const published: unknown = ctor;
  return published as Published<C, S>;
}

/** @throws RpcError 'invalid-argument' unless the methods that are published are listed. */
function checkPublished(name: string, options: unknown): void {
  if (typeof options === 'object' && options !== null) refuseUnknown(options, CLASS_OPTIONS, `rpcClass() of '${name}'`);
  const { methods, statics, scope } = (options ?? {}) as { methods?: unknown; statics?: unknown; scope?: unknown };
  checkSwitch(scope, 'scope of rpcClass()');
  const wrong = [methods, statics ?? []].find((list) => !Array.isArray(list));
  if (options === undefined || wrong !== undefined || methods === undefined) {
    const given = wrong === undefined ? 'none were given' : `got ${typeof wrong}`;
    throw invalidArgument(
      `rpcClass() needs the methods of '${name}' that peers may call, ${given}: rpcClass(${name}, { methods: ['forward'] }); [] publishes none`,
    );
  }
  for (const each of [...(methods as unknown[]), ...((statics ?? []) as unknown[])])
    if (typeof each !== 'string')
      throw new TypeError(`rpcClass() of '${name}': methods and statics are listed by their names, got ${show(each)}`);
}

/**
 * For callers that do not have the server's code: `remoteFunction<typeof import('./server.js').predict>('predict')`.
 * @param name what the server gave to `rpcFunction`
 * @example
 * ```ts workers=worker1
 * // In the server: rpcFunction('example/predict', …)
 * rpcFunction('example/predict', (x: Tensor) => x.sum().item());
 *
 * // In a client without its code:
 * const predict = remoteFunction<(x: Tensor) => number>('example/predict');
 * console.log(await rpcSync('worker1', predict, [tensor([1, 2])])); // 3
 * ```
 */
export function remoteFunction<F extends AnyFn>(name: string): F & Named {
  checkName(name);
  const stub = (): never => {
    throw new RpcError('failed-precondition', `'${name}' runs on other workers only; call it with rpcAsync()`);
  };
  return Object.defineProperty(stub, rpcName, { value: name }) as unknown as F & Named;
}

/** As `remoteFunction`, for a class. */
export function remoteClass<C extends AnyCtor>(name: string): C & Named {
  checkName(name);
  const stub = class {
    constructor() {
      throw new RpcError('failed-precondition', `'${name}' lives on other workers only; create it with remote()`);
    }
  };
  return Object.defineProperty(stub, rpcName, { value: name }) as unknown as C & Named;
}

/** The name under which `value` may be called, its own: peers would make the class that it only extends. Throws when it has none. */
export function nameOf(value: unknown): string {
  const name = typeof value === 'function' ? (value as Partial<Named>)[rpcName] : undefined;
  if (typeof name === 'string' && Object.hasOwn(value as AnyFn, rpcName)) return name;
  if (typeof value !== 'function') throw new TypeError(notCallable(value));
  throw invalidArgument(namelessText(value as AnyFn, name));
}

/** PyTorch's words for what is no function, and how one is called that is known by its name only. */
function notCallable(value: unknown): string {
  const result = typeof value === 'object' && value !== null && ('then' in value || 'next' in value);
  const advice =
    typeof value === 'string'
      ? `: a function of other workers is called by its name with remoteFunction('${value}')`
      : result
        ? ': give the function itself, and its arguments as a list: rpcSync(to, fn, [1, 2])'
        : '';
  return `function should be callable. Got ${show(value)}${advice}`;
}

function namelessText(value: AnyFn, inherited: string | undefined): string {
  const own = value.name === '' ? 'that is anonymous' : `'${value.name}'`;
  if (!isClass(value))
    return `function ${own} has no name that peers know; define it with rpcFunction('name', fn), or a static method of a class with rpcClass(Class, { methods: [], statics: ['name'] })`;
  return inherited === undefined
    ? `class ${own} has no name that peers know; give it static readonly [rpcName] = 'Name' and define it with rpcClass(Class, { methods: ['name'] })`
    : `class ${own} has no name of its own, only that of '${inherited}', which it extends; give it a [rpcName] and define it with rpcClass()`;
}

/** What `name` means in this process: a definition, a tensor operation ('aten::add') or a class of nn or optim. */
export function findDefinition(name: string): Definition | undefined {
  const known = table.byName.get(name);
  if (known !== undefined) return known;
  const found = builtin(name);
  if (found !== undefined) table.byName.set(name, found);
  return found;
}

/** The definition of a class: published with `rpcClass`, or one of nn and optim. */
export function definitionOfClass(ctor: unknown): Definition | undefined {
  const known = table.byClass.get(ctor);
  if (known !== undefined) return known;
  const name = builtinClassName(ctor);
  if (name === undefined) return undefined;
  const made = builtinDefinition(name, ctor as AnyFn);
  table.byClass.set(ctor, made);
  return made;
}

/** All that has a name so far, but for builtins that nobody has asked for. */
export function definitions(): readonly Definition[] {
  return [...table.byName.values()];
}

/**
 * The definition of the class that `instance` was made by, or of the nearest published one it extends. A builtin class stands for
 * itself alone: who extends it has published nothing by that.
 */
export function definitionOfInstance(instance: unknown): Definition | undefined {
  if (typeof instance !== 'object' || instance === null) return undefined;
  let prototype: object | null = Object.getPrototypeOf(instance) as object | null;
  while (prototype !== null && prototype !== Object.prototype) {
    const ctor: unknown = Object.hasOwn(prototype, 'constructor')
      ? (prototype as { constructor: unknown }).constructor
      : undefined;
    const found = ctor === undefined ? undefined : definitionOfClass(ctor);
    if (found !== undefined && (found.origin !== 'builtin' || prototype === Object.getPrototypeOf(instance)))
      return found;
    prototype = Object.getPrototypeOf(prototype) as object | null;
  }
  return undefined;
}

/** A definition of one agent alone, made of a function or class that carries a name. */
export function localDefinition(value: Named): Definition {
  const name = checkName(nameOf(value));
  const known = table.byName.get(name);
  if (known !== undefined && known.body === (value as unknown)) return known;
  const body = value as unknown as AnyFn;
  return { ...plainFunction(name, body), kind: isClass(body) ? 'class' : 'function' };
}

/** Calls the body of a definition: a class is constructed. */
export function invoke(definition: Definition, args: readonly unknown[]): unknown {
  if (definition.kind === 'class') return Reflect.construct(definition.body, args);
  const { body, self } = definition;
  return self === undefined ? body(...args) : Reflect.apply(body, self, args);
}

function plainFunction(
  name: string,
  body: AnyFn,
  more: Partial<Pick<Definition, 'self' | 'scope' | 'origin' | 'runs' | 'site'>> = {},
): Definition {
  return {
    name,
    kind: 'function',
    body,
    self: undefined,
    methods: NONE,
    scope: false,
    origin: 'program',
    runs: undefined,
    ...more,
  };
}

function define<F extends AnyFn>(fn: F, definition: Definition): F & Named {
  const name = checkName(definition.name);
  if (typeof fn !== 'function')
    throw new TypeError(`function should be callable. '${name}' was given ${show(fn)}: rpcFunction('name', fn)`);
  const own = Object.hasOwn(fn, rpcName) ? (fn as Partial<Named>)[rpcName] : undefined;
  if (own !== undefined && own !== name) {
    throw new RpcError(
      'failed-precondition',
      `function '${fn.name}' is already defined as '${own}'; it cannot be '${name}' too`,
    );
  }
  insert(definition);
  if (own === undefined) Object.defineProperty(fn, rpcName, { value: name });
  return fn as F & Named;
}

function insert(definition: Definition): void {
  const known = findDefinition(definition.name);
  if (known === undefined) {
    table.byName.set(definition.name, definition);
  } else if (known.body !== definition.body) {
    if (definition.origin === 'system')
      throw new RpcError(
        'failed-precondition',
        `this process has loaded Backwire twice: both define '${definition.name}'. 'npm ls @backwire/rpc' tells where they are; a bundle has to have all of Backwire inside, 'backwire' too, or none of it`,
      );
    throw new RpcError(
      'failed-precondition',
      `'${definition.name}' is already defined by ${describe(known)}; another body, ${describe(definition)}, cannot have the name`,
    );
  }
}

/** The end of a sentence about a name that there is not. */
function meant(name: string, names: Iterable<string>): string {
  const near = nearestName(name, names);
  return near === undefined ? '' : `; did you mean '${near}'?`;
}

/** A body by its name, and by the line that has defined it, as many have none. */
function describe({ body, site }: Definition): string {
  const [line] = linesOf(site);
  const at = line === undefined ? '' : ` at ${placeOf(line)}`;
  return `${isClass(body) ? 'class' : 'function'} '${body.name === '' ? 'anonymous' : body.name}'${at}`;
}

function checkName(name: unknown): string {
  if (typeof name === 'string' && name.length > 0 && name.length <= MAX_NAME_LENGTH) {
    if (!HALF_PAIR.test(name)) return name;
    const shown = JSON.stringify(name);
    throw invalidArgument(
      `a definition needs a name that is Unicode, got ${shown}: half of a surrogate pair cannot be sent`,
    );
  }
  throw invalidArgument(
    `a definition needs a name of 1 to ${MAX_NAME_LENGTH} characters, got ${show(name)}${typeof name === 'function' ? ": rpcFunction('name', fn)" : ''}`,
  );
}

function isClass(body: AnyFn): boolean {
  const prototype = Object.getOwnPropertyDescriptor(body, 'prototype');
  return prototype?.writable === false;
}

function isMethod(prototype: object, name: string): boolean {
  if (name in Object.prototype) return false;
  for (
    let at: object | null = prototype;
    at !== null && at !== Object.prototype;
    at = Object.getPrototypeOf(at) as object | null
  ) {
    const own = Object.getOwnPropertyDescriptor(at, name);
    if (own !== undefined) return typeof own.value === 'function';
  }
  return false;
}

/** All methods of a class of nn or optim, inherited ones included; these classes are written to be used from elsewhere. */
function methodsOf(ctor: AnyFn): ReadonlySet<string> {
  const names = new Set<string>();
  let at = ctor.prototype as object | null;
  for (; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at) as object | null) {
    for (const name of Object.getOwnPropertyNames(at)) {
      if (name !== 'constructor' && !name.startsWith('_') && isMethod(at, name)) names.add(name);
    }
  }
  return names;
}

function builtin(name: string): Definition | undefined {
  const operation = builtinOperation(name);
  if (operation !== undefined) return plainFunction(name, operation, { origin: 'builtin' });
  const ctor = builtinClass(name);
  return ctor === undefined ? undefined : definitionOfClass(ctor);
}

function builtinDefinition(name: string, body: AnyFn): Definition {
  return { ...plainFunction(name, body, { origin: 'builtin' }), kind: 'class', methods: methodsOf(body) };
}
