/** @file A message that a pipe has received, and the memory that its storages are in. */

/** A message that came, with memory of its own. */
export interface IncomingMessage {
  readonly type: number;
  /** A response has the id of its request. */
  readonly id: number;
  readonly body: Uint8Array;
  readonly table: Uint8Array;
  /** From the pipe's memory: whoever takes the message builds tensors over them or gives them back. */
  readonly storages: readonly Uint8Array[];
}

/** Where the memory of storages comes from, and goes when nobody takes it. */
export interface PipeMemory {
  take(nbytes: number): Uint8Array;
  give(bytes: Uint8Array): void;
}
