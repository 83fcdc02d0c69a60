/** @file Where a rank of a Gloo mesh is reached: the value that each one puts into the store, and who of two dials. */
import { RpcError } from '@backwire/rpc';
import { checkLimit } from '@backwire/wire/internal';
import { refuse } from '../pickle/refusal.ts';

/** What a rank publishes. */
export interface GlooAddress {
  readonly hostname: string;
  /** Four bytes: the listener's address of version 4. */
  readonly host: Uint8Array;
  readonly port: number;
  /** By rank of the other side: the number that its connection begins with. */
  readonly sequences: readonly number[];
}

/** A socket address as the kernel keeps it: its family, the port, four bytes of address, and nothing that matters. */
const SOCKADDR_BYTES = 128;
/** The socket address with a sequence number behind it, which stays unused. */
const ADDRESS_BYTES = SOCKADDR_BYTES + 8;
const AF_INET = 2;
const MAX_HOSTNAME = 256;
const MAX_RANKS = 65_536;

const decoder = new TextDecoder();

/** @throws WireError 'decode-error' for anything but the address of a rank in a mesh of `size`. */
export function readGlooAddress(bytes: Uint8Array, size: number): GlooAddress {
  const { hostname, socket, sequences, view } = partsOf(bytes);
  const family = view.getUint16(socket, true);
  if (family !== AF_INET) throw refuse(`the address of a rank is of family ${family}; only version 4 is known`);
  if (bytes.length - sequences !== 8 * size)
    throw refuse(`the address of a rank in a group of another size than ${size}`);
  return {
    hostname: decoder.decode(hostname),
    host: bytes.slice(socket + 4, socket + 8),
    port: view.getUint16(socket + 2, false),
    sequences: Array.from({ length: size }, (_, i) => sequenceIn(view.getBigInt64(sequences + 8 * i, true))),
  };
}

/**
 * Checks that a rank published its address for a mesh of `size`: it has a number for each rank.
 * @throws RpcError 'failed-precondition' naming both sizes, WireError 'decode-error' for anything but an address.
 */
export function checkMeshSize(bytes: Uint8Array, rank: number, size: number): void {
  const theirs = (bytes.length - partsOf(bytes).sequences) / 8;
  if (theirs === size || !Number.isInteger(theirs)) return;
  const text = `rank ${rank} expects a group of ${theirs} workers, and this worker one of ${size}: the world sizes differ`;
  throw new RpcError('failed-precondition', text);
}

/** Where what begins in an address, and the name of its host. */
function partsOf(bytes: Uint8Array): {
  readonly hostname: Uint8Array;
  readonly socket: number;
  readonly sequences: number;
  readonly view: DataView;
} {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const at = (offset: number, count: number): number => {
    if (offset + count > bytes.length) throw refuse('the address of a rank is cut off');
    return offset;
  };
  const length = Number(view.getBigUint64(at(0, 8), true));
  checkLimit('host name of a rank', length, MAX_HOSTNAME);
  const start = at(8, length) + length;
  if (view.getBigUint64(at(start, 8), true) !== BigInt(ADDRESS_BYTES))
    throw refuse('the address of a rank has another size');
  const socket = at(start + 8, ADDRESS_BYTES);
  return { hostname: bytes.subarray(8, start), socket, sequences: socket + ADDRESS_BYTES, view };
}

function sequenceIn(value: bigint): number {
  if (value < 0n || value > BigInt(Number.MAX_SAFE_INTEGER)) throw refuse(`the number ${value} for a connection`);
  return Number(value);
}

export function writeGlooAddress({ hostname, host, port, sequences }: GlooAddress): Uint8Array {
  const name = new TextEncoder().encode(hostname);
  checkLimit('host name of a rank', name.length, MAX_HOSTNAME);
  checkLimit('ranks', sequences.length, MAX_RANKS);
  const socket = 8 + name.length + 8;
  const from = socket + ADDRESS_BYTES;
  const bytes = new Uint8Array(from + 8 * sequences.length);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(name.length), true);
  bytes.set(name, 8);
  view.setBigUint64(socket - 8, BigInt(ADDRESS_BYTES), true);
  view.setUint16(socket, AF_INET, true);
  view.setUint16(socket + 2, port, false);
  bytes.set(host, socket + 4);
  view.setBigInt64(socket + SOCKADDR_BYTES, -1n, true);
  sequences.forEach((sequence, i) => view.setBigInt64(from + 8 * i, BigInt(sequence), true));
  return bytes;
}

/**
 * Whether the rank at `own` dials the one at `other`: of two, the one whose address is larger, then whose port is, with its two bytes
 * read the wrong way round.
 */
export function dials(own: GlooAddress, other: GlooAddress): boolean {
  for (let i = 0; i < own.host.length; i++) {
    const order = (own.host[i] as number) - (other.host[i] as number);
    if (order !== 0) return order > 0;
  }
  return swapped(own.port) > swapped(other.port);
}

function swapped(port: number): number {
  return ((port & 0xff) << 8) | (port >> 8);
}
