/** @file Every message type as a typed object: a union with one member per type. */
import { type Tensor } from '@backwire/tensor';
import { type MessageType } from './message-type.ts';

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
export interface CallFieldsOf {
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
/** What a message carries while an autograd context is current; ids are `worker << 48 | counter`. */
export interface AutogradWrap {
  readonly contextId: bigint;
  readonly messageId: bigint;
  readonly fromWorkerId: number;
  readonly deviceMap: Readonly<Record<string, string>>;
  /** The message inside. Its tensors are those of the wrapped message. */
  readonly wrapped: Command;
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
  | { readonly kind: 'rref-fork-request'; readonly rrefId: GlobalId; readonly forkId: GlobalId }
  | { readonly kind: 'rref-child-accept'; readonly forkId: GlobalId }
  | ({ readonly kind: 'forward-autograd-req' } & AutogradWrap)
  | {
      readonly kind: 'backward-autograd-req';
      readonly contextId: bigint;
      readonly messageId: bigint;
      readonly retainGraph: boolean;
      /** One per tensor that was sent; null = no gradient. */
      readonly gradients: readonly (Tensor | null)[];
    }
  | { readonly kind: 'cleanup-autograd-context-req'; readonly contextId: bigint }
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
  | { readonly kind: 'rref-ack' }
  | ({ readonly kind: 'forward-autograd-resp' } & AutogradWrap)
  | { readonly kind: 'backward-autograd-resp' }
  | { readonly kind: 'cleanup-autograd-context-resp' }
  | {
      readonly kind: 'run-with-profiling-resp';
      readonly profilingId: GlobalId;
      readonly events: readonly WireProfilerEvent[];
      readonly wrapped: Command;
    }
  | { readonly kind: 'rref-backward-resp' }
  | { readonly kind: 'exception'; readonly message: string };

/** Any message, by kind: the name of its type in kebab case. */
export type KnownCommand = RequestCommand | ResponseCommand;

/** Any message as an object. `KnownCommand` is the exact union; this is what the functions accept from programs that build one. */
export type Command = { readonly kind: string } & Readonly<Record<string, unknown>>;

/** The kind of each message type. */
export const COMMAND_TYPES: Readonly<Record<KnownCommand['kind'], MessageType>> = {
  'script-call': 0x100,
  'script-ret': 0x201,
  'python-call': 0x102,
  'python-ret': 0x203,
  'script-remote-call': 0x104,
  'python-remote-call': 0x105,
  'remote-ret': 0x206,
  'script-rref-fetch-call': 0x107,
  'python-rref-fetch-call': 0x108,
  'script-rref-fetch-ret': 0x209,
  'python-rref-fetch-ret': 0x20a,
  'rref-user-delete': 0x10b,
  'rref-fork-request': 0x10c,
  'rref-child-accept': 0x10d,
  'rref-ack': 0x20e,
  'forward-autograd-req': 0x10f,
  'forward-autograd-resp': 0x210,
  'backward-autograd-req': 0x111,
  'backward-autograd-resp': 0x212,
  'cleanup-autograd-context-req': 0x113,
  'cleanup-autograd-context-resp': 0x214,
  'run-with-profiling-req': 0x115,
  'run-with-profiling-resp': 0x216,
  'rref-backward-req': 0x117,
  'rref-backward-resp': 0x218,
  exception: 0x237,
};
