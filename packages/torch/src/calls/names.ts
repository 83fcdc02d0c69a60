/** @file What Python may name here: what the program has defined or offered, and torch's own functions that this package answers. */
import { RemoteModule } from '@backwire/dist-autograd';
import { RpcError } from '@backwire/rpc';
import { nameOf, type Definition, type Served } from '@backwire/rpc/internal';
import { nn } from '@backwire/tensor';
import type { OfferedNames } from '../pickle/python-reader.ts';
import { generatedMethods } from '../pickle/remote-modules.ts';
import { PyTuple, tupleOf } from '../values/containers.ts';
import { ownModule } from '../values/module-names.ts';
import { restoreState } from '../values/module-state.ts';
import { PyClass, PyName, isStateful, setState } from '../values/name.ts';
import { PyAttribute } from '../values/objects.ts';

/** A function that is called by name. `from` is the caller's. */
export type SystemFunction = (args: readonly unknown[], from: string) => unknown;

/** A function of torch's own that this package has in its place. */
export class SystemName extends PyName {
  readonly run: SystemFunction;

  constructor(path: string, run: SystemFunction) {
    const dot = path.lastIndexOf('.');
    super(path.slice(0, dot), path.slice(dot + 1));
    this.run = run;
  }
}

/** A function of the program that is served. */
export class OfferedFunction extends PyName {
  readonly definition: Definition;

  constructor(module: string, name: string, definition: Definition) {
    super(module, name);
    this.definition = definition;
  }
}

/** A class of the program that is served: Python may make instances by calling it, and send instances as values. */
export class OfferedClass extends PyClass {
  readonly definition: Definition;

  constructor(module: string, name: string, definition: Definition) {
    super(module, name);
    this.definition = definition;
  }

  /** An instance, not initialised: the state that follows are its own properties. A class of tuples gets its items. */
  override make(args: readonly unknown[] = []): object {
    const prototype = this.definition.body.prototype as object;
    // A named tuple: its fields are what it is made of.
    if (prototype instanceof PyTuple) return Object.setPrototypeOf(tupleOf(args), prototype) as object;
    const instance = Object.create(prototype) as object;
    // A class may take its state in its own way.
    if (isStateful(prototype)) return instance;
    const isModule = prototype instanceof nn.Module;
    if (isModule && this.definition.name.startsWith('nn.'))
      throw new TypeError(`a '${this.name}' does not travel by value: send its state_dict(), or an RRef to it`);
    const value = (state: unknown): void => {
      Reflect.deleteProperty(instance, setState);
      const attributes = attributesIn(state);
      if (isModule) restoreState(instance as nn.Module, attributes);
      else assignAll(instance, attributes);
    };
    return Object.defineProperty(instance, setState, { value, configurable: true });
  }
}

const FORBIDDEN: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

/** The state of an object: what its attributes are. */
function attributesIn(state: unknown): ReadonlyMap<string, unknown> {
  if (!(state instanceof Map)) throw new TypeError('the state of an object is no dict');
  for (const key of state.keys())
    if (typeof key !== 'string' || FORBIDDEN.has(key))
      throw new TypeError('an attribute that objects here cannot have');
  return state as ReadonlyMap<string, unknown>;
}

function assignAll(instance: object, attributes: ReadonlyMap<string, unknown>): void {
  for (const [key, value] of attributes)
    Object.defineProperty(instance, key, { value, writable: true, enumerable: true, configurable: true });
}

/** The methods of Python's RemoteModule that may stand for themselves. */
const GENERATED: ReadonlySet<string> = new Set(generatedMethods.map(({ name }) => name));

/** The names of one worker. */
export class Names implements OfferedNames {
  readonly served: Served;
  private readonly system = new Map<string, SystemName>();
  private readonly offered = new Map<string, Definition>();
  private readonly known = new Map<string, PyName>();

  constructor(served: Served) {
    this.served = served;
  }

  /** Answers calls of one of torch's own functions. */
  answer(path: string, run: SystemFunction): void {
    this.system.set(path, new SystemName(path, run));
  }

  /** Takes a name of torch's own as a value: a class that is an argument. */
  know(path: string): void {
    const dot = path.lastIndexOf('.');
    this.known.set(path, new PyName(path.slice(0, dot), path.slice(dot + 1)));
  }

  /** Lets Python call `value` by `path`. @throws RpcError 'failed-precondition' when the path means something else. */
  offer(path: string, definition: Definition): () => void {
    const known = this.offered.get(path);
    if (known !== undefined && known.body !== definition.body)
      throw new RpcError('failed-precondition', `'${path}' is offered already, and is something else`);
    this.offered.set(path, definition);
    return () => {
      if (this.offered.get(path) === definition) this.offered.delete(path);
    };
  }

  /** The class of an object that is here, of which Python may call methods; undefined: none that is offered. */
  classOf(value: object): Definition | undefined {
    return this.offeredClassOf(value) ?? this.served.classOf(value);
  }

  /** The same, among the classes that are offered by a path. */
  offeredClassOf(value: object): Definition | undefined {
    for (const definition of this.offered.values())
      if (definition.kind === 'class' && definition.body === value.constructor) return definition;
    return undefined;
  }

  /** What calls of `path` run. @throws RpcError 'not-found', 'permission-denied'. */
  definition(path: string): Definition {
    return this.offered.get(path) ?? this.served.find(path);
  }

  /** The path by which peers know a function or class; undefined: it has none. */
  pathOf(value: object): string | undefined {
    for (const [path, { body }] of this.offered) if (body === value) return path;
    if (typeof value !== 'function') return undefined;
    try {
      return nameOf(value);
    } catch {
      return undefined;
    }
  }

  find(module: string, name: string): PyName | undefined {
    const path = `${module}.${name}`;
    const system = this.system.get(path) ?? this.known.get(path);
    if (system !== undefined) return system;
    const definition = this.tryDefinition(path) ?? this.ownDefinition(module, name);
    if (definition === undefined) return undefined;
    const Class = definition.kind === 'class' ? OfferedClass : OfferedFunction;
    return new Class(module, name, definition);
  }

  attribute(owner: unknown, name: string): unknown {
    if (owner instanceof OfferedClass) {
      const found = this.tryDefinition(`${owner.path}.${name}`);
      if (found !== undefined) return new OfferedFunction(owner.module, `${owner.name}.${name}`, found);
      return owner.definition.methods.has(name) ? new PyAttribute(owner, name) : undefined;
    }
    if (typeof owner !== 'object' || owner === null) return undefined;
    if (owner instanceof RemoteModule) return GENERATED.has(name) ? new PyAttribute(owner, name) : undefined;
    return this.classOf(owner)?.methods.has(name) === true ? new PyAttribute(owner, name) : undefined;
  }

  /** What stands here for one of torch's modules. */
  private ownDefinition(module: string, name: string): Definition | undefined {
    const own = ownModule(module, name);
    return own === undefined ? undefined : this.tryDefinition(own);
  }

  private tryDefinition(path: string): Definition | undefined {
    return this.offered.get(path) ?? this.served.tryFind(path);
  }
}
