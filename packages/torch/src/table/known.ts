/** @file Tensor tables seen and written lately: calls repeat the shapes of calls before, and a table costs more than all else of a small call. */
import type { TensorDescriptor } from '@backwire/wire';
import type { TorchLimits } from '../limits.ts';

/** Longer tables are those of many tensors; they are read and written each time. */
const MAX_TABLE_BYTES = 512;
/** Tables kept; those with the same hash take each other's place. A power of two. */
const PLACES = 64;

interface Read<T> {
  readonly bytes: Uint8Array;
  readonly sizes: readonly number[];
  readonly limits: TorchLimits;
  readonly entries: readonly T[];
}

/** Tables that were read and checked. What it gives is shared by many messages: nobody may change it. */
export class ReadTables<T> {
  private readonly places = new Array<Read<T> | undefined>(PLACES).fill(undefined);

  /** What was read from these bytes over storages of these sizes, if it was kept under the same limits. */
  find(bytes: Uint8Array, sizes: readonly number[], limits: TorchLimits): readonly T[] | undefined {
    if (bytes.length > MAX_TABLE_BYTES) return undefined;
    const known = this.places[placeOf(bytes)];
    if (known === undefined || known.limits !== limits) return undefined;
    return isSame(known.bytes, bytes) && isSame(known.sizes, sizes) ? known.entries : undefined;
  }

  keep(bytes: Uint8Array, sizes: readonly number[], limits: TorchLimits, entries: readonly T[]): void {
    if (bytes.length > MAX_TABLE_BYTES) return;
    this.places[placeOf(bytes)] = { bytes: bytes.slice(), sizes: [...sizes], limits, entries };
  }
}

function placeOf(bytes: Uint8Array): number {
  let hash = bytes.length;
  for (let i = 0; i < bytes.length; i++) hash = (Math.imul(hash, 31) + (bytes[i] as number)) | 0;
  return (hash ^ (hash >>> 16)) & (PLACES - 1);
}

function isSame(a: ArrayLike<number>, b: ArrayLike<number>): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Tables of one dense tensor each, checked and written. */
export class WrittenTables {
  private readonly tables = new Map<string, Uint8Array>();
  private limits: TorchLimits | undefined;

  /** What stands for such a table here. */
  keyOf({ dtype, shape, strides, offset, requiresGrad }: TensorDescriptor, nbytes: number): string {
    return `${dtype} ${shape.join()} ${strides.join()} ${offset} ${nbytes}${requiresGrad ? ' grad' : ''}`;
  }

  find(key: string, limits: TorchLimits): Uint8Array | undefined {
    return this.limits === limits ? this.tables.get(key) : undefined;
  }

  keep(key: string, limits: TorchLimits, bytes: Uint8Array): void {
    if (this.limits !== limits || this.tables.size >= PLACES) this.tables.clear();
    this.limits = limits;
    this.tables.set(key, bytes);
  }
}
