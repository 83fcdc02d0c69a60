/** @file Outgoing calls: written, awaited, answered, and failed exactly once. */
import type { Tensor } from '@backwire/tensor';
import { ambient, runAtRoot } from '@backwire/tensor/internal';
import type { Message } from '@backwire/wire';
import { FrameFlag, FrameKind, MessageType, WireError } from '@backwire/wire/internal';
import { aborted, leaving, timedOut } from './call-errors.ts';
import { callSite, nameCall } from './call-sites.ts';
import { CallWriter } from './call-writer.ts';
import { ARRIVE } from '../protocol/meetings.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import { DecodeContext, freeing } from '../extensions/value-context.ts';
import { decodeFailure } from '../session/error-codec.ts';
import { RpcError, type Executed } from '../base/errors.ts';
import type { Followed, RpcMessage } from '../extensions/extension.ts';
import { InboundCall } from '../server/inbound-call.ts';
import type { IncomingFrame } from '../session/incoming-frame.ts';
import { messageOf } from '../session/receiver.ts';
import { CallMessage, encodeCallMessage } from '../extensions/call-message.ts';
import { CALL_OPTIONS, checkSignal, checkTimeoutMs, refuseUnknown, type CallOptions } from '../base/options.ts';
import type { FaultInjector } from '../session/fault-injection.ts';
import type { Peer } from '../session/peer.ts';
import { unref } from '../base/platform.ts';
import { MAX_OPEN_CALLS } from '../base/limits.ts';
import { CallTable } from '../protocol/call-table.ts';
import { PendingCall, type Answer, type CallForm, type StreamAnswer } from './pending-call.ts';
import { decodeFailed, unsent } from '../base/unsent.ts';

const isPlainReply = (type: number): boolean => type === MessageType.PYTHON_RET || type === MessageType.SCRIPT_RET;

/** A timer never sleeps longer, so that a clock that was set back does no harm. */
const MAX_SLEEP_MS = 2 ** 31 - 1;

/** What is sent: a function and its arguments, or a message that is encoded already. */
interface Request {
  readonly type: number;
  readonly name: string;
  readonly args: readonly unknown[];
  readonly message: RpcMessage | undefined;
  readonly options: CallOptions | undefined;
  /** Without hooks. */
  readonly raw?: boolean;
}

/** A call that the request hooks have seen. */
interface Asked {
  readonly followed: Followed;
  /** Undefined while nobody has asked for its bytes: they are written straight into the frame then. */
  readonly message: RpcMessage | undefined;
}

export class Caller {
  /** The agent's default time, in milliseconds; 0 = none. */
  defaultTimeoutMs: number;
  /** The calls that are not settled. */
  readonly calls = new CallTable<PendingCall>(MAX_OPEN_CALLS);
  /** Whether calls note where they are made. */
  callSites = false;
  /** Calls that failed. */
  failures = 0;
  private readonly writer: CallWriter;
  private readonly faults: FaultInjector;
  private readonly environment: ExtendedEnvironment;
  private readonly decoding = new DecodeContext();
  private timer: NodeJS.Timeout | undefined;
  private timerAt = Infinity;

  constructor(environment: ExtendedEnvironment, faults: FaultInjector, defaultTimeoutMs: number) {
    this.environment = environment;
    this.writer = new CallWriter(environment);
    this.faults = faults;
    this.defaultTimeoutMs = defaultTimeoutMs;
  }

  /** A monotonic time in milliseconds. */
  now(): number {
    return this.environment.now();
  }

  /** Calls made. */
  get sent(): number {
    return this.writer.sent;
  }

  /** Calls `name` on `peer`. Never throws: what fails here goes to the answer too. */
  call(
    peer: Peer,
    name: string,
    args: readonly unknown[],
    options: CallOptions | undefined,
    form: CallForm,
    answer: Answer,
  ): PendingCall | undefined {
    const type = name.startsWith('aten::') ? MessageType.SCRIPT_CALL : MessageType.PYTHON_CALL;
    // Meetings are how quiet is measured: they are the agent's own, and nobody wraps them.
    if (name === ARRIVE || !this.environment.extensions.wantsRequest()) {
      return this.open(peer, { type, name, args, message: undefined, options }, form, answer, undefined);
    }
    let asked: Asked;
    try {
      asked = this.ask(peer, type, name, args, options, form);
    } catch (error) {
      answer.reject(error);
      return undefined;
    }
    const { followed, message } = asked;
    return this.open(peer, { type: followed.message.type, name, args, message, options }, form, answer, followed);
  }

