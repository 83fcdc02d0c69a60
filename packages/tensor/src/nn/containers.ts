/** @file ModuleList, ModuleDict, ParameterList, ParameterDict: modules and parameters by number or by name. */
import { rpcName } from '../named.ts';
import { Parameter, type Tensor } from '../tensor.ts';
import { Module } from './module.ts';

/** A name is one part of a path: with a dot in it, two tensors might share theirs. */
function checkName(kind: 'module' | 'parameter', name: string): void {
  if (name === '') throw new RangeError(`${kind} name can't be empty string ""`);
  if (name.includes('.')) throw new RangeError(`${kind} name can't contain ".", got: ${name}`);
}

/** Modules by number; it has no `forward`. */
export class ModuleList<M extends Module = Module> extends Module implements Iterable<M> {
  static readonly [rpcName] = 'nn.ModuleList';
  private readonly list: M[];
  constructor(modules: Iterable<M> = []) {
    super();
    this.list = [...modules];
  }
  get length(): number {
    return this.list.length;
  }
  at(index: number): M | undefined {
    return this.list.at(index);
  }
  append(module: M): this {
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
    super();
    this.named = new Map(Symbol.iterator in modules ? modules : Object.entries(modules));
    for (const name of this.named.keys()) checkName('module', name);
  }
  get size(): number {
    return this.named.size;
  }
  get(name: string): M | undefined {
    return this.named.get(name);
  }
  set(name: string, module: M): this {
    checkName('module', name);
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
  return t instanceof Parameter ? (t as Parameter) : new Parameter(t.detach());
}

/** Parameters by number. */
export class ParameterList extends Module implements Iterable<Parameter> {
  static readonly [rpcName] = 'nn.ParameterList';
  private readonly list: Parameter[];
  constructor(parameters: Iterable<Tensor> = []) {
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
