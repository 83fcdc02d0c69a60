/** @file Where an inspector learns who belongs to a group: from its store, or from one of its workers. */
import { invalidArgument, RpcError } from '../base/errors.ts';
import { within } from '../base/within.ts';
import { decodeView, type View } from '../protocol/membership.ts';
import type { ResolvedSecurity } from '../security/policy.ts';
import { openStore } from '../stores/open.ts';
import type { Store } from '../stores/store.ts';

/** The view of a group, whenever it is asked for. */
export interface ViewSource {
  readonly group: string;
  /** @throws RpcError 'unavailable', 'deadline-exceeded' when nobody answers, 'not-found' when there is no such group. */
  read(): Promise<View>;
  close(): Promise<void>;
}

const VIEW = /^backwire\/([^/]+)\/view$/;
/** The part of a store that `backwire run` gives to a group, and its view there. */
const PART = /^(backwire\/runs\/.+\/)backwire\/[^/]+\/view$/;

/**
 * Reads the view out of the store at `address`. Nothing is written there: no lease, no key.
 * @param group undefined = the only one that the store holds.
 */
export async function storeSource(
  address: string | Store,
  group: string | undefined,
  options: { readonly security: ResolvedSecurity; readonly timeoutMs: number },
): Promise<ViewSource> {
  // Not rank 0: that one would serve the store itself.
  const { store, owned } = await openStore(address, { ...options, rank: 1 });
  const close = async (): Promise<void> => {
    if (owned) await store.close();
  };
  try {
    const found = group ?? (await onlyGroup(store));
    return { group: found, read: () => readView(store, found, options.timeoutMs), close };
  } catch (error) {
    await close().catch(() => undefined);
    throw error;
  }
}

async function readView(store: Store, group: string, timeoutMs: number): Promise<View> {
  // A store that is gone keeps its clients waiting: nobody who looks wants that.
  const bytes = await within(store.get(`backwire/${group}/view`), timeoutMs, () => {
    throw new RpcError('deadline-exceeded', `no answer within ${timeoutMs} ms`);
  });
  const view = bytes === undefined ? undefined : decodeView(bytes);
  if (view === undefined) throw new RpcError('not-found', `the store holds no group '${group}'`);
  return view;
}

async function onlyGroup(store: Store): Promise<string> {
  const keys = [...(await store.list('backwire/')).keys()];
  const groups = keys.flatMap((key) => VIEW.exec(key)?.[1] ?? []);
  const [first, ...more] = groups;
  if (first === undefined) throw new RpcError('not-found', nowhere(keys));
  if (more.length > 0) throw invalidArgument(`the store holds several groups: choose one of ${groups.join(', ')}`);
  return first;
}

/** Launches that may share a store keep their groups in parts of it. */
function nowhere(keys: readonly string[]): string {
  const part = keys.map((key) => PART.exec(key)?.[1]).find((found) => found !== undefined);
  return part === undefined
    ? 'the store holds no group yet'
    : `the store holds no group there, but one at ?prefix=${part}: \`backwire run\` prints the whole address`;
}