  /** What the request hooks make of a call. @throws what a hook throws; what was drawn for the call by then is taken back. */
  private ask(
    peer: Peer,
    type: number,
    name: string,
    args: readonly unknown[],
    options: CallOptions | undefined,
    { label }: CallForm,
  ): Asked {
    const lazy = new CallMessage(this.environment, peer.worker, type, name, args);
    try {
      const followed = this.environment.extensions.request({
        to: peer.worker,
        message: lazy,
        options: options ?? {},
        label,
      });
      const { message } = followed;
      return { followed, message: message !== lazy || lazy.encoded ? message : undefined };
    } catch (error) {
      if (lazy.encoded) this.takeBack(peer, lazy.header);
      throw error;
    }
  }

  /** Sends a request message. */
  message(
    peer: Peer,
    message: RpcMessage,
    options: CallOptions | undefined,
    form: CallForm,
    raw: boolean,
    answer: Answer,
  ): PendingCall | undefined {
    let outgoing: Followed = { to: peer.worker, message, options: options ?? {}, label: form.label };
    if (!raw && this.environment.extensions.wantsRequest()) {
      try {
        outgoing = this.environment.extensions.request(outgoing);
      } catch (error) {
        this.takeBack(peer, message.header);
        answer.reject(error);
        return undefined;
      }
    }
    const { message: final } = outgoing;
    const what: Request = { type: final.type, name: form.label.name, args: [], message: final, options, raw };
    return this.open(peer, what, form, answer, outgoing);
  }

  /** A call whose answer nobody waits for. Failures to send are thrown. */
  oneway(peer: Peer, name: string, args: readonly unknown[], options: CallOptions | undefined): void {
    const type = name.startsWith('aten::') ? MessageType.SCRIPT_CALL : MessageType.PYTHON_CALL;
    refuseUnknown(options, CALL_OPTIONS, `a call of '${name}'`);
    const timeoutMs = options?.timeoutMs === undefined ? 0 : this.timeout(options);
    this.checkSignal(options?.signal, peer);
    const form: CallForm = { mode: 'value', label: { kind: 'oneway', name } };
    const call = new PendingCall(peer, form, timeoutMs, this.environment.now(), NOBODY, undefined);
    const asked = this.environment.extensions.wantsRequest()
      ? this.ask(peer, type, name, args, options, form)
      : undefined;
    const message = asked?.message;
    const followed = asked?.followed;
    call.header = message?.header;
    try {
      this.checkPeer(peer);
      const delayMs = this.faults.request(message?.type ?? type);
      if (delayMs > 0) this.later(call, { type, name, args, message, options }, delayMs, FrameFlag.ONEWAY);
      else if (message === undefined) this.writer.writeCall(call, FrameFlag.ONEWAY, type, name, args, options);
      else this.writer.writeMessage(call, FrameFlag.ONEWAY, message, options);
    } catch (error) {
      this.undelivered(call);
      followed?.settled?.({ error });
      throw error;
    }
    // Nobody hears of its end: whoever follows it has seen all there is.
    followed?.settled?.({});
  }

  /** The time a call may take: its own, no more than the rest of the handler's it is made in. 0 = no limit. @throws RangeError */
  timeout(options: CallOptions | undefined, fallback: number = this.defaultTimeoutMs): number {
    return options?.timeoutMs === undefined ? fallback : checkTimeoutMs(options.timeoutMs);
  }

  /** Whether an answer to this call of this peer is still wanted. */
  expects(id: number, peer: Peer): boolean {
    return this.calls.get(id)?.peer === peer;
  }

  /** A part of an answer whose storages are still on their way; a stream keeps its place. */
  assembling(id: number, kind: FrameKind, seq: number): void {
    const call = this.calls.get(id);
    if (call?.mode === 'stream' && kind === FrameKind.STREAM_ITEM) (call.answer as StreamAnswer).expect(seq);
  }

