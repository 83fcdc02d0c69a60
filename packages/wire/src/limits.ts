/** @file Every bound of the wire format, with its reason. A length is compared with its limit before memory is allocated for it. */

/** Bounds that sender and receiver both check. All sizes are bytes unless the name says otherwise. */
export interface WireLimits {
  /** Payload of a handshake frame: what an unauthenticated peer may make us buffer. @default 4096 */
  readonly maxHandshakeBytes: number;
  /** Payload of a CONTROL frame. @default 1 MiB */
  readonly maxControlBytes: number;
  /** Payload of a CALL, RESULT, ERROR or STREAM frame: value, tables and inline storages together. @default 256 MiB */
  readonly maxFrameBytes: number;
  /** Payload of one BODY frame, so that a small call never waits behind a large tensor: sockets send 1 MiB, a memory that is read at once this much. @default 8 MiB */
  readonly maxBodyChunkBytes: number;
  /** Frame and out-of-band storages of one message together. @default 2 GiB */
  readonly maxMessageBytes: number;
  /** What the tensors of one message may cover when written out, which zero strides can make far larger than what was sent. @default 8 GiB */
  readonly maxMaterialisedBytes: number;
  /** Tensors, and storages, of one message (u16 on the wire). @default 65 535 */
  readonly maxTensors: number;
  /** Dimensions of a tensor. torch's own limit. @default 64 */
  readonly maxRank: number;
  /** UTF-8 bytes of a function's name. @default 1024 */
  readonly maxNameBytes: number;
  /** The header table (forks and autograd ids) of one message. @default 1 MiB */
  readonly maxHeaderTableBytes: number;
  /** Entries of one header table. @default 16 384 */
  readonly maxHeaderEntries: number;
  /** Containers inside containers of one value. Bounds the decoder's recursion. @default 64 */
  readonly maxDepth: number;
  /** Values inside one value, all levels together: what they take in memory is more than what was sent. @default 4 194 304 */
  readonly maxValues: number;
  /** UTF-8 bytes of one string. @default 256 MiB */
  readonly maxStringBytes: number;
  /** UTF-8 bytes of one object key. @default 4096 */
  readonly maxKeyBytes: number;
  /** Decimal digits of one bigint; parsing is more than linear in them. @default 16 384 */
  readonly maxBigIntDigits: number;
}

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

export const DEFAULT_WIRE_LIMITS: WireLimits = Object.freeze({
  maxHandshakeBytes: 4 * KIB,
  maxControlBytes: MIB,
  maxFrameBytes: 256 * MIB,
  maxBodyChunkBytes: 8 * MIB,
  maxMessageBytes: 2 * GIB,
  maxMaterialisedBytes: 8 * GIB,
  maxTensors: 65_535,
  maxRank: 64,
  maxNameBytes: KIB,
  maxHeaderTableBytes: MIB,
  maxHeaderEntries: 16_384,
  maxDepth: 64,
  maxValues: 4 * MIB,
  maxStringBytes: 256 * MIB,
  maxKeyBytes: 4 * KIB,
  maxBigIntDigits: 16_384,
});

/** Calls nested in calls within one autograd context: the causal path grows by one number each. */
export const MAX_PATH = 1_024;
/** Message ids in one discovery message; more are sent in several. */
export const MAX_DISCOVERED = 65_536;
/** Characters of a failure's text in autograd messages: a prefix is added at each hop. */
export const MAX_FAILURE_TEXT = 16_384;
/** Gradients in one backward message: as many as a message can carry tensors. */
export const MAX_GRADIENTS = 65_536;
/** Failed passes that an origin names to those of its next pass; their aborts are on the way as well. */
export const MAX_FAILED_NAMED = 64;
/** Send functions beyond a message that its wrap names: one that reaches more leaves it to the pass to find out. */
export const MAX_REACH = 16;
/** Send functions in the plan of a pass, which travels with each of its messages. */
export const MAX_PLAN = 64;
/** Messages whose gradients come back with one answer; more are sent by themselves. */
export const MAX_RETURNED = 16;
/** Devices of one worker in a device map. */
export const MAX_DEVICE_MAP = 1_024;

/** Storages up to this size ride inside the frame: a second write and a pooled buffer cost more than the copy. */
export const INLINE_STORAGE_BYTES = 16 * KIB;
/** Inline storages of one message together; what is beyond goes out of band so that frames stay short. */
export const INLINE_MESSAGE_BYTES = 64 * KIB;
/** Typed arrays and buffers inside values from this size on travel like tensors, not in the value. */
export const OUT_OF_BAND_BYTES = 64 * KIB;
/** Below this a view is sent with its whole storage, as torch does. */
export const RECOPY_STORAGE_BYTES = 8 * KIB;

/** Send slab: one write per tick joins this much. */
export const SLAB_BYTES = 64 * KIB;
/** The first slab of a writer or reader that has nothing to do yet: most sessions of a large group are idle. */
export const FIRST_SLAB_BYTES = 4 * KIB;
/** So many of them are made at once; a whole number of them. */
export const FIRST_CHUNK_BYTES = 32 * KIB;
/** Slab of small payloads on their way into a frame. */
export const BRIEF_SLAB_BYTES = 16 * KIB;
/** Payloads up to this size share one. */
export const MAX_BRIEF_BYTES = KIB;
/** Free slabs kept per pool. */
export const MAX_FREE_SLABS = 32;
/** Receive slab of one reader: headers and small frames of one read land here. */
export const RECEIVE_SLAB_BYTES = 64 * KIB;
/** Free bytes one buffer pool keeps: twice a 256 MiB tensor, so that an echo of one stays in warm memory. */
export const MAX_POOLED_BYTES = 512 * MIB;
/** A storage that is announced gets this much when its first byte comes, unless a warm buffer of its size is free, */
export const FIRST_BODY_BYTES = 8 * MIB;
/** and when that is full the rest up to this much: pages that nothing has landed in take no memory yet, a copy would; */
export const WHOLE_BODY_BYTES = 512 * MIB;
/** a larger one first this part. */
export const LARGE_BODY_PART = 1 / 4;
/** Below this a fresh array is as cheap as the pool. */
export const MIN_POOLED_BYTES = 4 * KIB;
/** Free buffers of one size class one buffer pool keeps. */
export const MAX_POOLED_PER_CLASS = 64;
