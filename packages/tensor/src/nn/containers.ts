/** @file ModuleList, ModuleDict, ParameterList, ParameterDict: modules and parameters by number or by name. */
import { checkIterable, kindOf } from '../given.ts';
import { rpcName } from '../named.ts';
import { Parameter, Tensor } from '../tensor.ts';
import { Module } from './module.ts';

/** A name is one part of a path: with a dot in it, two tensors might share theirs. */
function checkName(kind: 'module' | 'parameter', name: string): void {
  if (name === '') throw new RangeError(`${kind} name can't be empty string ""`);
  if (name.includes('.')) throw new RangeError(`${kind} name can't contain ".", got: ${name}`);
}

/** @throws TypeError for what has no entries. */
function checkRecord(value: unknown, what: string): void {
  if (typeof value !== 'object' || value === null)
    throw new TypeError(`${what} are an object of names and what they are of; got ${kindOf(value)}`);
}

function entryOf<M>(entry: readonly [string, M]): readonly [string, M] {
  if (Array.isArray(entry) && typeof entry[0] === 'string') return entry;
  throw new TypeError(`nn.ModuleDict: an entry is a name and a module, got ${kindOf(entry)}`);
}

function checkModule(value: unknown): void {
  if (!(value instanceof Module)) throw new TypeError(`a list or dict of modules holds modules, got ${kindOf(value)}`);
}

/** Modules by number; it has no `forward`. */
export class ModuleList<M extends Module = Module> extends Module implements Iterable<M> {
  static readonly [rpcName] = 'nn.ModuleList';
  private readonly list: M[];
  constructor(modules: Iterable<M> = []) {
    checkIterable(modules, 'nn.ModuleList: modules');
    super();
    this.list = [...modules];
    for (const module of this.list) checkModule(module);
  }
  get length(): number {
    return this.list.length;
  }
  at(index: number): M | undefined {
    return this.list.at(index);
  }
  append(module: M): this {
    checkModule(module);
    this.list.push(module);
    return this;
  }
  [Symbol.iterator](): Iterator<M> {
    return this.list[Symbol.iterator]();
  }
  protected override moduleEntries(): [string, Module][] {
    return this.list.map((module, i): [string, Module] => [String(i), module]);
  }
}

/** Modules by name; it has no `forward`. */
export class ModuleDict<M extends Module = Module> extends Module {
  static readonly [rpcName] = 'nn.ModuleDict';
  private readonly named: Map<string, M>;
  constructor(modules: Readonly<Record<string, M>> | Iterable<readonly [string, M]> = {}) {
    checkRecord(modules, 'nn.ModuleDict: modules');
    super();
    const entries: Iterable<readonly [string, M]> = Symbol.iterator in modules ? modules : Object.entries(modules);
    this.named = new Map(Array.from(entries, entryOf));
    for (const [name, module] of this.named) {
      checkName('module', name);
      checkModule(module);
    }
  }
  get size(): number {
    return this.named.size;
  }
  get(name: string): M | undefined {
    return this.named.get(name);
  }
  set(name: string, module: M): this {
    checkName('module', name);
    checkModule(module);
    this.named.set(name, module);
    return this;
  }
  has(name: string): boolean {
    return this.named.has(name);
  }
  keys(): string[] {
    return [...this.named.keys()];
  }
  values(): M[] {
    return [...this.named.values()];
  }
  entries(): [string, M][] {
    return [...this.named];
  }
  protected override moduleEntries(): [string, Module][] {
    return [...this.named];
  }
}

function asParameter(t: Tensor): Parameter {
  if (!(t instanceof Tensor)) throw new TypeError(`a list or dict of parameters holds Tensors, got ${kindOf(t)}`);
  return t instanceof Parameter ? (t as Parameter) : new Parameter(t.detach());
}

/** Parameters by number. */
export class ParameterList extends Module implements Iterable<Parameter> {
  static readonly [rpcName] = 'nn.ParameterList';
  private readonly list: Parameter[];
  constructor(parameters: Iterable<Tensor> = []) {
    checkIterable(parameters, 'nn.ParameterList: parameters');
    super();
    this.list = Array.from(parameters, asParameter);
  }
  get length(): number {
    return this.list.length;
  }
  at(index: number): Parameter | undefined {
    return this.list.at(index);
  }
  append(parameter: Tensor): this {
    this.list.push(asParameter(parameter));
    return this;
  }
  [Symbol.iterator](): Iterator<Parameter> {
    return this.list[Symbol.iterator]();
  }
  protected override parameterEntries(): [string, Parameter][] {
    return this.list.map((parameter, i): [string, Parameter] => [String(i), parameter]);
  }
}

/** Parameters by name. */
export class ParameterDict extends Module {
  static readonly [rpcName] = 'nn.ParameterDict';
  private readonly named: Map<string, Parameter>;
  constructor(parameters: Readonly<Record<string, Tensor>> = {}) {
    checkRecord(parameters, 'nn.ParameterDict: parameters');
    super();
    this.named = new Map(Object.entries(parameters).map(([name, t]) => [name, asParameter(t)]));
    for (const name of this.named.keys()) checkName('parameter', name);
  }
  get(name: string): Parameter | undefined {
    return this.named.get(name);
  }
  set(name: string, parameter: Tensor): this {
    checkName('parameter', name);
    this.named.set(name, asParameter(parameter));
    return this;
  }
  keys(): string[] {
    return [...this.named.keys()];
  }
  protected override parameterEntries(): [string, Parameter][] {
    return [...this.named];
  }
}