  /** An answer, or one item of it, is complete. */
  answered(arrived: IncomingFrame, peer: Peer, tensors: Tensor[]): void {
    const { kind, id } = arrived;
    const open = this.calls.get(id);
    if (open === undefined || open.peer !== peer) {
      for (const tensor of tensors) tensor.dispose();
      for (const done of arrived.done) done();
      return;
    }
    if (open.mode === 'stream') {
      const stream = open.answer as StreamAnswer;
      if (kind === FrameKind.STREAM_ITEM) {
        this.item(open, stream, arrived, tensors);
        return;
      }
      if (stream.incomplete) {
        const kept = {
          ...arrived,
          bytes: arrived.bytes.slice(arrived.start, arrived.end),
          start: 0,
          end: arrived.end - arrived.start,
        };
        stream.onComplete = () => this.answered(kept, peer, tensors);
        return;
      }
    }
    const call = this.take(id) as PendingCall;
    try {
      if (kind === FrameKind.ERROR)
        this.reject(call, decodeFailure(arrived.bytes.subarray(arrived.start, arrived.end), peer.worker));
      else if (kind === FrameKind.STREAM_END) this.resolve(call, undefined, undefined);
      else this.deliver(call, arrived, tensors);
    } catch (error) {
      this.reject(call, error instanceof WireError ? this.unread(error, call) : error);
    } finally {
      if (arrived.done.length > 0) for (const done of arrived.done) done();
    }
  }

  /** Fails an open call of this side's making, and tells the peer when it may have it. */
  cancel(id: number, error: (executed: Executed) => unknown): void {
    const call = this.take(id);
    if (call === undefined) return;
    const executed = this.withdraw(call);
    this.reject(call, error(executed));
  }

  failed(id: number, error: unknown): void {
    const call = this.take(id);
    if (call !== undefined) this.reject(call, error);
  }

  /**
   * Fails every call to a peer. One that is merely out of reach may get them yet, when a link comes up again: what nobody waits for any
   * more is taken back behind them.
   */
  failAll(peer: Peer, error: (executed: Executed) => RpcError, isGone = false): void {
    for (const id of this.calls.ids((call) => call.peer === peer)) {
      const call = this.take(id);
      if (call === undefined) continue;
      let executed = this.stage(call);
      if (call.seq === 0) call.withdrawn = true;
      if (executed === 'no') this.undelivered(call);
      else if (!isGone && peer.state !== 'gone') executed = this.withdraw(call);
      this.reject(call, error(executed));
    }
  }

  /** A peer takes no more calls: those without a number have certainly not run there, and another worker may do them. */
  drained(peer: Peer): void {
    for (const id of this.calls.ids((call) => call.peer === peer && call.seq === 0)) {
      const call = this.take(id);
      if (call === undefined) continue;
      call.withdrawn = true;
      this.undelivered(call);
      this.reject(call, leaving(peer.worker));
    }
  }

  /** Fails every call there is. */
  failEverything(error: (executed: Executed, peer: Peer) => unknown): void {
    for (const id of this.calls.ids(() => true)) {
      const call = this.take(id);
      if (call !== undefined) this.reject(call, error(this.stage(call), call.peer));
    }
  }

  close(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.timerAt = Infinity;
  }

