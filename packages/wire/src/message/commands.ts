/** @file Every message type as a typed object: a union with one member per type. */
import { type Tensor } from '@backwire/tensor';
import { MessageType } from './message-type.ts';

/** An id that no other worker uses: PyTorch's GloballyUniqueId, with the incarnation that made it. */
export interface GlobalId {
  /** Worker. */
  readonly createdOn: number;
  /** Below 2^53. */
  readonly localId: bigint;
  /** @default 0 */
  readonly incarnation?: number | undefined;
}

/** The call inside SCRIPT_CALL, PYTHON_CALL and the calls that create an RRef. */
interface CallFieldsOf {
  /** Name of the definition. */
  readonly function: string;
  readonly args: readonly unknown[];
}
interface Fork {
  readonly rrefId: GlobalId;
  readonly forkId: GlobalId;
}
interface Fetch {
  readonly rrefId: GlobalId;
  /** Who asks. */
  readonly fromWorkerId: number;
}
interface Value {
  readonly value: unknown;
}
/** A worker in one of its lives. */
export interface MemberId {
  readonly worker: number;
  readonly incarnation: number;
}
/** An autograd context: its public id, `worker << 48 | counter`, and the life of the worker that made it (default 0). */
interface OfContext {
  readonly contextId: bigint;
  readonly incarnation?: number | undefined;
}
/** The member that began a pass, and its counter. */
interface PassNumber extends MemberId {
  readonly number: number;
}
/** A send function: the worker that has it, and the id of the message it belongs to, on that worker. */
export interface FunctionId {
  readonly worker: number;
  readonly messageId: bigint;
}
/** What a message carries while an autograd context is current; ids are `worker << 48 | counter`. */
export interface AutogradWrap extends OfContext {
  /** Agents send the counter alone: the worker is whoever sends the message. */
  readonly messageId: bigint;
  /** Who sends it. Agents leave it out: the connection says it. */
  readonly fromWorkerId?: number | undefined;
  /** The sender's device map. Agents leave it out: the group's view says it. */
  readonly deviceMap?: Readonly<Record<string, string>> | undefined;
  /** The counter of the creator's oldest context that lives, as far as the sender knows. @default 0 */
  readonly oldestLive?: number | undefined;
  /** Whether there is a send function: the message's tensors that require grad are its inputs, in order. @default false */
  readonly graph?: boolean | undefined;
  /** The call that the message belongs to, by the ordinals of the calls that led to it. @default [] */
  readonly path?: readonly number[] | undefined;
  /** The send functions that the message's gradients come to beyond its own, where they are known. */
  readonly reach?: readonly FunctionId[] | undefined;
  /** Passes of the context that the sender knows to have failed: the members that began them, and their counters. @default [] */
  readonly failedPasses?: readonly PassNumber[] | undefined;
  /** The message inside. Its tensors are those of the wrapped message. */
  readonly wrapped: Command;
}
/** A message of a backward pass. */
interface OfPass extends OfContext {
  /** The member that began the pass, and its counter. @default all zero */
  readonly pass?: PassNumber | undefined;
}
interface PassStart extends OfPass {
  readonly retainGraph: boolean;
  /** Mode FAST. @default false */
  readonly fast?: boolean | undefined;
  /** Earlier passes of the same member in this context that failed, by their counters. @default [] */
  readonly failed?: readonly number[] | undefined;
  /** All send functions that the roots reach, where they are known. */
  readonly plan?: readonly FunctionId[] | undefined;
}
/** Gradients for one send function: one per tensor that was sent; null = no gradient. */
export interface GradientsOf {
  readonly messageId: bigint;
  readonly gradients: readonly (Tensor | null)[];
}
/** How a backward pass failed. */
export interface WireFailure {
  /** The code of an RpcError; empty when a function of the graph threw. */
  readonly code: string;
  /** The class that was thrown. */
  readonly name: string;
  readonly message: string;
  /** The worker it is about. */
  readonly peer?: { readonly id: number; readonly name: string } | undefined;
}
interface Outcome {
  readonly failure?: WireFailure | undefined;
  /** Gradients for whoever sent the message that is answered. @default [] */
  readonly returned?: readonly GradientsOf[] | undefined;
}
/** What a member knows of the others. What is missing is nobody, or no. */
interface WireReport {
  /** Of the view that the store had last, as far as the sender knows. */
  readonly epoch: number;
  /** The store answers the sender. */
  readonly store?: boolean | undefined;
  readonly hears?: readonly MemberId[] | undefined;
  readonly doubts?: readonly MemberId[] | undefined;
  readonly proved?: readonly MemberId[] | undefined;
  readonly gone?: readonly MemberId[] | undefined;
  readonly decided?: readonly MemberId[] | undefined;
  readonly confirmed?: readonly MemberId[] | undefined;
  /** The receiver is to report too. */
  readonly asks?: boolean | undefined;
  /** That view, as the store had it. */
  readonly view?: Uint8Array | undefined;
}
/** A failed call. What is missing was not said. */
export interface WireException {
  readonly message: string;
  /** The code of an RpcError. */
  readonly code?: string | undefined;
  /** The class of what the handler threw; missing for a failure of the system. */
  readonly name?: string | undefined;
  readonly stack?: string | undefined;
  /** Whether the handler ran. */
  readonly executed?: 'no' | 'maybe' | 'yes' | undefined;
  readonly retryable?: boolean | undefined;
  /** The worker it is about, when that is not the sender. */
  readonly peerName?: string | undefined;
  readonly peer?: MemberId | undefined;
  /** An encoded value: own properties of the error that its class asked to keep. */
  readonly details?: Uint8Array | undefined;
  /** A `Value`, encoded: the error's own enumerable properties that are values. */
  readonly properties?: Uint8Array;
  readonly cause?: WireException | undefined;
}
/** One event of a remote profile; times are microseconds. */
export interface WireProfilerEvent {
  readonly name: string;
  readonly node: number;
  readonly isRemote: boolean;
  readonly startUs: number;
  readonly durationUs: number;
  readonly shapes: readonly (readonly number[])[];
  readonly bytes: number;
  /** The event that it is in, by its position in the list and one more. @default 0: none */
  readonly parent?: number | undefined;
  /** What it is: 0 an operation, 1 a scope, 2 a call, 3 a handler. @default 0 */
  readonly thread?: number | undefined;
}

