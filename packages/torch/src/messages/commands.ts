/** @file What workers of a torch group tell each other: every request and response, as plain values. */
import type { TorchId } from '../values/objects.ts';
import type { TensorLike, TravellingTensor } from '../values/opaque-tensor.ts';

/** A pickle of Python's side, unread: it may name what is not offered here, while the message around it is understood. */
interface Pickled {
  readonly pickled: Uint8Array;
  /** What the pickle refers to by place. */
  readonly tensors: readonly TravellingTensor[];
}

/** What a call by schema or of a TorchScript function calls. */
export type ScriptCallee =
  | { /** 'aten::add.Tensor(Tensor self, …) -> Tensor' */ readonly schema: string }
  | { /** '__torch__.module.function' */ readonly function: string; readonly isAsync: boolean };

/** An RRef that a call creates, and the caller's own handle on it. */
export interface Creation {
  readonly rref: TorchId;
  readonly fork: TorchId;
}

/** A message inside of another: its type, and its body. The tensors are the outer message's. */
export interface Inner {
  readonly type: number;
  readonly body: Uint8Array;
  readonly tensors: readonly TravellingTensor[];
}

/** What a message tells about the autograd context that it belongs to. */
interface AutogradMetadata {
  readonly context: bigint;
  /** Names the pair of send and receive functions. */
  readonly message: bigint;
  /** The worker that sent it. */
  readonly from: number;
  /** Where the sender wants tensors that are on a device. */
  readonly devices: ReadonlyMap<string, string>;
}

/** One event of torch's legacy profiler. */
export interface TorchEvent {
  /** 0 a mark, 1 a beginning, 2 an end, 3 memory taken or given back. */
  readonly kind: number;
  readonly name: string;
  readonly thread: number;
  /** The same at the beginning and the end of one range. */
  readonly handle: number;
  readonly node: number;
  readonly cpuBytes: number | bigint;
  readonly cpuNs: number | bigint;
  readonly hasCuda: boolean;
  readonly cudaBytes: number | bigint;
  readonly cudaDevice: number;
  readonly cudaUs: number | bigint;
  /** Of the inputs, where they were asked for. */
  readonly shapes: readonly (readonly number[])[];
}

export interface ScriptCall {
  readonly kind: 'script-call';
  readonly callee: ScriptCallee;
  readonly args: readonly unknown[];
}

export interface ScriptRemoteCall extends Creation {
  readonly kind: 'script-remote-call';
  readonly callee: ScriptCallee;
  readonly args: readonly unknown[];
}

export interface PythonCall extends Pickled {
  readonly kind: 'python-call';
  readonly isAsync: boolean;
}

export interface PythonRemoteCall extends Pickled, Creation {
  readonly kind: 'python-remote-call';
  readonly isAsync: boolean;
}

/** Asks the owner of an RRef for its value: by script for those that are no Python object. */
export interface FetchCall {
  readonly kind: 'script-rref-fetch-call' | 'python-rref-fetch-call';
  readonly rref: TorchId;
  /** The worker that asks. */
  readonly from: number;
}

/** A user lets go of its fork, or tells the owner of it. */
interface ForkMessage extends Creation {
  readonly kind: 'rref-user-delete' | 'rref-fork-request';
}

/** The owner knows of the child: the parent may go. */
export interface ChildAccept {
  readonly kind: 'rref-child-accept';
  readonly fork: TorchId;
}

/** A message in an autograd context. */
export interface ForwardMessage extends AutogradMetadata {
  readonly kind: 'forward-autograd-req' | 'forward-autograd-resp';
  readonly inner: Inner;
}

export interface BackwardRequest {
  readonly kind: 'backward-autograd-req';
  readonly gradients: readonly TensorLike[];
  readonly context: bigint;
  readonly message: bigint;
  readonly retainGraph: boolean;
}

export interface CleanupRequest {
  readonly kind: 'cleanup-autograd-context-req';
  readonly context: bigint;
}

export interface RRefBackwardRequest {
  readonly kind: 'rref-backward-req';
  readonly rref: TorchId;
  readonly context: bigint;
  readonly retainGraph: boolean;
}

export interface ProfilingRequest {
  readonly kind: 'run-with-profiling-req';
  readonly inner: Inner;
  readonly profile: TorchId;
  /** torch's number of the profiler's state: 1 records times of the cpu. */
  readonly state: number;
  readonly shapes: boolean;
  readonly memory: boolean;
}

export interface ProfilingResponse {
  readonly kind: 'run-with-profiling-resp';
  readonly inner: Inner;
  readonly profile: TorchId;
  readonly events: readonly TorchEvent[];
}

/** The result of a call by schema, or a fetched value of such a call. */
export interface ScriptResult {
  readonly kind: 'script-ret' | 'script-rref-fetch-ret';
  readonly value: unknown;
}

/** The result of a Python function, or a fetched Python object. */
export interface PythonResult extends Pickled {
  readonly kind: 'python-ret' | 'python-rref-fetch-ret';
}

/** The owner of an RRef has begun to make its value. */
interface RemoteRet extends Creation {
  readonly kind: 'remote-ret';
}

/** Answers that say no more than that. */
export interface Acknowledgement {
  readonly kind: 'rref-ack' | 'backward-autograd-resp' | 'cleanup-autograd-context-resp' | 'rref-backward-resp';
}

/** What failed, in words. */
interface ExceptionResponse {
  readonly kind: 'exception';
  readonly text: string;
}

export type TorchRequest =
  | ScriptCall
  | ScriptRemoteCall
  | PythonCall
  | PythonRemoteCall
  | FetchCall
  | ForkMessage
  | ChildAccept
  | ForwardMessage
  | BackwardRequest
  | CleanupRequest
  | RRefBackwardRequest
  | ProfilingRequest;

export type TorchResponse =
  ScriptResult | PythonResult | RemoteRet | Acknowledgement | ForwardMessage | ProfilingResponse | ExceptionResponse;

export type TorchCommand = TorchRequest | TorchResponse;

/** What is in a message beside its id. */
export interface Body {
  readonly type: number;
  readonly body: Uint8Array;
  readonly tensors: readonly TravellingTensor[];
}