  private open(
    peer: Peer,
    what: Request,
    form: CallForm,
    answer: Answer,
    followed: Followed | undefined,
  ): PendingCall | undefined {
    const { options } = what;
    const follower = followed?.settled === undefined ? undefined : followed;
    // What is encoded already has drawn what its header entries stand for.
    const encoded = what.message?.header;
    const parent = ambient().call;
    const within = parent instanceof InboundCall && parent.state === 'running' ? parent : undefined;
    let call: PendingCall;
    try {
      const timeoutMs = this.timeout(options, form.defaultTimeoutMs);
      const now = this.environment.now();
      call = new PendingCall(peer, form, timeoutMs, now, answer, within);
      if (this.callSites) call.site = callSite(form.above);
      if (follower !== undefined) call.follower = follower;
      const { deadline } = call;
      this.checkSignal(options?.signal, peer);
      if (deadline - now < 1) throw timedOut(timeoutMs, 'no', peer.worker);
      this.checkPeer(peer);
      call.id = this.calls.open(call, deadline);
      if (call.id === 0) throw new RpcError('resource-exhausted', 'too many calls are open', { peer: peer.worker });
    } catch (error) {
      this.takeBack(peer, encoded);
      nameCall(error, form.label.name, peer.worker, callSite(form.above));
      follower?.settled?.({ error });
      answer.reject(error);
      return undefined;
    }
    call.header = encoded;
    if (within !== undefined) within.origin.slots.callOut(within);
    this.environment.observers.current?.called?.(call);
    try {
      this.watch(call, options?.signal);
      const delayMs = this.faults.request(what.type);
      const flags = call.mode === 'stream' ? FrameFlag.STREAM : 0;
      if (delayMs > 0) this.later(call, what, delayMs, flags);
      else this.write(call, what, flags);
      if (call.deadline < this.timerAt) this.arm(call.deadline);
      followed?.started?.((reason) => this.abort(call.id, reason));
      return call;
    } catch (error) {
      const taken = this.take(call.id);
      if (taken !== undefined) {
        this.undelivered(taken);
        taken.site ??= callSite(form.above);
        this.reject(
          taken,
          unsent(error, {
            what: 'the arguments',
            name: form.label.name,
            to: peer.worker,
            self: this.environment.self,
            executed: 'no',
          }),
        );
      }
      return undefined;
    }
  }

  private write(call: PendingCall, what: Request, flags: number): void {
    if (what.message === undefined) {
      this.writer.writeCall(call, flags, what.type, what.name, what.args, what.options);
      return;
    }
    if (what.raw === true) call.raw = true;
    this.writer.writeMessage(call, flags, what.message, what.options);
  }

  /** An injected delay: what is sent is what the arguments are now, and it goes later, if anybody still wants it. */
  private later(call: PendingCall, what: Request, delayMs: number, flags: number): void {
    const { peer } = call;
    const message = what.message ?? encodeCallMessage(this.environment, peer.worker, what.type, what.name, what.args);
    call.header = message.header;
    call.heldBack = true;
    if (what.raw === true) call.raw = true;
    const kept = this.writer.keep(peer, message);
    this.faults.after(delayMs, () => {
      const oneway = (flags & FrameFlag.ONEWAY) !== 0;
      try {
        if (oneway) this.checkPeer(peer);
        if (oneway || this.calls.get(call.id) === call) this.writer.writeKept(call, flags, kept, what.options);
        else kept.plan?.release();
      } catch (error) {
        if (oneway) this.undelivered(call);
        else this.failed(call.id, error);
      }
    });
  }

  private deliver(call: PendingCall, arrived: IncomingFrame, tensors: Tensor[]): void {
    const { peer } = call;
    const { hasResponseHooks, wantsPlainResponses } = this.environment.extensions;
    const hooks = !call.raw && hasResponseHooks;
    if (call.mode === 'message' || (hooks && (wantsPlainResponses || !isPlainReply(arrived.messageType)))) {
      let message = messageOf(arrived, tensors);
      if (hooks) message = this.environment.extensions.response(peer.worker, message);
      if (call.mode === 'message') this.resolve(call, message, message);
      else this.resolve(call, this.decode(peer, message.payload, 0, message.payload.length, message.tensors), message);
      return;
    }
    this.resolve(call, this.decode(peer, arrived.bytes, arrived.start, arrived.end, tensors), undefined);
  }

  private decode(peer: Peer, bytes: Uint8Array, start: number, end: number, tensors: readonly Tensor[]): unknown {
    const value = this.decoding.read(this.environment.codec, peer.worker, bytes, start, end, tensors);
    // Results are handed over at once; what settles later is the references' own affair.
    const pending = this.decoding.take();
    if (pending.length > 0) for (const promise of pending) promise.catch(ignore);
    return value;
  }

  private item(call: PendingCall, stream: StreamAnswer, arrived: IncomingFrame, tensors: Tensor[]): void {
    try {
      if (call.follower?.gradless === true) for (const tensor of tensors) tensor.requiresGrad = false;
      const value = this.decode(call.peer, arrived.bytes, arrived.start, arrived.end, tensors);
      stream.item(value, arrived.seq, freeing(this.decoding.takeUnclaimed(), tensors));
    } catch (error) {
      this.cancel(call.id, () => this.unread(error, call));
    } finally {
      for (const done of arrived.done) done();
    }
  }

