/** @file What a device must offer: memory, and kernels by name. */

import type { Device } from '../device.ts';

/** The element types a device computes in. */
export type DeviceDType = 'float32' | 'int32' | 'bool';

/** Memory on a device, flat; owned by whoever holds it and freed once with `Backend.free`. */
export interface DeviceBuffer {
  readonly dataId: object;
  readonly dtype: DeviceDType;
  readonly nbytes: number;
}

/** A kernel argument: a buffer read with a shape. */
export interface DeviceTensor {
  readonly buffer: DeviceBuffer;
  readonly shape: readonly number[];
}

/** An optimiser's step as one kernel of a device: `kernel(targets…, scalars with the gradient among them)`, in place. */
export interface DeviceUpdate {
  readonly kernel: string;
  /** The kernel's scalar arguments in order. */
  readonly scalars: readonly number[];
  /** Before which scalar the gradient comes. */
  readonly gradientAt: number;
  /** Added to the gradient: this many times the parameter. */
  readonly penalty: number;
  /** What the parameter is multiplied by first. */
  readonly shrink: number;
  /** Further attributes of the kernel. */
  readonly flags?: Readonly<Record<string, boolean>>;
}

export type BackendName = 'cpu' | 'wasm' | 'blas' | 'tensorflow' | 'webgpu';

/** Elements from which a kernel beats the host loop, by class of operation; Infinity where it never does. */
export type Worth = Readonly<Record<'elementwise' | 'broadcast' | 'reduce' | 'transpose' | 'gather', number>> & {
  /** Multiply-adds from which a matrix product is worth a kernel. */
  readonly matmul: number;
  /** Elements from which an optimiser's step is worth one; Infinity without `Backend.update`. */
  readonly update: number;
};

/** One device. The host loops of `src/ops` serve whatever it has no kernel for. */
export interface Backend {
  readonly name: BackendName;
  /** What computes, more closely: the library's path. */
  readonly detail?: string;
  /** Why what would be faster does not compute. */
  readonly slow?: string;
  /** What tensors in its memory say where they are. @default 'cpu' */
  readonly device?: Device;
  /** Whether memory given to `upload` may be read by the device later: it must then never change or be reused. */
  readonly aliasesUploads: boolean;
  readonly worth: Worth;
  upload(bytes: Uint8Array, dtype: DeviceDType): DeviceBuffer;
  /** Room for `count` elements that nobody has written, for `view`. Absent where the device's memory cannot be addressed. */
  make?(count: number, dtype: DeviceDType): DeviceBuffer;
  /** The device's own memory, valid until the next kernel or upload; undefined where it cannot be addressed. */
  view(buffer: DeviceBuffer): Uint8Array | undefined;
  /**
   * Takes `buffer` over under a new identity, its bytes about to change through `view`: kernels may keep prepared forms of what they
   * have seen. Only for backends whose memory can be addressed.
   */
  renew(buffer: DeviceBuffer): DeviceBuffer;
  /**
   * Float32 in memory of this process as an operand of `BatchMatMul`, read where it lies; never freed, and for the next kernel only. Absent
   * where products take what is in the device's own memory.
   */
  lend?(bytes: Uint8Array): DeviceBuffer;
  /** A copy of the bytes that the caller owns. */
  download(buffer: DeviceBuffer): Uint8Array;
  /** The same into memory of their length. Absent where the device chooses the memory. */
  downloadInto?(buffer: DeviceBuffer, into: Uint8Array): void;
  free(buffer: DeviceBuffer): void;
  has(kernel: string): boolean;
  /** Runs one kernel; the caller owns the result. */
  run(
    kernel: string,
    inputs: Readonly<Record<string, DeviceTensor>>,
    attrs: Readonly<Record<string, unknown>>,
  ): DeviceBuffer;
  /**
   * Runs an optimiser's update in place; the buffers keep their identities. `targets` are the parameter and its accumulators, all of
   * the gradient's shape. Absent where the host's loop over the device's memory is the fastest.
   */
  update?(update: DeviceUpdate, targets: readonly DeviceTensor[], gradient: DeviceTensor): void;
  /** Subtracts lr times row i of `gradient` from the row of `target` that the int32 ids[i] names, in order, in place. */
  descendRows?(target: DeviceTensor, ids: DeviceTensor, gradient: DeviceTensor, lr: number): void;
}
