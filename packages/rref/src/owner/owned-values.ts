/** @file The values that this worker owns, by the names that peers and handles have for them. */
import { RpcError } from '@backwire/rpc';
import { systemError } from '@backwire/rpc/internal';
import { DISPOSE } from '@backwire/tensor/internal';
import { isHandle } from '../handle-brand.ts';
import { formatId, memberKey, type GlobalId } from '../protocol/ids.ts';
import type { OwnerEntry, OwnerTable } from '../protocol/owner-table.ts';
import { OwnedValue } from './owned-value.ts';

export class OwnedValues {
  private readonly table: OwnerTable<OwnedValue>;
  /** The name of this worker. */
  private readonly owner: string;

  constructor(table: OwnerTable<OwnedValue>, owner: string) {
    this.table = table;
    this.owner = owner;
  }

  /** The value of an entry, empty when nobody has made or asked for it yet. */
  of(entry: OwnerEntry<OwnedValue>): OwnedValue {
    return (entry.payload ??= OwnedValue.empty());
  }

  /** The value of an RRef that a peer names by its id. @throws RpcError 'rref-released', `executed` 'no', when there is none. */
  byId(rref: GlobalId): OwnedValue {
    const entry = this.table.get(rref);
    if (entry !== undefined) return this.of(entry);
    const text = `${formatId(rref)} is not on worker '${this.owner}': its last handle was released`;
    throw systemError(new RpcError('rref-released', text));
  }

  /** The value meant in a method call: by `[worker, incarnation, local]`, or by the handle itself on its owner. */
  meant(reference: unknown): OwnedValue {
    if (isHandle(reference)) {
      const { owned } = reference as { readonly owned?: unknown };
      // It came with the call alone; whose it is a copy of holds the value until the call is over.
      (reference as Disposable)[DISPOSE]();
      if (owned instanceof OwnedValue) return owned;
    } else if (Array.isArray(reference)) {
      const [worker, incarnation, local] = reference as unknown[];
      if (typeof worker === 'number' && typeof incarnation === 'number' && Number.isSafeInteger(local)) {
        return this.byId({ member: memberKey(worker, incarnation), local: local as number });
      }
    }
    throw systemError(new RpcError('decode-error', 'malformed method call'));
  }
}
