/** @file Python objects as records: instances of classes, exceptions, what torch's calls consist of, and what travels of its handles. */
import type { PyTuple } from './containers.ts';
import { PyClass, setState, type PyName, type Stateful } from './name.ts';

/** An instance of a Python class as a pickle describes it: how it is made, and its state. */
export class PyInstance implements Stateful {
  readonly type: PyName;
  readonly args: readonly unknown[];
  readonly kwargs: ReadonlyMap<unknown, unknown> | undefined;
  /** 'new': by `cls.__new__(cls, *args)`; 'call': by `cls(*args)`. */
  readonly made: 'new' | 'call';
  /** What `__setstate__` gets, most often a dict of attributes; undefined: nothing. */
  state: unknown;

  constructor(
    type: PyName,
    args: readonly unknown[] = [],
    options: { made?: 'new' | 'call'; kwargs?: ReadonlyMap<unknown, unknown> | undefined; state?: unknown } = {},
  ) {
    this.type = type;
    this.args = args;
    this.kwargs = options.kwargs;
    this.made = options.made ?? 'new';
    this.state = options.state;
  }

  [setState](state: unknown): void {
    this.state = state;
  }
}

/** A class whose instances are read as records: for what is handed on, and for what has no class here. */
export class PyRecordClass extends PyClass {
  make(args: readonly unknown[], kwargs: ReadonlyMap<unknown, unknown> | undefined): PyInstance {
    return new PyInstance(this, args, { kwargs });
  }

  override call(args: readonly unknown[]): PyInstance {
    return new PyInstance(this, args, { made: 'call' });
  }
}

/** A bound method of an offered object, or a method of an offered class: `getattr(owner, name)`. */
export class PyAttribute {
  readonly owner: unknown;
  readonly name: string;

  constructor(owner: unknown, name: string) {
    this.owner = owner;
    this.name = name;
  }
}

/** An exception as a value: an argument or a result, not the failure of a call. */
export class PyException extends Error implements Stateful {
  /** One of Python's builtin exceptions, or an offered class. */
  readonly type: PyName;
  readonly args: readonly unknown[];
  state: unknown;

  constructor(type: PyName, args: readonly unknown[]) {
    super(args.map(shown).join(', '));
    this.name = type.name;
    this.type = type;
    this.args = args;
  }

  [setState](state: unknown): void {
    this.state = state;
  }
}

/** An argument of an exception in its message; what is no text or number is left to `args`. */
function shown(arg: unknown): string {
  if (arg === null) return 'None';
  if (typeof arg === 'boolean') return arg ? 'True' : 'False';
  return typeof arg === 'string' || typeof arg === 'number' || typeof arg === 'bigint' ? String(arg) : '…';
}

/** PythonUDF: a call of a function that Python, or an offered name, has. */
export class PythonUdf {
  readonly func: unknown;
  readonly args: PyTuple;
  readonly kwargs: ReadonlyMap<unknown, unknown>;

  constructor(func: unknown, args: PyTuple, kwargs: ReadonlyMap<unknown, unknown> = new Map()) {
    this.func = func;
    this.args = args;
    this.kwargs = kwargs;
  }
}

/** RemoteException: what a function that failed answers. */
export class RemoteException {
  /** `On WorkerInfo(id=1, name=w1):`, the exception, and the stack. Python decodes escapes in it, which it does not write itself. */
  readonly message: string;
  readonly type: PyName;

  constructor(message: string, type: PyName) {
    this.message = message;
    this.type = type;
  }

  /** What Python raises as `type` with this text. */
  static saying(text: string, type: PyName): RemoteException {
    return new RemoteException(escaped(text), type);
  }
}

/** A text that Python's 'unicode_escape' makes `text` of. */
function escaped(text: string): string {
  return text.replace(/[\\\u{80}-\u{10ffff}]/gu, (character) => {
    if (character === '\\') return '\\\\';
    return `\\U${(character.codePointAt(0) as number).toString(16).padStart(8, '0')}`;
  });
}

/** An id that one worker drew: of an RRef, of a fork, of a profile. */
export interface TorchId {
  readonly worker: number;
  /** 0, 1, 2 …; below 2^53. */
  readonly local: number;
}

/** A handle on an RRef on its way to another worker. */
export class RRefFork {
  /** The worker that owns the value. */
  readonly owner: number;
  readonly rref: TorchId;
  readonly fork: TorchId;
  /** The worker that handed it over. */
  readonly parent: number;
  /** 'PyObject', 'Tensor', 'int', 'List[int]', or a TorchScript type. */
  readonly type: string;

  constructor(owner: number, rref: TorchId, fork: TorchId, parent: number, type: string) {
    this.owner = owner;
    this.rref = rref;
    this.fork = fork;
    this.parent = parent;
    this.type = type;
  }
}

/** torch's `_SerializedRemoteModule`: what travels of a RemoteModule. */
export class SerializedRemoteModule {
  /** Where it was made for: the name of a worker, or its rank. What is asked of the module goes to the owner of its RRef. */
  readonly on: string | number;
  /** Of that worker: 'cpu', 'cuda:0'. */
  readonly device: string;
  readonly moduleRRef: RRefFork;

  constructor(on: string | number, device: string, moduleRRef: RRefFork) {
    this.on = on;
    this.device = device;
    this.moduleRRef = moduleRRef;
  }
}
