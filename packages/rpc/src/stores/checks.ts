/** @file What every store refuses before it does anything: keys that are no text, values that are no bytes, numbers out of range. */
import { invalidArgument, RpcError } from '../base/errors.ts';
import { MAX_KEY_BYTES, MAX_KEYS_PER_REQUEST, MAX_LEASE_MS, MAX_VALUE_BYTES, MIN_LEASE_MS } from './limits.ts';

/** torch's client, and ours, put a '/' before every key. */
const MOST_KEY_BYTES = MAX_KEY_BYTES - 1;
/** No character has more bytes in UTF-8 than this for each of its UTF-16 units. */
const MAX_UNIT_BYTES = 3;
const LEAST_SUM = -(2n ** 63n);
const MOST_SUM = 2n ** 63n - 1n;

/** A key or a prefix of keys. @throws RpcError 'invalid-argument' unless it is text that UTF-8 can hold, of at most 8 KiB. */
export function checkKey(key: unknown): string {
  if (typeof key !== 'string') throw invalidArgument(`a key is text, not ${describe(key)}`);
  // Written as UTF-8 all halves of pairs become one and the same character.
  if (/\p{Surrogate}/u.test(key)) throw invalidArgument('a key with half of a surrogate pair is no text');
  if (key.length * MAX_UNIT_BYTES > MOST_KEY_BYTES && new TextEncoder().encode(key).byteLength > MOST_KEY_BYTES)
    throw invalidArgument(`a key has at most ${MOST_KEY_BYTES} bytes`);
  return key;
}

/** Every key once. @throws RpcError 'invalid-argument'. */
export function checkKeys(keys: unknown): readonly string[] {
  if (!Array.isArray(keys)) throw invalidArgument(`keys are an array, not ${describe(keys)}`);
  if (keys.length > MAX_KEYS_PER_REQUEST) throw invalidArgument(`at most ${MAX_KEYS_PER_REQUEST} keys at once`);
  return [...new Set(keys.map(checkKey))];
}

/** A copy. @throws RpcError 'invalid-argument' unless it is bytes, of at most 8 MiB. */
export function checkValue(value: unknown): Uint8Array {
  if (!(value instanceof Uint8Array)) throw invalidArgument(`a value is a Uint8Array, not ${describe(value)}`);
  if (value.byteLength > MAX_VALUE_BYTES) throw invalidArgument(`a value has at most ${MAX_VALUE_BYTES} bytes`);
  return new Uint8Array(value);
}

/** What a value is compared with: null = the key must not exist. @throws RpcError 'invalid-argument'. */
export function checkExpected(expected: unknown): Uint8Array | null {
  return expected === null ? null : checkValue(expected);
}

/** @throws RpcError 'invalid-argument' unless it is a signed 64-bit number. */
export function checkDelta(delta: unknown): bigint {
  if (typeof delta !== 'bigint') throw invalidArgument(`a counter is changed by a bigint, not ${describe(delta)}`);
  if (delta < LEAST_SUM || delta > MOST_SUM) throw invalidArgument(`${delta} is no signed 64-bit number`);
  return delta;
}

/** @throws RpcError 'invalid-argument' for a lease that is too short, too long or no number. */
export function checkTtl(ttlMs: unknown): number {
  if (typeof ttlMs === 'number' && ttlMs >= MIN_LEASE_MS && ttlMs <= MAX_LEASE_MS) return ttlMs;
  throw invalidArgument(`a lease lasts ${MIN_LEASE_MS} to ${MAX_LEASE_MS} ms, not ${String(ttlMs)}`);
}

/** What `value`, the decimal text of the counter `key`, becomes. @throws RpcError 'failed-precondition' when it is no number, or the sum is none of 64 bits. */
export function addTo(key: string, value: Uint8Array | undefined, delta: bigint): bigint {
  const text = value === undefined ? '0' : new TextDecoder().decode(value.subarray(0, 32));
  const before = /^-?\d{1,19}$/.test(text) ? BigInt(text) : undefined;
  if (before === undefined || before < LEAST_SUM || before > MOST_SUM)
    throw new RpcError('failed-precondition', `the value of '${key}' is not a number`);
  const sum = before + delta;
  if (sum < LEAST_SUM || sum > MOST_SUM)
    throw new RpcError('failed-precondition', `the sum of '${key}' and ${delta} is no signed 64-bit number`);
  return sum;
}

/** What is asked of a store that was closed fails with this. A request that was `sent` before may have been done. */
export function closedError(sent = false): RpcError {
  return new RpcError('failed-precondition', 'the store is closed', { executed: sent ? 'maybe' : 'no' });
}

function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return typeof value === 'object' ? value.constructor.name : `a ${typeof value}`;
}
