/** @file Incoming requests: read, run, answered. What each kind of request does is in a table that the parts above fill. */
import { RemoteModule } from '@backwire/dist-autograd';
import { RpcError, type WorkerInfo } from '@backwire/rpc';
import { invokeServed, runInScope, type Definition } from '@backwire/rpc/internal';
import { runClean, type OpObserver } from '@backwire/tensor/internal';
import type { ArrivedBody } from '../links/bodies.ts';
import { discard } from '../links/bodies.ts';
import type { Caller as Asker } from '../links/door.ts';
import { readRequest, writeCommand } from '../messages/codec.ts';
import type { Body, PythonCall, ScriptCall, TorchRequest } from '../messages/commands.ts';
import { callOperator } from '../operators/call.ts';
import { NotOfferedError } from '../pickle/refusal.ts';
import { PyName } from '../values/name.ts';
import { PyAttribute, PythonUdf } from '../values/objects.ts';
import { raising, refusal } from './errors.ts';
import { inexact } from './inexact.ts';
import { OfferedClass, OfferedFunction, SystemName, type Names } from './names.ts';
import { calleeOf, shownTarget, withKwargs } from './targets.ts';
import { letGo, readingFrom, writingTo, type Reading, type Values } from './values.ts';

/** One request that is being served. */
export interface Serving {
  readonly from: WorkerInfo;
  readonly reading: Reading;
}

type Kind = TorchRequest['kind'];
type OfKind<K extends Kind> = Extract<TorchRequest, { kind: K }>;
/** What answers a request. What it throws is answered as an exception. */
export type Handler<K extends Kind> = (request: OfKind<K>, serving: Serving) => Body | Promise<Body>;

/** A function that is to be run, with its arguments read. */
export interface Runnable {
  /** For logs and errors. */
  readonly name: string;
  run(): unknown;
}

export interface ServerHost {
  readonly agent: object;
  readonly self: WorkerInfo;
  readonly names: Names;
  readonly values: Values;
  /** @throws RpcError for a name that is nobody's in this group. */
  find(name: string): WorkerInfo;
  /** Told of what no caller hears of. */
  failed(error: unknown, what: string): void;
}

/** What a handler threw, as opposed to what keeps a call from being run. */
export class Thrown extends Error {
  readonly thrown: unknown;

  constructor(thrown: unknown) {
    super('a handler threw');
    this.thrown = thrown;
  }
}

export class Server {
  /** Requests that are being served. */
  active = 0;
  /** Functions that were called. */
  handled = 0;
  /** Runs each request, with the profile that records it; undefined while nobody profiles this worker. */
  watch: ((run: (profile: OpObserver) => Body | Promise<Body>) => Body | Promise<Body>) | undefined;
  private readonly host: ServerHost;
  private readonly handlers = new Map<Kind, Handler<Kind>>();
  private idle: (() => void)[] = [];
  /** Requests that came before this worker knew all others; undefined from then on. */
  private early: (() => void)[] | undefined = [];

  constructor(host: ServerHost) {
    this.host = host;
    this.handle('python-call', (request, serving) => this.pythonCall(request, serving));
    this.handle('script-call', (request, serving) => this.scriptCall(request, serving));
  }

  handle<K extends Kind>(kind: K, handler: Handler<K>): void {
    this.handlers.set(kind, handler as unknown as Handler<Kind>);
  }

  /** Resolves when nothing is served. */
  whenIdle(): Promise<void> {
    if (this.active === 0) return Promise.resolve();
    return new Promise((resolve) => this.idle.push(resolve));
  }

  /** Everybody is known: what came meanwhile is served, in its order, and what comes is served at once. */
  open(): void {
    const { early = [] } = this;
    this.early = undefined;
    for (const serve of early) serve();
  }

  /** Serves a request. Never throws. */
  serve(asker: Asker, body: ArrivedBody): void {
    if (this.early !== undefined) {
      this.early.push(() => this.serve(asker, body));
      return;
    }
    this.active++;
    let answer: Body | Promise<Body>;
    try {
      // The order in which requests begin is the order in which they came.
      answer = this.begin(asker, body);
    } catch (error) {
      this.answer(asker, this.exception(error));
      return;
    }
    if (!(answer instanceof Promise)) return this.answer(asker, answer);
    answer.then(
      (made) => this.answer(asker, made),
      (error: unknown) => this.answer(asker, this.exception(error)),
    );
  }

  /** A request that was not understood is answered all the same. */
  malformed(asker: Asker, error: unknown): void {
    this.active++;
    this.answer(asker, this.exception(error));
  }

  /** Serves a request that came inside of another; rejects or throws with what it fails with. */
  inner(body: ArrivedBody, from: WorkerInfo): Body | Promise<Body> {
    const reading = readingFrom(from);
    const { values } = this.host;
    let request: TorchRequest;
    try {
      // Operators tell 2.0 from 2.
      request = readRequest(body, values.script(reading, true));
    } catch (error) {
      letGo(reading);
      discard(body);
      throw error;
    }
    const handler = this.handlers.get(request.kind);
    if (handler === undefined)
      throw new RpcError('failed-precondition', `requests of kind ${request.kind} are not served`);
    return handler(request, { from, reading });
  }

  private begin(asker: Asker, body: ArrivedBody): Body | Promise<Body> {
    const from = this.host.find(asker.from);
    const { agent } = this.host;
    if (this.watch === undefined) return runClean({ agent }, () => this.inner(body, from));
    return this.watch((profile) => runClean({ agent, profile }, () => this.inner(body, from)));
  }

  private answer(asker: Asker, body: Body): void {
    try {
      asker.answer(body);
    } catch (error) {
      this.host.failed(error, `an answer to worker '${asker.from}' cannot be sent`);
      asker.answer(this.exception(error));
    } finally {
      if (--this.active === 0) for (const resolve of this.idle.splice(0)) resolve();
    }
  }

