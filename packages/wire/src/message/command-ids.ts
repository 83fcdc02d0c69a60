/** @file Ids in commands and on the wire. */
import { type ContextRef } from './autograd-codec.ts';
import { type GlobalId } from './commands.ts';
import { decodeError } from '../errors.ts';
import { type commonProto } from '../protobuf.ts';

const LOCAL_BITS = 48n;
const LOW_48 = (1n << LOCAL_BITS) - 1n;

/** @throws TypeError for an id whose parts are no whole numbers of their range. */
export function toId({ createdOn, localId, incarnation = 0 }: GlobalId): commonProto.Id {
  const local = Number(localId);
  if (!isCount(createdOn, 0xffff) || !isCount(incarnation, 0xffff_ffff) || !isCount(local, Number.MAX_SAFE_INTEGER))
    throw invalidArgument(`createdOn ${createdOn}, localId ${localId}, incarnation ${incarnation} are no id`);
  return { worker: createdOn, incarnation, local };
}

/** A field of a command that is not what its type says: what was given, and the code behind, as in errors of agents. */
export function invalidArgument(what: string): TypeError {
  return Object.assign(new TypeError(`${what} [invalid-argument]`), { code: 'invalid-argument' });
}

export function fromId(id: commonProto.Id | undefined): GlobalId {
  if (id === undefined) throw decodeError('an id is missing');
  return { createdOn: id.worker, localId: BigInt(id.local), incarnation: id.incarnation };
}

/** The upper 16 bits of `worker << 48 | counter`. */
export function workerOf(id: bigint): number {
  return Number(BigInt.asUintN(64, id) >> LOCAL_BITS);
}

/** The lower 48 bits. */
export function localOf(id: bigint): number {
  return Number(id & LOW_48);
}

export function joinId(worker: number, local: number): bigint {
  return BigInt.asIntN(64, (BigInt(worker) << LOCAL_BITS) | (BigInt(local) & LOW_48));
}

export function toContext(contextId: bigint, incarnation = 0): ContextRef {
  if (typeof contextId !== 'bigint') throw invalidArgument(`contextId is a bigint, got ${String(contextId)}`);
  return { worker: workerOf(contextId), incarnation, local: localOf(contextId) };
}

export function fromContext({ worker, incarnation, local }: ContextRef): { contextId: bigint; incarnation?: number } {
  return { contextId: joinId(worker, local), ...given({ incarnation }) };
}

/** Those fields of a command that say something. */
export function given<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value))) as Partial<T>;
}

/** Whether it is what a field says that is left out. */
export function isEmpty(value: unknown): boolean {
  return !value || ((Array.isArray(value) || value instanceof Uint8Array) && value.length === 0);
}

function isCount(value: number, most: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= most;
}
