/** @file Ids of contexts, passes and members, and the order of passes. */

/** A member: a worker in one of its lives. */
export interface MemberRef {
  readonly worker: number;
  readonly incarnation: number;
}

/** A context by its creator and the creator's 48-bit number. */
export interface ContextRef extends MemberRef {
  /** The low 48 bits of the public id. */
  readonly local: number;
}

/** One backward pass: the member that started it, and that member's counter. */
export interface PassId extends MemberRef {
  readonly n: number;
}

const COUNTER_BITS = 38;
const COUNTERS = 2 ** COUNTER_BITS;
const LIVES = 1024;
const LOCAL_BITS = 48n;
const LOCAL_MASK = (1n << LOCAL_BITS) - 1n;
const MAX_WORKER = 0xffff;

/**
 * The 48-bit number of a creator's context: `(life mod 1024) << 38 | counter`, so that a first life numbers as
 * torch.distributed.autograd does.
 */
export function localId(life: number, counter: number): number {
  if (counter < 0 || counter >= COUNTERS) throw new RangeError('the counter of autograd ids has wrapped around');
  return (life % LIVES) * COUNTERS + counter;
}

/** The public id: the worker in the upper 16 bits. */
export function publicId(worker: number, local: number): bigint {
  return (BigInt(worker) << LOCAL_BITS) | BigInt(local);
}

/** The parts of a public id; undefined when no context can have it. */
export function splitId(id: bigint): { worker: number; local: number } | undefined {
  if (typeof id !== 'bigint' || id < 0n) return undefined;
  const worker = Number(id >> LOCAL_BITS);
  return worker > MAX_WORKER ? undefined : { worker, local: Number(id & LOCAL_MASK) };
}

/** A member as one number, for maps. */
export type MemberKey = number;

export function memberKey({ worker, incarnation }: MemberRef): MemberKey {
  return incarnation * (MAX_WORKER + 1) + worker;
}

export function sameMember(a: MemberRef, b: MemberRef): boolean {
  return a.worker === b.worker && a.incarnation === b.incarnation;
}

export function samePass(a: PassId, b: PassId): boolean {
  return a.n === b.n && sameMember(a, b);
}

/** Negative when `a` wins over `b` where both run at once in one context. */
export function comparePasses(a: PassId, b: PassId): number {
  return a.worker - b.worker || a.incarnation - b.incarnation || a.n - b.n;
}