  private unread(error: unknown, { peer, label }: PendingCall): RpcError {
    return decodeFailed(error, peer, {
      executed: 'yes',
      self: this.environment.self,
      what: 'result',
      name: label.name,
    });
  }

  private take(id: number): PendingCall | undefined {
    const call = this.calls.take(id);
    if (call === undefined) return undefined;
    call.unwatch();
    if (call.parent !== undefined) call.parent.origin.slots.callBack(call.parent);
    return call;
  }

  private resolve(call: PendingCall, value: unknown, reply: Message | undefined): void {
    this.decoding.takeUnclaimed(); // what is in the value is the program's
    this.environment.observers.current?.settled?.(call, undefined);
    call.follower?.settled?.(reply === undefined ? {} : { reply });
    call.answer.resolve(value);
  }

  private reject(call: PendingCall, error: unknown): void {
    this.failures++;
    nameCall(error, call.label.name, call.peer.worker, call.site);
    this.environment.observers.current?.settled?.(call, error);
    call.follower?.settled?.({ error });
    call.answer.reject(error);
  }

  /** Takes back what the peer need not have: an unsent frame, storages on their way. Says whether the handler can have run. */
  private withdraw(call: PendingCall): Executed {
    if (call.seq === 0) {
      call.withdrawn = true;
      this.undelivered(call);
      return 'no';
    }
    const { sender } = call.peer;
    const incomplete = call.hasBodies && sender.dropBodies(call.seq);
    sender.sendId(FrameKind.CANCEL, call.id);
    return incomplete ? 'no' : 'maybe';
  }

  /** What has a number is kept for a link that may yet come up: only what has none, or came too late for one that leaves, certainly never runs. */
  private stage(call: PendingCall): Executed {
    return call.seq === 0 || call.seq > call.peer.lastServed ? 'no' : 'maybe';
  }

  private undelivered(call: PendingCall): void {
    this.takeBack(call.peer, call.header);
  }

  private takeBack(peer: Peer, header: RpcMessage['header']): void {
    if (header !== undefined) this.environment.extensions.undelivered(peer.worker, header);
  }

  private checkPeer(peer: Peer): void {
    if (this.environment.refusal === 'fenced') throw new RpcError('fenced', 'the group has removed this worker');
    if (peer.state === 'gone')
      throw new RpcError('peer-died', `worker '${peer.worker.name}' is gone`, { peer: peer.worker });
    if (peer.draining) throw leaving(peer.worker);
  }

  private checkSignal(signal: AbortSignal | undefined, peer: Peer): void {
    if (signal === undefined) return;
    checkSignal(signal);
    if (signal.aborted) throw aborted(signal.reason, 'no', peer.worker);
  }

  private watch(call: PendingCall, signal: AbortSignal | undefined): void {
    if (signal === undefined) return;
    call.watch(signal, () => this.abort(call.id, signal.reason));
  }

  private abort(id: number, reason: unknown): void {
    const peer = this.calls.get(id)?.peer;
    this.cancel(id, (executed) => aborted(reason, executed, peer?.worker));
  }

  private arm(at: number): void {
    clearTimeout(this.timer);
    this.timerAt = at;
    const wait = Math.max(1, Math.min(Math.ceil(at - this.environment.now()), MAX_SLEEP_MS));
    this.timer = runAtRoot(() => setTimeout(() => this.sweep(), wait));
    unref(this.timer);
  }

  private sweep(): void {
    this.timer = undefined;
    this.timerAt = Infinity;
    for (const id of this.calls.expired(this.environment.now())) {
      const call = this.calls.get(id);
      if (call !== undefined) this.cancel(id, (executed) => timedOut(call.timeoutMs, executed, call.peer.worker));
    }
    const next = this.calls.nextDeadline();
    if (next !== Infinity) this.arm(next);
  }
}

function ignore(): void {}

const NOBODY: Answer = { resolve: ignore, reject: ignore };
