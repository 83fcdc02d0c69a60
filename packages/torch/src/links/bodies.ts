/** @file Bodies of commands as messages of a pipe, and back: tensors beside them become a table with storages. */
import { bufferPool } from '@backwire/wire/internal';
import type { TorchLimits } from '../limits.ts';
import type { Body } from '../messages/commands.ts';
import type { IncomingMessage } from '../pipe/message.ts';
import type { Pipe } from '../pipe/pipe.ts';
import { buildEntries } from '../table/build.ts';
import { readTable } from '../table/entries.ts';
import { writeTable } from '../table/write.ts';
import type { TensorLike } from '../values/opaque-tensor.ts';

/** A body that came. Its tensors are whoever's it is handed to. */
export interface ArrivedBody extends Body {
  readonly tensors: readonly TensorLike[];
}

/**
 * Sends a body. The tensors may change afterwards.
 * @throws WireError 'limit', DisposedError, TypeError: nothing is sent then.
 */
export function post(pipe: Pipe, id: number, { type, body, tensors }: Body, limits: TorchLimits): void {
  if (tensors.length === 0) return pipe.send({ type, id, body, table: emptyTable, storages: [] }, nothing);
  const table = writeTable(tensors, limits);
  pipe.send({ type, id, body, table: table.bytes, storages: table.storages }, () => table.release());
}

/** The table of no tensors, which torch wants all the same. */
const emptyTable = writeTable([]).bytes;
const nothing = (): void => undefined;

/** The body of a message. @throws WireError; the memory of its storages is given back then. */
export function arrived(message: IncomingMessage, limits: TorchLimits): ArrivedBody {
  const { type, body, table, storages } = message;
  if (storages.length === 0 && table.length === 0) return { type, body, tensors: [] };
  try {
    const entries = readTable(
      table,
      storages.map(({ length }) => length),
      limits,
    );
    return { type, body, tensors: buildEntries(entries, storages, (nbytes) => bufferPool.optionsFor(nbytes)) };
  } catch (error) {
    forget(message);
    throw error;
  }
}

/** Nobody wants the message: its memory is given back. */
export function forget({ storages }: IncomingMessage): void {
  for (const storage of storages) if (storage.length > 0) bufferPool.give(storage);
}

/** Frees the tensors of a body that nobody takes. */
export function discard({ tensors }: ArrivedBody): void {
  for (const tensor of tensors) tensor.dispose();
}