  private exception(error: unknown): Body {
    const { self } = this.host;
    const inner = error instanceof Thrown ? error.thrown : error;
    return writeCommand({ kind: 'exception', text: `Error on Node ${self.id}: ${refusal(inner)}` });
  }

  // Calls.

  private pythonCall(request: PythonCall, serving: Serving): Body | Promise<Body> {
    const runnable = this.readUdf(request, serving);
    return this.finish(runnable, serving, (value) => this.pythonRet(value, serving.from));
  }

  /** PYTHON_RET of a value. */
  pythonRet(value: unknown, to: WorkerInfo): Body {
    const { bytes, tensors } = this.host.values.write(value, writingTo(to));
    return writeCommand({ kind: 'python-ret', pickled: bytes, tensors });
  }

  private scriptCall({ callee, args }: ScriptCall, serving: Serving): Body | Promise<Body> {
    const runnable = this.scriptRunnable(callee, args, serving);
    const answered = this.run(runnable, serving);
    const encode = (value: unknown): Body => writeCommand({ kind: 'script-ret', value });
    return answered instanceof Promise ? answered.then(encode) : encode(answered);
  }

  /** Runs a function and writes what it gives; what it throws is the answer, too, as Python has it. */
  private finish(runnable: Runnable, serving: Serving, encode: (value: unknown) => Body): Body | Promise<Body> {
    const failed = (error: unknown): Body => {
      if (!(error instanceof Thrown)) throw error;
      return this.pythonRet(raising(error.thrown, this.host.self), serving.from);
    };
    let result: unknown;
    try {
      result = this.run(runnable, serving);
      if (!(result instanceof Promise)) return encode(result);
    } catch (error) {
      return failed(error);
    }
    return (result as Promise<unknown>).then(encode).catch(failed);
  }

  /** Runs a function as a handler, once its arguments are ready. Rejects or throws with `Thrown` what it throws itself. */
  run(runnable: Runnable, { reading }: Serving): unknown {
    this.handled++;
    if (reading.pending.length === 0) return called(runnable);
    return Promise.all(reading.pending).then(() => called(runnable));
  }

  /** Reads a call of Python's side. @throws RpcError 'not-found', 'permission-denied'; WireError; TypeError. */
  readUdf(request: Pick<PythonCall, 'pickled' | 'tensors'>, { reading, from }: Serving): Runnable {
    const udf = this.host.values.read(request.pickled, request.tensors, reading);
    if (!(udf instanceof PythonUdf)) throw new TypeError('a call that is no call');
    const { callee, args } = calleeOf(udf);
    return this.runnable(callee, withKwargs(args, udf.kwargs), from);
  }

  /** What calling `callee` runs. */
  private runnable(callee: unknown, args: readonly unknown[], from: WorkerInfo): Runnable {
    const name = shownTarget(callee);
    if (callee instanceof SystemName) return { name, run: () => callee.run(args, from.name) };
    if (callee instanceof OfferedFunction || callee instanceof OfferedClass)
      return { name, run: () => invoked(callee.definition, args) };
    if (callee instanceof PyAttribute) return { name, run: () => this.method(callee, args) };
    if (typeof callee === 'string') {
      const definition = this.host.names.definition(callee);
      return { name, run: () => invoked(definition, args) };
    }
    throw new NotOfferedError(callee instanceof PyName ? callee.path : typeof callee);
  }

  /** A method of an object that came, or of a class with its object as the first argument. */
  private method({ owner, name }: PyAttribute, args: readonly unknown[]): unknown {
    const [object, rest] = owner instanceof OfferedClass ? [args[0], args.slice(1)] : [owner, args];
    return methodOf(this.host.names, object, name)(...rest);
  }

  /** What a call by script runs: an operator, or a function that is offered by that name. */
  scriptRunnable(callee: ScriptCall['callee'], args: readonly unknown[], { from }: Serving): Runnable {
    if ('schema' in callee) return { name: callee.schema, run: () => callOperator(callee.schema, args) };
    const path = callee.function.replace(/^__torch__\./, '');
    const found = this.host.names.find(path.slice(0, path.lastIndexOf('.')), path.slice(path.lastIndexOf('.') + 1));
    if (found === undefined) throw new NotOfferedError(path);
    return this.runnable(found, inexact(args), from);
  }
}

/** A published method of an object that is here. @throws TypeError "… has no attribute …", RpcError 'permission-denied'. */
function methodOf(names: Names, object: unknown, name: string): (...args: readonly unknown[]) => unknown {
  if (object instanceof RemoteModule && name === 'forward') return (...args) => object.forward(...args);
  if (typeof object === 'object' && object !== null) {
    const definition = names.classOf(object);
    const method = definition?.methods.has(name) === true ? (object as Record<string, unknown>)[name] : undefined;
    if (typeof method === 'function') return (...args) => Reflect.apply(method, object, args) as unknown;
  }
  const type = typeof object === 'object' && object !== null ? object.constructor.name : typeof object;
  throw new TypeError(`'${type}' object has no attribute '${name}' that is published on this worker`);
}

function invoked(definition: Definition, args: readonly unknown[]): unknown {
  const invoke = (): unknown => invokeServed(definition, args);
  return definition.scope ? runInScope(args, invoke) : invoke();
}

function called(runnable: Runnable): unknown {
  let result: unknown;
  try {
    result = runnable.run();
  } catch (error) {
    throw new Thrown(error);
  }
  if (!isThenable(result)) return result;
  return Promise.resolve(result).catch((error: unknown) => {
    throw new Thrown(error);
  });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as PromiseLike<unknown>).then === 'function';
}
