/** @file The agreed state of a group as bytes of the store, read with care. */
import { LaunchError } from './errors.ts';
import { MAX_EVENTS, MAX_HOSTS } from './limits.ts';
import type { Host, Rendezvous } from './rendezvous.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function encode(state: Rendezvous): Uint8Array {
  return encoder.encode(JSON.stringify(state));
}

/** Undefined when the bytes are no such state (another program's key). */
export function decode(bytes: Uint8Array): Rendezvous | undefined {
  try {
    const plain = JSON.parse(decoder.decode(bytes)) as Partial<Rendezvous> | null;
    const known =
      typeof plain === 'object' &&
      plain !== null &&
      ['gathering', 'running', 'closed'].includes(plain.phase as string) &&
      [plain.version, plain.told, plain.round, plain.restarts, plain.nextRank, plain.least, plain.most].every(
        Number.isSafeInteger,
      ) &&
      isHosts(plain.hosts) &&
      isHosts(plain.waiting) &&
      isTexts(plain.events) &&
      typeof plain.token === 'string' &&
      typeof plain.why === 'string';
    return known ? (plain as Rendezvous) : undefined;
  } catch {
    return undefined;
  }
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.length <= MAX_EVENTS && value.every((text) => typeof text === 'string');
}

function isHosts(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.length <= MAX_HOSTS &&
    value.every(
      (host: Partial<Host> | null) =>
        typeof host === 'object' &&
        host !== null &&
        typeof host.id === 'string' &&
        typeof host.name === 'string' &&
        Number.isSafeInteger(host.processes) &&
        Number.isSafeInteger(host.firstRank),
    )
  );
}

/** @throws LaunchError when the bytes are no such state. */
export function readState(bytes: Uint8Array): Rendezvous {
  const state = decode(bytes);
  if (state === undefined)
    throw new LaunchError(
      `the store holds something that is not the state of a group: ${decoder.decode(bytes.subarray(0, 40))}`,
    );
  return state;
}
