/** @file Keeps device memory within its budget: garbage is asked for when much was made, and old results move to the host. */
import { kindOf } from './given.ts';
import type { Backend, DeviceBuffer } from './backends/backend.ts';
import { limits } from './limits.ts';

/** What outlives the Storage object: the memory itself, and how to give it back. */
export interface Cell {
  readonly nbytes: number;
  host: Uint8Array | undefined;
  device: DeviceBuffer | undefined;
  backend: Backend | undefined;
  /** Messages being written from `host`. */
  ioRefs: number;
  /** An alias of `host` was handed out: it must not change or be reused. */
  escaped: boolean;
  onFree: ((bytes: Uint8Array) => void) | undefined;
  /** Host memory that was replaced while a message still reads it. */
  orphans: (() => void)[] | undefined;
  freed: boolean;
  /** Whether the finaliser knows of it. */
  registered: boolean;
  readonly ticket: Ticket;
}

/**
 * What the finaliser is left with. It holds the cell only while that owns device memory or pooled memory: plain host memory must not
 * wait for a finaliser, because none runs in a loop that never yields.
 */
export interface Ticket {
  readonly nbytes: number;
  refs: number;
  cell: Cell | undefined;
}

/** Every cell with device memory, oldest use first. */
const resident = new Set<Cell>();
let residentBytes = 0;
let madeBytes = 0;
let collectPending = false;
/** Above `high` the oldest results move to the host until `low` is reached; after `collect` bytes were made, garbage is collected. */
let budget = { high: limits.deviceHighBytes, low: limits.deviceLowBytes, collect: limits.collectAfterBytes };

/**
 * How many bytes of device memory (the wasm heap, TensorFlow's, a GPU's) results may take before the oldest move to the host; a third
 * of it is left then, and after every third made, garbage is collected at the next turn of the event loop. Plain host memory is the
 * engine's own affair. @default 768 MiB. @throws RangeError unless positive and finite.
 */
export function setMemoryBudget(bytes: number): void {
  if (typeof bytes !== 'number') throw new TypeError(`setMemoryBudget() takes a number of bytes, got ${kindOf(bytes)}`);
  if (!(bytes > 0 && Number.isFinite(bytes))) throw new RangeError(`a memory budget must be positive, got ${bytes}`);
  budget = { high: bytes, low: bytes / 3, collect: bytes / 3 };
  relieveDevice();
}

/** A cell got device memory. */
export function trackDevice(cell: Cell): void {
  resident.add(cell);
  residentBytes += cell.nbytes;
  madeBytes += cell.nbytes;
  if (madeBytes > budget.collect) askForCollection();
}

/** A cell's device memory was used: it is now the youngest. Only done under pressure, to keep the common case cheap. */
export function touchedDevice(cell: Cell): void {
  if (residentBytes < budget.low) return;
  resident.delete(cell);
  resident.add(cell);
}

/** A cell gives up its device memory. */
export function forgetDevice(cell: Cell): void {
  if (resident.delete(cell)) residentBytes -= cell.nbytes;
}

export function deviceBytes(): number {
  return residentBytes;
}

/**
 * Makes room before a kernel runs. In a loop that never yields, no finaliser can run: moving the oldest results to the host gives
 * them to the ordinary collector, which frees those that are unreachable.
 */
export function relieveDevice(): void {
  if (residentBytes <= budget.high) return;
  for (const cell of resident) {
    // A device whose memory is all there is of a tensor keeps it.
    if (isHome(cell)) continue;
    if (residentBytes <= budget.low) break;
    evict(cell);
  }
}

/** Moves everything to the host: before the backend changes. */
export function evictAll(): void {
  for (const cell of resident) if (!isHome(cell)) evict(cell);
}

/** Whether it lies in memory that no backend computes in. */
function isHome({ backend }: Cell): boolean {
  return backend?.worth.matmul === Infinity;
}

function evict(cell: Cell): void {
  const backend = cell.backend as Backend;
  const device = cell.device as DeviceBuffer;
  cell.host ??= backend.download(device);
  forgetDevice(cell);
  cell.device = undefined;
  cell.backend = undefined;
  // Host memory is the collector's affair, unless it must go back to a pool.
  if (cell.onFree === undefined) cell.ticket.cell = undefined;
  backend.free(device);
}

/** V8 does not see device memory, so it is told when much of it may be garbage. */
function askForCollection(): void {
  if (collectPending || residentBytes < budget.collect / 2) {
    madeBytes = 0;
    return;
  }
  collectPending = true;
  const collect = (): void => {
    collectPending = false;
    madeBytes = 0;
    collectGarbage();
  };
  if (typeof setImmediate === 'function') setImmediate(collect).unref();
  else setTimeout(collect, 0);
}

let forceCollection: (() => void) | undefined;

/** Collects garbage now, where the engine can be asked to (Node, Bun); elsewhere only eviction bounds device memory. */
export function collectGarbage(): void {
  forceCollection ??= globalThis.gc === undefined ? exposedCollector() : () => void globalThis.gc?.();
  forceCollection();
}

function exposedCollector(): () => void {
  const { Bun: bun } = globalThis as { Bun?: { gc(wait: boolean): void } };
  if (bun !== undefined) return () => bun.gc(true);
  const v8 = globalThis.process?.getBuiltinModule?.('node:v8');
  const vm = globalThis.process?.getBuiltinModule?.('node:vm');
  if (v8 === undefined || vm === undefined) return () => undefined;
  v8.setFlagsFromString('--expose-gc');
  // Not every runtime that has the call knows the flag.
  return vm.runInNewContext("typeof gc === 'function' ? gc : () => undefined") as () => void;
}
