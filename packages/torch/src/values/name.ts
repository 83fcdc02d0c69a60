/** @file Names of Python: functions, classes and constants that a pickle refers to instead of holding them. */

/** A reference to something that Python finds by importing `module` and looking up `name`, whose parts are joined by dots. */
export class PyName {
  readonly module: string;
  readonly name: string;

  constructor(module: string, name: string) {
    this.module = module;
    this.name = name;
  }

  /** As Python programs write it: 'torch.nn.Linear'. */
  get path(): string {
    return `${this.module}.${this.name}`;
  }

  toString(): string {
    return this.path;
  }
}

/** A name that can be called while a pickle is read: what becomes of `name(*args)`. */
export abstract class PyCallable extends PyName {
  abstract call(args: readonly unknown[]): unknown;
}

/** A class whose instances a pickle may hold. */
export abstract class PyClass extends PyName {
  /** An instance, not initialised: `cls.__new__(cls, *args, **kwargs)`. */
  abstract make(args: readonly unknown[], kwargs: ReadonlyMap<unknown, unknown> | undefined): object;
  /** What the pickle calls the class itself for: `cls(*args)`. Undefined: not to be called. */
  call?(args: readonly unknown[]): unknown;
}

/** Objects that take the state which follows them in a pickle: `__setstate__`. */
export const setState: unique symbol = Symbol('setState');

export interface Stateful {
  [setState](state: unknown): void;
}

/** Whether `value` takes a state. */
export function isStateful(value: unknown): value is Stateful {
  return typeof value === 'object' && value !== null && setState in value;
}
