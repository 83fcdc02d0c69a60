/** @file The one extension point of an agent: RRef, distributed autograd and profiling are three of these, and so may be a user's tracing. */
import type { Named, Tensor } from '@backwire/tensor';
import type { CurrentScope } from '@backwire/tensor/internal';
import type { Message, MessageType } from '@backwire/wire';
import type { HeaderEntry } from '@backwire/wire/internal';
import type { RpcAgent } from '../base/rpc-agent.ts';
import type { Observers } from '../base/call-observers.ts';
import type { CallLabel } from '../base/observed-call.ts';
import type { CallOptions, Limits, Logger } from '../base/options.ts';
import type { To, WorkerInfo } from '../base/worker-info.ts';

export type { CallLabel } from '../base/observed-call.ts';

/** A request about to be sent. */
export interface Outgoing {
  readonly to: WorkerInfo;
  readonly message: Message;
  readonly options: CallOptions;
  /** How the program made the call, and of what; for traces. */
  readonly label?: CallLabel;
}

/** What `ExtensionHost.call` may be told besides. */
export interface MessageOptions extends CallOptions {
  /** No request and response hooks. */
  readonly raw?: boolean | undefined;
  readonly label?: CallLabel | undefined;
}

/** How a call ended, for those who follow it. */
export interface CallOutcome {
  readonly reply?: Message;
  readonly error?: unknown;
}

/** What a `request` hook of this project may add to what it returns. */
export interface Followed extends Outgoing {
  /** Called once when the call settles, whatever way, before its promise does. */
  readonly settled?: (outcome: CallOutcome) => void;
  /** Tensors in the items of a stream need no gradients, whatever they did where they come from. */
  readonly gradless?: boolean;
  /** Called once when the call has been opened; `cancel` fails it with `reason`. */
  readonly started?: (cancel: (reason: unknown) => void) => void;
}

/** A message with entries for the header table, which the peer processes at delivery whatever becomes of the message. */
export type RpcMessage = Message & { readonly header?: readonly HeaderEntry[] };

/** A request that arrived. */
export interface Incoming {
  readonly from: WorkerInfo;
  readonly message: Message;
}

/** A value that an extension serialises itself: an RRef inside arguments. */
export interface ExtensionValue {
  /** The name on the wire, the same on both sides. */
  readonly tag: string;
  match(value: unknown): boolean;
  /**
   * What travels instead. `addHeader` puts an entry into the message's header table, processed by `delivered` on the peer whatever
   * becomes of the message itself.
   */
  encode(value: unknown, to: WorkerInfo, addHeader?: (entry: Uint8Array) => void): unknown;
  /** The value again. Promises put into `pending` settle before a handler starts. */
  decode(plain: unknown, from: WorkerInfo, pending?: Promise<unknown>[]): unknown;
  /**
   * What stays the same however often the value is sent, where `encode` gives something new each time: the arguments of a call that comes
   * again are compared by it. @default what `encode` gives
   */
  lasting?(value: unknown): unknown;
  /** Nobody ever gets this value, which `decode` gave: its call never started, or its stream was left. */
  discard?(value: unknown): void;
}

/** What adds to an agent: remote references, autograd and profiling are such, and authorisation or tracing of your own may be. */
export interface Extension {
  /** Peers compare these in the handshake. */
  readonly name: string;
  attach(agent: RpcAgent): ExtensionSession & ExtensionInternals;
}

/** One extension at work in one agent. All hooks are synchronous on the way of a call; only handlers may take their time. */
export interface ExtensionSession {
  /** Wraps an outgoing request. Ambient state is the caller's. */
  request?(call: Outgoing): Outgoing;
  /** Unwraps an incoming request, hands it on, wraps the response. */
  serve?(call: Incoming, next: (call: Incoming) => Promise<Message>): Promise<Message>;
  /** Unwraps a response, before it is decoded; not asked for the items of a stream. */
  response?(from: WorkerInfo, reply: Message): Message;
  /** Requests that this extension answers. */
  readonly messages?: ReadonlyMap<MessageType, (call: Incoming) => Promise<Message>>;
  readonly values?: readonly ExtensionValue[];
  peerDown?(peer: WorkerInfo): void;
  /**
   * Part of a graceful shutdown: resolves when nothing of this extension depends on a peer any more. `deadlineMs` is how many
   * milliseconds are left for it; 0 = no limit.
   */
  drain?(deadlineMs: number): Promise<void>;
  close?(): void;
}

/** A worker in one of its lives. */
export interface Member {
  readonly worker: WorkerInfo;
  readonly incarnation: number;
}