/** One member per request type. */
export type RequestCommand =
  | ({ readonly kind: 'script-call' } & CallFieldsOf)
  | ({ readonly kind: 'python-call' } & CallFieldsOf)
  | ({ readonly kind: 'script-remote-call' } & CallFieldsOf & Fork)
  | ({ readonly kind: 'python-remote-call' } & CallFieldsOf & Fork)
  | ({ readonly kind: 'script-rref-fetch-call' } & Fetch)
  | ({ readonly kind: 'python-rref-fetch-call' } & Fetch)
  | { readonly kind: 'rref-user-delete'; readonly rrefId: GlobalId; readonly forkId: GlobalId }
  | { readonly kind: 'rref-user-delete'; readonly forkIds: readonly GlobalId[] }
  | {
      readonly kind: 'rref-fork-request';
      readonly rrefId: GlobalId;
      readonly forkId: GlobalId;
      /** Who passed the handle on. */
      readonly parent?: MemberId | undefined;
    }
  | { readonly kind: 'rref-child-accept'; readonly forkId: GlobalId }
  | {
      readonly kind: 'rref-create-failed';
      readonly rrefId: GlobalId;
      readonly forkId: GlobalId;
      readonly code: string;
      readonly message: string;
    }
  | ({ readonly kind: 'forward-autograd-req' } & AutogradWrap)
  | ({ readonly kind: 'backward-autograd-req' } & PassStart & GradientsOf)
  | ({ readonly kind: 'autograd-discover-req'; readonly messageIds: readonly bigint[] } & PassStart)
  | ({ readonly kind: 'autograd-abort'; readonly failure: WireFailure } & OfPass)
  | ({ readonly kind: 'cleanup-autograd-context-req'; readonly oldestLive?: number | undefined } & OfContext)
  | ({ readonly kind: 'autograd-adopt-req'; readonly oldestLive?: number | undefined } & OfContext)
  | {
      readonly kind: 'fence';
      readonly epoch: number;
      readonly dead?: readonly MemberId[] | undefined;
      /** How many members of this view the others have decided to be gone. @default 0 */
      readonly decisions?: number | undefined;
    }
  | { readonly kind: 'fence-ack'; readonly epoch: number; readonly decisions?: number | undefined }
  | ({ readonly kind: 'report' } & WireReport)
  | { readonly kind: 'fence-done'; readonly epoch: number; readonly dead: readonly MemberId[] }
  | { readonly kind: 'drain'; readonly lastSeq: number; readonly graceMs: number; readonly reason: string }
  | { readonly kind: 'bye'; readonly reason: string }
  | {
      readonly kind: 'run-with-profiling-req';
      readonly profilingId: GlobalId;
      readonly recordShapes: boolean;
      readonly profileMemory: boolean;
      readonly wrapped: Command;
    }
  | {
      readonly kind: 'rref-backward-req';
      readonly rrefId: GlobalId;
      readonly contextId: bigint;
      readonly retainGraph: boolean;
    };

/** One member per response type. */
export type ResponseCommand =
  | ({ readonly kind: 'script-ret' } & Value)
  | ({ readonly kind: 'python-ret' } & Value)
  | ({ readonly kind: 'script-rref-fetch-ret' } & Value)
  | ({ readonly kind: 'python-rref-fetch-ret' } & Value)
  | ({ readonly kind: 'remote-ret' } & Fork)
  | {
      readonly kind: 'rref-ack';
      readonly forkId?: GlobalId | undefined;
      /** The owner did not register it, for this reason. */
      readonly refused?: { readonly code: string; readonly message: string } | undefined;
    }
  | ({ readonly kind: 'forward-autograd-resp' } & AutogradWrap)
  | ({ readonly kind: 'backward-autograd-resp' } & Outcome)
  | ({ readonly kind: 'autograd-discover-resp' } & Outcome)
  | { readonly kind: 'cleanup-autograd-context-resp' }
  | {
      readonly kind: 'run-with-profiling-resp';
      readonly profilingId: GlobalId;
      readonly events: readonly WireProfilerEvent[];
      /** Events that were dropped because there were too many. @default 0 */
      readonly dropped?: number | undefined;
      readonly wrapped: Command;
    }
  | { readonly kind: 'rref-backward-resp' }
  | ({ readonly kind: 'exception' } & WireException);

/** Any message, by kind: the name of its type in kebab case. */
export type KnownCommand = RequestCommand | ResponseCommand;

/** Any message as an object. `KnownCommand` is the exact union; this is what the functions accept from programs that build one. */
export type Command = { readonly kind: string } & Readonly<Record<string, unknown>>;

/** The message type of each kind. */
export const COMMAND_TYPES = Object.fromEntries(
  Object.entries(MessageType).map(([name, type]) => [name.toLowerCase().replaceAll('_', '-'), type]),
) as Readonly<Record<KnownCommand['kind'], MessageType>>;
