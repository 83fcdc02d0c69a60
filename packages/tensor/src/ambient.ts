/** @file The one AsyncLocalStorage of the project: an immutable record of what follows a program across `await`. */
import type { AsyncLocalStorage as Als } from 'node:async_hooks';

/**
 * What follows the control flow. Each further AsyncLocalStorage makes every `await` slower, so all layers share this record; the
 * layers above own the slots this package does not know the type of.
 */
export interface Ambient {
  /** Whether operations record their derivative. */
  readonly gradMode: boolean;
  /** The innermost `scope()`; owned by `tensor`. */
  readonly scope: object | undefined;
  /** Told of every operation while a profile runs; owned by `profiler`. */
  readonly profile: OpObserver | undefined;
  /** Records where each operation was called; owned by `tensor`. */
  readonly anomaly: boolean;
  /** In which precision operations compute; owned by `tensor`. */
  readonly autocast: object | undefined;
  /** The current agent; owned by `rpc`. */
  readonly agent: object | undefined;
  /** The call being handled; owned by `rpc`. */
  readonly call: object | undefined;
  /** The innermost `waitAll()`; owned by `rpc`. */
  readonly waitAll: object | undefined;
  /** The exchange between replicas for which a group is called; owned by `tensor`. */
  readonly exchange: object | undefined;
  /** The current distributed autograd context; owned by `dist-autograd`. */
  readonly contextId: bigint | undefined;
}

/** Observes tensor operations. `begin` returns a token that is handed to `end`. */
export interface OpObserver {
  begin(name: string, inputs: readonly unknown[]): unknown;
  end(token: unknown, output: unknown): void;
  /** Runs `fn` inside of an event of that name, which lasts until its promise settles. */
  during?<T>(name: string, fn: () => Promise<T>): Promise<T>;
}

const ROOT: Ambient = Object.freeze({
  gradMode: true,
  scope: undefined,
  profile: undefined,
  anomaly: false,
  autocast: undefined,
  agent: undefined,
  call: undefined,
  waitAll: undefined,
  exchange: undefined,
  contextId: undefined,
});

interface Carrier {
  getStore(): Ambient | undefined;
  run<T>(store: Ambient, fn: () => T): T;
}

/** Without async_hooks (browsers) the record holds only while `fn` runs synchronously; options carry it explicitly there. */
class SynchronousCarrier implements Carrier {
  private current: Ambient | undefined;
  getStore(): Ambient | undefined {
    return this.current;
  }
  run<T>(store: Ambient, fn: () => T): T {
    const before = this.current;
    this.current = store;
    try {
      return fn();
    } finally {
      this.current = before;
    }
  }
}

interface Shared {
  readonly carrier: Carrier;
  readonly atRoot: <T>(fn: () => T) => T;
}

function create(): Shared {
  const hooks = globalThis.process?.getBuiltinModule?.('node:async_hooks');
  if (hooks === undefined) {
    const carrier = new SynchronousCarrier();
    return { carrier, atRoot: (fn) => carrier.run(ROOT, fn) };
  }
  const als: Als<Ambient> = new hooks.AsyncLocalStorage<Ambient>();
  // Taken now, at module load, so that sockets and timers made later inside a call do not keep that call's record for ever.
  const snapshot = hooks.AsyncLocalStorage.snapshot();
  return { carrier: als, atRoot: (fn) => snapshot(fn) };
}

// On a well-known global symbol, so that two installed copies of this package agree on what is current.
const KEY = Symbol.for('backwire.ambient');
const table = globalThis as { [KEY]?: Shared };
const { carrier, atRoot } = (table[KEY] ??= create());

/** The record in force here; outside every `runWith` it is the root record. */
export function ambient(): Ambient {
  return carrier.getStore() ?? ROOT;
}

/** Runs `fn` with `patch` laid over the current record, and whatever it awaits too. */
export function runWith<T>(patch: Partial<Ambient>, fn: () => T): T {
  return carrier.run({ ...ambient(), ...patch }, fn);
}

/** What `use` makes of what `promise` comes to, in the record in force now: in a browser nothing follows an `await`. */
export function thenHere<T, R>(promise: Promise<T>, use: (value: T) => R | Promise<R>): Promise<R> {
  const record = ambient();
  return promise.then((value) => carrier.run(record, () => use(value)));
}

/** Runs `fn` with `patch` over the root record: no call, deadline, context or profile of the caller. */
export function runClean<T>(patch: Partial<Ambient>, fn: () => T): T {
  return carrier.run({ ...ROOT, ...patch }, fn);
}

/** The same for a handler, whose record is made at every call: one literal instead of two spreads. */
export function runCall<T>(agent: object, call: object, scope: object | undefined, fn: () => T): T {
  const record: Ambient = {
    gradMode: true,
    scope,
    profile: undefined,
    anomaly: false,
    autocast: undefined,
    agent,
    call,
    waitAll: undefined,
    exchange: undefined,
    contextId: undefined,
  };
  return carrier.run(record, fn);
}

/** Runs `fn` outside of everything: for dialling sockets, arming timers and dispatching what arrives. */
export function runAtRoot<T>(fn: () => T): T {
  return atRoot(fn);
}