/** Additions to `ExtensionSession` for the extensions of this project. */
export interface ExtensionInternals {
  /** `request` is called only while this slot of the ambient record is set; without it, for every request. */
  readonly requestsWhile?: 'profile' | 'contextId';
  /** `serve` is called only for these message types, and `response` not for plain replies; without it, for every message. */
  readonly wraps?: readonly MessageType[];
  /** Beside `wraps`: while it says true, `serve` is called for every request, outermost. */
  servesAll?(): boolean;
  /** What arrives by `ExtensionHost.control`, in FIFO order with everything else of that peer. */
  readonly controls?: ReadonlyMap<MessageType, (from: WorkerInfo, payload: Uint8Array) => void>;
  /**
   * A header entry arrived; called in FIFO order, whatever becomes of the message. What it returns is called once, when the values of
   * the message have been decoded or certainly never will be.
   */
  delivered?(from: WorkerInfo, entry: Uint8Array): (() => void) | void;
  /** The message of this entry certainly never arrived: undo what `encode` did. */
  undelivered?(to: WorkerInfo, entry: Uint8Array): void;
  peerJoined?(peer: WorkerInfo, incarnation: number): void;
  /** Called after the sessions with those that are gone have been cut; `members` includes this worker. */
  viewChanged?(epoch: number, members: readonly Member[], dead: readonly Member[], left: readonly Member[]): void;
  /** The group has removed this worker: nothing comes from the others any more, nor goes to them. Its own calls have been failed with this text. */
  fenced?(why: string): void;
  debugInfo?(): Record<string, number>;
  /** What whoever looks at this worker from outside sees: plain JSON, bounded, no arguments and no results. */
  inspect?(): Record<string, unknown>;
  /** What is still held at the end, one line each. */
  leaks?(): string[];
}

/** What `attach` really receives: the agent and what extensions need of it. */
export interface ExtensionHost extends RpcAgent {
  readonly self: WorkerInfo;
  /** This life of this worker, a u32; a restarted worker has a higher one. */
  readonly incarnation: number;
  /** How many lives of this name the store has seen before this one. */
  readonly incarnationIndex: number;
  resolve(to: To): WorkerInfo;
  /** All other members of the view. */
  peers(): readonly WorkerInfo[];
  incarnationOf(worker: WorkerInfo): number;
  /** Whether `worker` is a member of the current view (an unreachable one still is). */
  isAlive(worker: WorkerInfo): boolean;
  /** Whether `worker` is a member that this worker has not given up reaching. */
  isReachable(worker: WorkerInfo): boolean;
  /**
   * Sends a request and resolves with the reply; runs the request and response hooks unless `raw`.
   * Rejects with an RpcError or the rebuilt remote error.
   */
  call(to: WorkerInfo, message: RpcMessage, options?: MessageOptions): Promise<Message>;
  /** Exactly once, FIFO per pair, no reply, no ambient deadline; arrives at the peer's `controls` handler of that type. */
  control(to: WorkerInfo, type: MessageType, payload: Uint8Array): void;
  /**
   * A call of a definition as a message: SCRIPT_CALL for tensor operations, PYTHON_CALL for all else. With `extra`, which is called once
   * the arguments are written, the payload is wrapped (see `writeWrappedPayload`), at no cost of its own.
   */
  encodeCall(to: WorkerInfo, fn: Named, args: readonly unknown[], extra?: () => Uint8Array): RpcMessage;
  /** Runs a call that arrived as a message made by `encodeCall`, and answers with its reply. */
  runCall(from: WorkerInfo, message: Message): Promise<RpcMessage>;
  /** The same, answering with the value itself, which stays here. */
  runValue(from: WorkerInfo, message: Message): Promise<unknown>;
  encodeValue(value: unknown, to: WorkerInfo): { bytes: Uint8Array; tensors: Tensor[]; header: readonly HeaderEntry[] };
  /** Promises that the values want settled before they are used are put into `pending`; what came in the message is then `scope`'s. */
  decodeValue(
    bytes: Uint8Array,
    tensors: readonly Tensor[],
    from: WorkerInfo,
    pending?: Promise<unknown>[],
    scope?: CurrentScope,
  ): unknown;
  /** Another extension of this agent. */
  session(extension: string): (ExtensionSession & ExtensionInternals) | undefined;
  /** The extensions that `peer` named in its handshake; empty while it has not been met. */
  extensionsOf(peer: WorkerInfo): ReadonlySet<string>;
  /** The time a call with these options may take: its own, the ambient deadline's rest, the default. 0 = no limit. */
  timeoutMs(options?: CallOptions): number;
  readonly limits: Readonly<Limits>;
  /** Who watches calls. */
  readonly observers: Observers;
  readonly logger: Logger;
  /** A monotonic time in milliseconds. */
  now(): number;
}
