/** @file Joining a group of a fixed size, as torch's own workers do: a mesh, names, addresses, a first gathering. */
import { RpcError, WorkerInfo } from '@backwire/rpc';
import { MAX_TIMER_MS } from '@backwire/rpc/internal';
import type { Agent, Leaving } from '../agent.ts';
import { IS_STATIC, nameKey } from '../group/store-text.ts';
import { NO_NAMES, readPython } from '../pickle/python-reader.ts';
import { writePython } from '../pickle/python-writer.ts';
import { refuse } from '../pickle/refusal.ts';
import { PyTuple } from '../values/containers.ts';
import { awaitAddress, publishAddress } from './addresses.ts';
import { CallBarrier } from './barrier.ts';
import type { History } from './history.ts';
import type { MeshShell } from './mesh.ts';
import type { GroupStore } from './store.ts';

/** What is left of the time to join. */
export type Left = () => number;

/** The names of all, by rank. */
export async function exchangeNames(mesh: MeshShell, name: string, left: Left): Promise<string[]> {
  const own = writePython(PyTuple.of<unknown>(name, 0, new Map(), [])).bytes;
  const all = await mesh.allGather(own, left());
  const context = { tensors: [], names: NO_NAMES, rref: () => refuse('an RRef in the name of a worker') };
  const names = all.map((bytes, rank) => {
    const [found] = readPython(bytes, context) as unknown[];
    if (typeof found !== 'string') throw refuse(`rank ${rank} has no name`);
    return found;
  });
  return names;
}

/** Publishes this worker and finds the others. Their addresses are added to the agent's members. */
export async function register(
  store: GroupStore,
  agent: Agent,
  names: readonly string[],
  address: string,
  left: Left,
): Promise<void> {
  const group = await store.compareAndSet(IS_STATIC, '', 'true');
  if (group !== 'true')
    throw new RpcError('failed-precondition', 'the group at this store is a dynamic one: leave worldSize out');
  await store.set(nameKey(agent.id), agent.name);
  // Only now: the others wait for this worker's name before they find out the same.
  const twice = names.find((each, i) => names.indexOf(each) !== i);
  if (twice !== undefined)
    throw new RpcError('failed-precondition', `RPC worker name '${twice}' is not unique in the group`);
  for (const [rank, name] of names.entries()) {
    const there = await store.awaitText(nameKey(rank), left(), `the name of rank ${rank}`);
    if (there !== name)
      throw new RpcError(
        'failed-precondition',
        `rank ${rank} is '${there}' in the store and '${name}' among the ranks`,
      );
  }
  await publishAddress(store, agent.name, address);
  for (const [rank, name] of names.entries())
    agent.members.add({ worker: new WorkerInfo(name, rank), address: await awaitAddress(store, name, left()) });
}

/** What others may take to let go of this worker's values once all have come to leave. torch's own workers do it at once. */
const DRAIN_MS = 5_000;
/** For how long others are still waited for that were through all rounds but the last, when one of them is gone. */
const LAST_MS = 5_000;
/** A store has so long after the time is over: who is missing is asked of it, and the token of a group is given back there. */
const STORE_GRACE_MS = 1_000;

/** How a worker leaves a static group: together with all others, as torch's `shutdown(graceful=True)` does. */
export class StaticLeaving implements Leaving {
  private readonly store: GroupStore;
  private readonly mesh: MeshShell;
  private readonly barrier: CallBarrier;
  private readonly release: (how: 'ended' | 'failed') => Promise<void>;

  constructor(store: GroupStore, mesh: MeshShell, history: History, release: StaticLeaving['release']) {
    this.store = store;
    this.mesh = mesh;
    this.barrier = new CallBarrier(store, mesh.size, history);
    this.release = release;
  }

  async leave(agent: Agent, { graceful, timeoutMs }: { graceful: boolean; timeoutMs: number }): Promise<void> {
    if (!graceful) return;
    const end = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
    const left: Left = () => (end === Infinity ? 0 : Math.max(1, Math.ceil(end - performance.now())));
    const lost = agent.losses.first();
    await agent.collectives.barrier({ timeoutMs: left() });
    // Who never lets go does not keep the others: they go on, and this worker says what it leaves behind.
    await agent.settle(Math.min(left() || DRAIN_MS, DRAIN_MS)).catch((error: unknown) => {
      if (!(error instanceof RpcError) || error.code !== 'deadline-exceeded') throw error;
    });
    await whileStoreAnswers(unless(lost, 0, this.rounds(agent, left)), left());
    // Who has come for the last time may go before this worker hears that all have.
    await whileStoreAnswers(unless(lost, LAST_MS, this.barrier.last(left())), left());
  }

  /** Calls may make calls: only when nobody has any is it over. */
  private async rounds(agent: Agent, left: Left): Promise<void> {
    do {
      await within(agent.caller.whenIdle(), left(), () => `${agent.caller.active} calls of this worker are open`);
      await this.barrier.sum(0, left());
    } while ((await this.barrier.sum(agent.caller.active, left())) > 0);
  }

  async close(together: boolean): Promise<void> {
    await this.mesh.close();
    this.store.close();
    await this.release(together ? 'ended' : 'failed');
  }
}

/** As `work`, but fails when a worker is lost and `work` has not ended `graceMs` later. */
function unless<T>(lost: Promise<RpcError>, graceMs: number, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    let over = false;
    void lost.then((error) => {
      if (!over) timer = setTimeout(() => reject(error), graceMs);
    });
    work.then(resolve, reject).finally(() => {
      over = true;
      clearTimeout(timer);
    });
  });
}

/** As `work`, which keeps to the time itself wherever the store answers. @throws RpcError 'deadline-exceeded' where it does not. */
export function whileStoreAnswers<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  const limitMs = timeoutMs === 0 ? 0 : timeoutMs + STORE_GRACE_MS;
  return within(work, limitMs, () => 'the store of the group does not answer');
}

/** @throws RpcError 'deadline-exceeded' saying what is missing. */
export function within<T>(promise: Promise<T>, timeoutMs: number, missing: () => string): Promise<T> {
  if (timeoutMs === 0) return promise;
  return new Promise((resolve, reject) => {
    const late = (): void => reject(new RpcError('deadline-exceeded', `the time is over: ${missing()}`));
    const timer = setTimeout(late, Math.min(timeoutMs, MAX_TIMER_MS));
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
