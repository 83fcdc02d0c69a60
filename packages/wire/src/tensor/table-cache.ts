/** @file The tensor tables seen lately, read and checked: calls repeat the shapes of calls before, and reading a table makes much garbage. */
import { type WireLimits } from '../limits.ts';
import { type TensorTable } from './descriptor.ts';

/** Longer tables are those of many tensors or of odd ones; they are read each time. */
const MAX_TABLE_BYTES = 96;
/** Tables kept; those with the same hash take each other's place. A power of two. */
const PLACES = 64;

interface Known {
  readonly bytes: Uint8Array;
  readonly limits: WireLimits;
  readonly table: TensorTable;
}

/** What it gives is shared by many messages: nobody may change it or hand out its arrays. */
export class TableCache {
  private readonly places = new Array<Known | undefined>(PLACES).fill(undefined);

  /** The table in `bytes[start, end)`, if it was kept under the same limits. */
  find(bytes: Uint8Array, start: number, end: number, limits: WireLimits): TensorTable | undefined {
    const length = end - start;
    if (length > MAX_TABLE_BYTES) return undefined;
    const known = this.places[placeOf(bytes, start, end)];
    if (known === undefined || known.bytes.length !== length || known.limits !== limits) return undefined;
    for (let i = 0; i < length; i++) if (known.bytes[i] !== bytes[start + i]) return undefined;
    return known.table;
  }

  /** Keeps a table that was read from there and checked. */
  keep(bytes: Uint8Array, start: number, end: number, limits: WireLimits, table: TensorTable): void {
    if (end - start > MAX_TABLE_BYTES) return;
    this.places[placeOf(bytes, start, end)] = { bytes: bytes.slice(start, end), limits, table };
  }
}

function placeOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = end - start;
  for (let i = start; i < end; i++) hash = (Math.imul(hash, 31) + (bytes[i] as number)) | 0;
  return (hash ^ (hash >>> 16)) & (PLACES - 1);
}
