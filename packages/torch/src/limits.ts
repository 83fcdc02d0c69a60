/** @file Bounds of what torch's side may send, each with its reason. A length is compared with its limit before memory is taken for it. */
import { DEFAULT_WIRE_LIMITS } from '@backwire/wire/internal';

/** All sizes are bytes unless the name says otherwise. */
export interface TorchLimits {
  /** A frame before the pipe is open: a name and an offer. torch's own are under 1 KiB. @default 64 KiB */
  readonly maxHandshakeBytes: number;
  /** Entries of one map or array of a handshake: transports, channels, devices, connections. @default 256 */
  readonly maxHandshakeEntries: number;
  /** A name or address in a handshake. @default 4 KiB */
  readonly maxNameBytes: number;
  /** Connections that a pipe's handshake announced and that have not come yet, over all pipes of a listener. @default 4096 */
  readonly maxAwaitedConnections: number;
  /** The descriptor of one message: about twenty bytes a tensor. @default 4 MiB */
  readonly maxDescriptorBytes: number;
  /** The body of one message. @default 256 MiB */
  readonly maxBodyBytes: number;
  /** The tensor table of one message: about a hundred bytes a tensor. @default 16 MiB */
  readonly maxTableBytes: number;
  /** Tensors of one message, and storages. @default 65 535 */
  readonly maxTensors: number;
  /** Body and storages of one message together. @default 2 GiB */
  readonly maxMessageBytes: number;
  /** What the tensors of one message may cover when written out, which zero strides can make far larger than what was sent. @default 8 GiB */
  readonly maxMaterialisedBytes: number;
  /** Dimensions of a tensor. torch's own limit. @default 64 */
  readonly maxRank: number;
  /** Messages of one pipe whose storages have not come yet. @default 65 536 */
  readonly maxWaitingMessages: number;
  /** Instructions of one pickle. A list of a million numbers has as many. @default 4 000 000 */
  readonly maxPickleOps: number;
  /** Containers, names and objects of one pickle: each takes far more memory than the byte that makes it. @default 500 000 */
  readonly maxPickleObjects: number;
  /** Values on the stack of one pickle: a tuple lies there as a whole. @default 1 000 000 */
  readonly maxPickleStack: number;
  /** Remembered values of one pickle. @default 1 000 000 */
  readonly maxPickleMemo: number;
  /** Containers in containers that are open at once in one pickle. @default 10 000 */
  readonly maxPickleMarks: number;
  /** Containers inside containers of a value that is written, which Python's own pickler bounds by its stack. @default 500 */
  readonly maxWriteDepth: number;
  /** What one of the operations that everybody may call may make for a peer, as far as that can be told before. @default 1 GiB */
  readonly maxResultBytes: number;
  /** Entries of a file's archive. @default 1 000 000 */
  readonly maxFileEntries: number;
}

const KIB = 1024;
const MIB = 1024 * KIB;

/** The limits that hold where no others are given. */
export const DEFAULT_TORCH_LIMITS: TorchLimits = Object.freeze({
  maxHandshakeBytes: 64 * KIB,
  maxHandshakeEntries: 256,
  maxNameBytes: 4 * KIB,
  maxAwaitedConnections: 4_096,
  maxDescriptorBytes: 4 * MIB,
  maxBodyBytes: DEFAULT_WIRE_LIMITS.maxFrameBytes,
  maxTableBytes: 16 * MIB,
  maxTensors: DEFAULT_WIRE_LIMITS.maxTensors,
  maxMessageBytes: DEFAULT_WIRE_LIMITS.maxMessageBytes,
  maxMaterialisedBytes: DEFAULT_WIRE_LIMITS.maxMaterialisedBytes,
  maxRank: DEFAULT_WIRE_LIMITS.maxRank,
  maxResultBytes: 1024 * MIB,
  maxWaitingMessages: 65_536,
  maxPickleOps: 4_000_000,
  maxPickleObjects: 500_000,
  maxPickleStack: 1_000_000,
  maxPickleMemo: 1_000_000,
  maxPickleMarks: 10_000,
  maxWriteDepth: 500,
  maxFileEntries: 1_000_000,
});
