/** @file What Node and browsers both have under different names. Nothing here imports a Node module: browsers load this file. */

import type * as NodeCrypto from 'node:crypto';
import type * as NodeOs from 'node:os';
import type * as NodeZlib from 'node:zlib';

const node = globalThis.process as NodeJS.Process | undefined;

/** Node's crypto; undefined in browsers. */
export const nodeCrypto: typeof NodeCrypto | undefined = node?.getBuiltinModule?.('node:crypto');

const nodeZlib: typeof NodeZlib | undefined = node?.getBuiltinModule?.('node:zlib');

/** Whether checksums are cheap here; browsers have none of their own. */
export const hasCrc32 = typeof nodeZlib?.crc32 === 'function';

/** CRC-32 (ISO 3309) of `bytes`, going on from that of what was before them. */
export function crc32(bytes: Uint8Array, before = 0): number {
  if (nodeZlib === undefined) throw new Error('invariant: there are no checksums here');
  return nodeZlib.crc32(bytes, before);
}

const nodeOs: typeof NodeOs | undefined = node?.getBuiltinModule?.('node:os');

/**
 * Milliseconds since some moment, those in which the machine slept among them, and not moved by who sets the clock. Costs 20 µs. Browsers,
 * and a runtime that does not say how long its machine is up, have the clock on the wall alone.
 */
export function sleeplessMs(): number {
  try {
    return nodeOs === undefined ? Date.now() : nodeOs.uptime() * 1_000;
  } catch {
    return Date.now();
  }
}

/** The number of this process; 0 in browsers. */
export const processId: number = node?.pid ?? 0;

/** Drawn from the generator in one go: for a few bytes, asking costs more than they do. Each byte is handed out once. */
const drawn = new Uint8Array(1024);
let undrawn = 0;

/** Bytes that nobody can guess. */
export function randomBytes(count: number): Uint8Array {
  if (count > drawn.length) return globalThis.crypto.getRandomValues(new Uint8Array(count));
  if (count > undrawn) {
    globalThis.crypto.getRandomValues(drawn);
    undrawn = drawn.length;
  }
  const end = undrawn;
  undrawn -= count;
  const bytes = drawn.slice(undrawn, end);
  // What was handed out is not kept.
  drawn.fill(0, undrawn, end);
  return bytes;
}

/** Whether the bytes are the same, found out as fast as the platform can: not for what must take the same time wherever they differ. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.byteLength !== b.byteLength) return false;
  if (node !== undefined) return Buffer.compare(a, b) === 0;
  return a.every((byte, i) => byte === b[i]);
}

/** Runs `fn(argument)` when this turn's code is done and before anything else happens. */
export const soon: <T>(fn: (argument: T) => void, argument: T) => void =
  node?.nextTick === undefined ? (fn, argument) => queueMicrotask(() => fn(argument)) : node.nextTick.bind(node);

/** Runs `fn` in a later turn of the event loop, after what has arrived was dealt with. */
export const later: (fn: () => void) => void =
  typeof setImmediate === 'function' ? (fn) => void setImmediate(fn) : laterByMessage();

/** The longest delay a timer takes. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Lets the process end although this timer has not come; browsers have no such thing. Returns the timer. */
export function unref<T>(timer: T): T {
  (timer as { unref?: () => void }).unref?.();
  return timer;
}

/** Tells of something that nobody else can be told of. */
export function warn(warning: Error | string): void {
  if (node?.emitWarning === undefined) console.warn(warning);
  else node.emitWarning(warning);
}

/** Timers of browsers wait at least 4 ms when they are nested; messages do not. */
function laterByMessage(): (fn: () => void) => void {
  const { port1, port2 } = new MessageChannel();
  const queue: (() => void)[] = [];
  port1.onmessage = () => queue.shift()?.();
  return (fn) => {
    queue.push(fn);
    port2.postMessage(0);
  };
}
