/** @file The seven fields in which a handle on an RRef travels. */
import { PyTuple } from '../values/containers.ts';
import { RRefFork } from '../values/objects.ts';
import { integerIn } from './builtin-globals.ts';
import { refuse } from './refusal.ts';

const FIELDS_OF_FORK = 7;

/** A handle on an RRef from the fields in which it travels. */
export function forkOf(fields: unknown): RRefFork {
  if (!(fields instanceof PyTuple) || fields.length !== FIELDS_OF_FORK)
    throw refuse('an RRef without its seven fields');
  const [owner, rrefWorker, rrefLocal, forkWorker, forkLocal, parent, type] = fields;
  if (typeof type !== 'string') throw refuse('an RRef without a type');
  const worker = (id: unknown): number => integerIn(id, 0, 0x7fff, 'the worker of an RRef');
  const local = (id: unknown): number => integerIn(id, 0, Number.MAX_SAFE_INTEGER, 'the number of an RRef');
  return new RRefFork(
    worker(owner),
    { worker: worker(rrefWorker), local: local(rrefLocal) },
    { worker: worker(forkWorker), local: local(forkLocal) },
    worker(parent),
    type,
  );
}

/** The fields of a handle on an RRef. */
export function fieldsOf({ owner, rref, fork, parent, type }: RRefFork): PyTuple {
  return PyTuple.of<unknown>(owner, rref.worker, rref.local, fork.worker, fork.local, parent, type);
}
