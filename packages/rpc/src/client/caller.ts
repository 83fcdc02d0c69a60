/** @file Outgoing calls: what the hooks make of them, opened, written, with the delays that are injected. */
import { callSite } from '../base/program-lines.ts';
import { ambient, scopeHere } from '@backwire/tensor/internal';
import { FrameFlag, MessageType } from '@backwire/wire/internal';
import { Answers } from './answers.ts';
import { aborted, leaving, timedOut } from './call-errors.ts';
import { CallSites, nameCall } from './call-sites.ts';
import { CallWriter } from './call-writer.ts';
import { OpenCalls } from './open-calls.ts';
import { PendingCall, type Answer, type CallForm } from './pending-call.ts';
import { ARRIVE } from '../protocol/meetings.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import { RpcError } from '../base/errors.ts';
import type { Followed, RpcMessage } from '../extensions/extension.ts';
import { InboundCall } from '../server/inbound-call.ts';
import { CallMessage, encodeCallMessage } from '../extensions/call-message.ts';
import { CALL_OPTIONS, checkSignal, checkTimeoutMs, refuseUnknown, type CallOptions } from '../base/options.ts';
import type { FaultInjector } from '../session/fault-injection.ts';
import type { Peer } from '../session/peer.ts';
import { unsent } from '../base/unsent.ts';

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
  readonly calls: OpenCalls;
  readonly answers: Answers;
  /** Which calls note where they are made. */
  callSites = new CallSites(false);
  private readonly writer: CallWriter;
  private readonly faults: FaultInjector;
  private readonly environment: ExtendedEnvironment;

  constructor(environment: ExtendedEnvironment, faults: FaultInjector, defaultTimeoutMs: number) {
    this.environment = environment;
    this.calls = new OpenCalls(environment);
    this.answers = new Answers(environment, this.calls);
    this.writer = new CallWriter(environment);
    this.faults = faults;
    this.defaultTimeoutMs = defaultTimeoutMs;
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
      if (lazy.encoded) this.calls.takeBack(peer, lazy.header);
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
        this.calls.takeBack(peer, message.header);
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
      this.calls.undelivered(call);
      if (followed !== undefined) this.environment.extensions.settled(followed, { error });
      throw error;
    }
    // Nobody hears of its end: whoever follows it has seen all there is.
    if (followed !== undefined) this.environment.extensions.settled(followed, {});
  }

  /** The time a call may take: its own, no more than the rest of the handler's it is made in. 0 = no limit. @throws RangeError */
  timeout(options: CallOptions | undefined, fallback: number = this.defaultTimeoutMs): number {
    return options?.timeoutMs === undefined ? fallback : checkTimeoutMs(options.timeoutMs);
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
    let call: PendingCall | undefined;
    try {
      const timeoutMs = this.timeout(options, form.defaultTimeoutMs);
      const now = this.environment.now();
      call = new PendingCall(peer, form, timeoutMs, now, answer, within);
      call.site = this.callSites.note(form.above, now);
      if (follower !== undefined) call.follower = follower;
      const scope = scopeHere();
      if (scope !== undefined) call.scope = scope;
      const { deadline } = call;
      this.checkSignal(options?.signal, peer);
      if (deadline - now < 1) throw timedOut(timeoutMs, 'no', peer.worker);
      this.checkPeer(peer);
      this.calls.add(call);
    } catch (error) {
      this.calls.takeBack(peer, encoded);
      if (call !== undefined && error instanceof RpcError) {
        // Well made, and failed: it counts as those do that fail on their way.
        call.site = callSite(form.above);
        this.environment.observers.current?.called?.(call);
        this.calls.reject(call, error);
        return undefined;
      }
      nameCall(error, form.label.name, peer.worker, callSite(form.above));
      if (follower !== undefined) this.environment.extensions.settled(follower, { error });
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
      this.calls.watchDeadline(call);
      if (followed !== undefined)
        this.environment.extensions.started(followed, (reason) => this.calls.abort(call.id, reason));
      return call;
    } catch (error) {
      const taken = this.calls.take(call.id);
      if (taken !== undefined) {
        this.calls.undelivered(taken);
        taken.site = callSite(form.above);
        this.calls.reject(
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
        if (oneway) this.calls.undelivered(call);
        else this.calls.failed(call.id, error);
      }
    });
  }

  private checkPeer(peer: Peer): void {
    if (this.environment.refusal === 'fenced') throw new RpcError('fenced', this.environment.whyFenced);
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
    call.watch(signal, () => this.calls.abort(call.id, signal.reason));
  }
}

function ignore(): void {}

const NOBODY: Answer = { resolve: ignore, reject: ignore };
