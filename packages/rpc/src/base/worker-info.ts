/** @file Who a worker is: its name and its id (its rank). */
import { invalidArgument, type RpcError } from './errors.ts';
import { bare, show } from './shown.ts';

/** How a worker is named in a call: by name, by id (rank), or by the record itself. */
export type To = string | number | WorkerInfo;

const NAME = /^[A-Za-z0-9\-_:]{1,127}$/;
const MAX_ID = 0x7fff;

/** A worker of the group. Two records are about the same worker when their ids are equal. */
export class WorkerInfo {
  /** Letters, digits, `-`, `_` and `:`; 1 to 127 of them; unique in the group. */
  readonly name: string;
  /** The rank: 0 to 32767, unique in the group. */
  readonly id: number;

  /** @throws RpcError 'invalid-argument' for what is no name or no id. */
  constructor(name: string, id: number) {
    this.name = checkWorkerName(name);
    if (!isWorkerId(id)) throw outOfBounds(id);
    this.id = id;
  }

  toString(): string {
    return `WorkerInfo(id=${this.id}, name=${this.name})`;
  }

  toJSON(): { name: string; id: number } {
    return { name: this.name, id: this.id };
  }
}

/** Whether a worker may have this name. */
export function isWorkerName(name: unknown): name is string {
  return typeof name === 'string' && NAME.test(name);
}

/** Whether a worker may have this id. */
export function isWorkerId(id: unknown): id is number {
  return typeof id === 'number' && Number.isInteger(id) && id >= 0 && id <= MAX_ID;
}

/** Throws `invalid-argument` unless `name` may be a worker's name. */
export function checkWorkerName(name: unknown, what = 'Worker name'): string {
  if (!isWorkerName(name)) {
    throw invalidArgument(
      `${what} must match ^[A-Za-z0-9-_:]*$, and must be non-empty and shorter than 128 chars, but got ${bare(name)}`,
    );
  }
  return name;
}

/** Throws `invalid-argument` unless `id` may be a worker's id, TypeError when it is no number. */
export function checkWorkerId(id: unknown): number {
  if (typeof id !== 'number') throw new TypeError(`rank is a whole number from 0, got ${typeof id} ${show(id)}`);
  if (Number.isNaN(id)) {
    throw invalidArgument(
      "rank is no number: is RANK missing? 'backwire run' sets it: npx backwire run --nproc-per-node 2 program.ts",
    );
  }
  if (!isWorkerId(id)) throw outOfBounds(id);
  return id;
}

function outOfBounds(id: unknown): RpcError {
  return invalidArgument(`RPC worker id ${bare(id)} out of bounds for int16_t.`);
}
