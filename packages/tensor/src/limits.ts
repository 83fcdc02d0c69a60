/** @file Bounds of this package, each with its reason. */

export const limits = Object.freeze({
  /** Dimensions of a tensor: descriptors from the network are checked against it. */
  maxRank: 64,
  /** Elements of a tensor: indices stay exact and strides multiply without loss. */
  maxElements: 2 ** 38,
  /** Device bytes above which the oldest results are moved to the host, so that a loop that never yields cannot fill wasm's 4 GiB. */
  deviceHighBytes: 768 * 2 ** 20,
  /** Device bytes left after such a move. */
  deviceLowBytes: 256 * 2 ** 20,
  /** Device bytes made since the last collection, past which one is asked for at the next turn of the event loop. */
  collectAfterBytes: 256 * 2 ** 20,
  /** Bytes of freed blocks of the WebAssembly heap that wait for the next result of their size: those of a training step. */
  heapSpareBytes: 64 * 2 ** 20,
  /** Bytes up to which a freed block waits: for larger ones the allocator's time is nothing beside the kernel's. */
  heapSpareBlockBytes: 8 * 2 ** 20,
  /** Rates of optimisers, and lists of dimensions, kept as native tensors: more than one kernel takes, so that none is freed while in use. */
  nativeConstants: 256,
  /** Time a device's thread has to start in: drivers compile their first programs. */
  deviceStartMs: 60_000,
  /** Time a device's thread has to answer: the longest queue of kernels before a read, and yet an end where a driver hangs. */
  deviceAnswerMs: 120_000,
  /** Time a loader's thread has to close the stream that it reads before it is ended. */
  loaderThreadStopMs: 1_000,
  /** Calls of dispose() that remember where they were made; later ones only do in anomaly mode. */
  disposalTraces: 10_000,
  /** Bytes of the header of a safetensors file, as the format's own reader bounds it. */
  safetensorsHeaderBytes: 100_000_000,
});
