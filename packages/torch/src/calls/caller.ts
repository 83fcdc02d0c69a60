/** @file Outgoing calls: written, sent, awaited, answered, and failed exactly once. */
import { RpcError, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import {
  cancelled,
  checkSignal,
  checkTimeoutMs,
  MAX_TIMER_MS,
  unwatchAbort,
  watchAbort,
  type Answer,
  type CallForm,
  type CallMaker,
} from '@backwire/rpc/internal';
import { DISPOSE, runAtRoot, scopeHere } from '@backwire/tensor/internal';
import { discard, type ArrivedBody } from '../links/bodies.ts';
import type { Abandoned, TorchPeer } from '../links/peer.ts';
import { readResponse, writeCommand } from '../messages/codec.ts';
import type { Body, TorchResponse } from '../messages/commands.ts';
import { RemoteException } from '../values/objects.ts';
import { raised, refused, unread, unsent } from './errors.ts';
import { writeOperatorCall, writeScriptFunctionCall } from './script-calls.ts';
import { isAsyncCall, plainName, targetOf, udfOf, type Target } from './targets.ts';
import {
  doubt,
  heard,
  letGo,
  readingFrom,
  takeBack,
  writingTo,
  type Reading,
  type Values,
  type Writing,
} from './values.ts';

/** What profiles call a call. */
export interface CallName {
  /** 'sync', 'async', 'remote'. */
  readonly kind: string;
  /** Without a module: 'Net.forward', 'aten::add'. */
  readonly name: string;
}

/** What the parts above make of messages on their way: distributed autograd and profiles wrap them. */
export interface Wraps {
  /** What is sent in place of a request. `settled` is called once, when its answer has come or will not. */
  request(
    to: WorkerInfo,
    body: Body,
    call: CallName | undefined,
  ): { readonly body: Body; readonly settled?: (error?: unknown) => void };
  /** What is read in place of a response. */
  response(from: WorkerInfo, body: ArrivedBody): ArrivedBody;
}

/** What an answer has to be, and what becomes of it. */
export interface Expected {
  readonly reading: Reading;
  /** @throws for an answer of the wrong kind, or one that is a failure. */
  readonly take: (response: TorchResponse) => unknown;
}

/** A request to be sent; `wrap` says whether the contexts that are current may put something around it. */
interface Request {
  readonly body: Body;
  readonly writing: Writing;
  readonly wrap: boolean;
  readonly call?: CallName | undefined;
}

export class Caller implements CallMaker {
  defaultTimeoutMs: number;
  /** Calls that are not answered, those of programs and of this package. */
  active = 0;
  private readonly values: Values;
  private readonly wraps: Wraps;
  private idle: (() => void)[] = [];

  constructor(values: Values, wraps: Wraps, defaultTimeoutMs: number) {
    this.values = values;
    this.wraps = wraps;
    this.defaultTimeoutMs = defaultTimeoutMs;
  }

  call(
    peer: TorchPeer,
    name: string,
    args: readonly unknown[],
    options: CallOptions | undefined,
    form: CallForm,
    answer: Answer,
  ): undefined {
    const target = targetOf(name);
    const { timeoutMs = form.defaultTimeoutMs ?? this.defaultTimeoutMs } = options ?? {};
    this.command(
      peer,
      (writing) => this.encode(target, args, writing),
      { ...options, timeoutMs },
      this.result(peer),
      answer,
      { kind: form.label.kind, name: plainName(target) },
    );
    return undefined;
  }

  oneway(peer: TorchPeer, name: string, args: readonly unknown[], options: CallOptions | undefined): void {
    const writing = writingTo(peer.worker);
    const limits = limitsOf(options ?? {}, 0);
    const body = this.encode(targetOf(name), args, writing);
    // The answer, which torch sends in any case, is read and dropped.
    const nobody: Answer = { resolve: dropped, reject: () => undefined };
    this.send(peer, { body, writing, wrap: true }, limits, this.result(peer), nobody);
  }

  /** Resolves when no call is open. */
  whenIdle(): Promise<void> {
    if (this.active === 0) return Promise.resolve();
    return new Promise((resolve) => this.idle.push(resolve));
  }

  /** Sends what `encode` gives, as the program's call: wrapped where it is in a context. Never throws. */
  command(
    peer: TorchPeer,
    encode: (writing: Writing) => Body,
    options: CallOptions,
    expected: Expected,
    answer: Answer,
    call?: CallName,
  ): void {
    const writing = writingTo(peer.worker);
    let body: Body;
    let limits: CallOptions;
    try {
      limits = limitsOf(options, 0);
      checkAborted(options.signal, peer.worker);
      body = encode(writing);
    } catch (error) {
      takeBack(writing);
      answer.reject(unsent(error, peer.worker));
      return;
    }
    this.send(peer, { body, writing, wrap: true, call }, limits, expected, intoScope(answer));
  }

  /** As `command`, as a promise. */
  ask(
    peer: TorchPeer,
    encode: (writing: Writing) => Body,
    options: CallOptions,
    take: (response: TorchResponse, reading: Reading) => unknown,
    call?: CallName,
  ): Promise<unknown> {
    return new Promise((resolve, reject) =>
      this.command(peer, encode, options, expecting(peer, take), { resolve, reject }, call),
    );
  }

  /** Sends a request of the library's own, in no context and without a time limit. */
  tell(
    peer: TorchPeer,
    body: Body,
    take: (response: TorchResponse, reading: Reading) => unknown,
    options: CallOptions = {},
  ): Promise<unknown> {
    const request = { body, writing: writingTo(peer.worker), wrap: false };
    return new Promise((resolve, reject) =>
      this.send(peer, request, options, expecting(peer, take), { resolve, reject }),
    );
  }

  private send(
    peer: TorchPeer,
    { body: inner, writing, wrap, call }: Request,
    { timeoutMs = 0, signal }: CallOptions,
    expected: Expected,
    answer: Answer,
  ): void {
    const { worker } = peer;
    let settled: ((error?: unknown) => void) | undefined;
    let timer: NodeJS.Timeout | undefined;
    let giveUp: ((rest: Abandoned) => void) | undefined;
    let over = false;
    const end = (): boolean => {
      if (over) return false;
      over = true;
      if (timer !== undefined) clearTimeout(timer);
      if (signal !== undefined) unwatchAbort(signal, onAbort);
      if (--this.active === 0) for (const resolve of this.idle.splice(0)) resolve();
      return true;
    };
    const fail = (error: unknown): void => {
      if (!end()) return;
      giveUp?.(this.rest(worker, writing));
      settled?.(error);
      answer.reject(error);
    };
    const onAbort = (): void => fail(aborted(signal, worker, 'maybe'));
    this.active++;
    try {
      const wrapped = wrap ? this.wraps.request(worker, inner, call) : { body: inner };
      settled = wrapped.settled;
      giveUp = peer.request(wrapped.body, {
        resolve: (body) => {
          heard(writing);
          if (end()) this.answered(body, expected, writing, answer, settled);
        },
        // The function has run when what it answered is of no form here.
        reject: (error) => {
          doubt(writing);
          fail(unread(error, worker));
        },
        unsent: () => takeBack(writing),
      });
    } catch (error) {
      takeBack(writing);
      return fail(unsent(error, worker));
    }
    if (over) return;
    if (timeoutMs > 0 && timeoutMs <= MAX_TIMER_MS)
      timer = runAtRoot(() => setTimeout(() => fail(late(timeoutMs, worker)), timeoutMs));
    if (signal !== undefined) watchAbort(signal, onAbort);
  }

  private answered(
    body: ArrivedBody,
    { reading, take }: Expected,
    writing: Writing,
    answer: Answer,
    settled: ((error?: unknown) => void) | undefined,
  ): void {
    const { from } = reading;
    let value: unknown;
    try {
      const inner = this.wraps.response(from, body);
      value = take(readResponse(inner, this.values.script(reading)));
    } catch (error) {
      const shown = unread(error, from);
      settled?.(shown);
      useless(shown, reading, writing, answer);
      return;
    }
    settled?.();
    if (reading.pending.length === 0) answer.resolve(value);
    else
      Promise.all(reading.pending).then(
        () => answer.resolve(value),
        (error: unknown) => useless(error, reading, writing, answer),
      );
  }

  /** What becomes of a call that was given up: of the handles in it, and of those in its answer, their owners have to hear. */
  private rest(from: WorkerInfo, writing: Writing): Abandoned {
    return {
      late: (body) => {
        heard(writing);
        const reading = readingFrom(from);
        try {
          this.valueOf(this.innermost(body, reading), reading);
        } catch {
          doubt(writing);
        }
        letGo(reading);
        discard(body);
      },
      lost: () => doubt(writing),
    };
  }

  /** A response without what contexts and profiles have put around it. */
  private innermost(body: ArrivedBody, reading: Reading): TorchResponse {
    const response = readResponse(body, this.values.script(reading));
    return 'inner' in response ? this.innermost(response.inner as ArrivedBody, reading) : response;
  }

  /** The answer of a call: a value of Python or of TorchScript, or a failure. */
  private result({ worker }: TorchPeer): Expected {
    const reading = readingFrom(worker);
    return { reading, take: (response) => this.valueOf(response, reading) };
  }

  /** @throws what the response says has failed. */
  valueOf(response: TorchResponse, reading: Reading): unknown {
    const { from } = reading;
    switch (response.kind) {
      case 'python-ret':
      case 'python-rref-fetch-ret': {
        const value = this.values.read(response.pickled, response.tensors, reading);
        if (value instanceof RemoteException) throw raised(value, from);
        return value;
      }
      case 'script-ret':
      case 'script-rref-fetch-ret':
        return response.value;
      default:
        throw failed(response, from);
    }
  }

  private encode(target: Target, args: readonly unknown[], writing: Writing): Body {
    if (target.kind === 'operator') return writeOperatorCall(target.name, args);
    if (target.kind === 'script')
      return writeScriptFunctionCall(target.name, args, (value) => this.values.fork(value, writing));
    const { bytes, tensors } = this.values.write(udfOf(target, args), writing);
    return writeCommand({ kind: 'python-call', isAsync: isAsyncCall(target), pickled: bytes, tensors });
  }
}

/** What `take` makes of an answer of that worker. */
export function expecting(
  { worker }: TorchPeer,
  take: (response: TorchResponse, reading: Reading) => unknown,
): Expected {
  const reading = readingFrom(worker);
  return { reading, take: (response) => take(response, reading) };
}

/**
 * What a call's options say of its time and its end.
 * @throws RangeError, TypeError for a malformed time or what is no signal, RpcError 'invalid-argument' for a key: torch remembers no calls.
 */
export function limitsOf({ timeoutMs, signal, idempotencyKey }: CallOptions, fallbackMs: number): CallOptions {
  if (idempotencyKey !== undefined) {
    const text =
      'calls in a torch group take no idempotencyKey: workers of torch run a call that is sent again once more';
    throw new RpcError('invalid-argument', text);
  }
  checkSignal(signal);
  return { timeoutMs: timeoutMs === undefined ? fallbackMs : checkTimeoutMs(timeoutMs), signal };
}

/** What a response that is no answer means. */
export function failed(response: TorchResponse, from: WorkerInfo): Error {
  if (response.kind === 'exception') return refused(response.text, from);
  const text = `worker '${from.name}' answered with ${response.kind}`;
  return new RpcError('protocol-error', text, { executed: 'maybe', peer: from });
}

/** Of an answer that nobody gets, because of `error`, the handles are given back; whether those in the call were kept is not known. */
function useless(error: unknown, reading: Reading, writing: Writing, answer: Answer): void {
  letGo(reading);
  doubt(writing);
  answer.reject(error);
}

function dropped(value: unknown): void {
  if (typeof value === 'object' && value !== null && DISPOSE in value) (value as Disposable)[DISPOSE]();
}

/** @throws RpcError 'cancelled' for a signal that is aborted. */
function checkAborted(signal: AbortSignal | undefined, peer: WorkerInfo): void {
  if (signal?.aborted === true) throw aborted(signal, peer, 'no');
}

function aborted(signal: AbortSignal | undefined, peer: WorkerInfo, executed: 'no' | 'maybe'): RpcError {
  return cancelled('the call', signal?.reason, { executed, peer });
}

function late(timeoutMs: number, peer: WorkerInfo): RpcError {
  const text = `RPC ran for more than set timeout (${timeoutMs} ms) and will now be marked with an error; the call was to worker '${peer.name}'`;
  return new RpcError('deadline-exceeded', text, { executed: 'maybe', peer });
}

/** As `answer`; the tensors of what comes belong to the scope in which it was asked for. */
function intoScope(answer: Answer): Answer {
  const scope = scopeHere();
  if (scope === undefined) return answer;
  return {
    resolve: (value) => {
      scope.adopt(value);
      answer.resolve(value);
    },
    reject: (error) => answer.reject(error),
  };
}
