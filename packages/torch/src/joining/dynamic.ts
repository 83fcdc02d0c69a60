/** @file A group whose workers come and go: joining, leaving, and putting out those that are dead. One changes it at a time, by a token. */
import { RpcError, WorkerInfo, rpcInfo } from '@backwire/rpc';
import type { Agent, Leaving } from '../agent.ts';
import {
  IS_STATIC,
  MEMBERS,
  TOKEN,
  TOKEN_DONE,
  addressKey,
  nameKey,
  readMembers,
  tokenOf,
  writeMembers,
  type ListedMember,
} from '../group/store-text.ts';
import { awaitAddress, publishAddress } from './addresses.ts';
import { whileStoreAnswers, within, type Left } from './static.ts';
import type { GroupStore } from './store.ts';

const UPDATE = 'torch.distributed.rpc._utils._update_group_membership';
const DEVICES = 'torch.distributed.rpc.backend_registry._get_device_infos';
/** Ids of Python's workers are ranks; ours are drawn, from here up, so that none ever comes back: torch keeps dead pipes by id. */
const FIRST_ID = 1_000;
/** The largest stands for those who are not members yet. */
const MAX_ID = 0x7ffe;
const NEXT_ID = 'backwire/next_id';
/** How long one member may take to answer a change. */
const MEMBER_MS = 10_000;
const RETRY_MS = 20;
/** How long others may take to hear that this worker has not joined. */
const TAKE_BACK_MS = 2_000;

/** The changes of one group, as one worker makes them. */
export class DynamicGroup implements Leaving {
  private readonly store: GroupStore;
  private readonly release: () => Promise<void>;

  constructor(store: GroupStore, release: () => Promise<void>) {
    this.store = store;
    this.release = release;
  }

  /** An id that no worker of the group has had. */
  async freshId(): Promise<number> {
    const id = FIRST_ID - 1 + (await this.store.add(NEXT_ID, 1));
    if (id > MAX_ID)
      throw new RpcError(
        'resource-exhausted',
        `the group has had ${MAX_ID - FIRST_ID + 1} workers of this kind, and has no more ids: begin another, at another store`,
      );
    return id;
  }

  /** Joins, with the agent's door open already. Members that cannot be reached stay members: `evict` puts them out. */
  async join(agent: Agent, address: string, evict: readonly string[], left: Left): Promise<void> {
    for (const name of evict) await this.freeToken(name);
    await this.changing(agent.name, 'join', left, async () => {
      const kind = await this.store.compareAndSet(IS_STATIC, '', 'false');
      if (kind !== 'false')
        throw new RpcError('failed-precondition', 'the group at this store is a static one: give worldSize');
      const dead = new Set(evict);
      const all = await this.listed();
      const listed = all.filter(({ name }) => !dead.has(name));
      const same = listed.find(({ name, id }) => name === agent.name || id === agent.id);
      if (same !== undefined)
        throw new RpcError(
          'failed-precondition',
          `worker '${same.name}' with id ${same.id} is in the group: evict it if it is dead`,
        );
      const holder = await this.store.compareAndSet(nameKey(agent.id), '', agent.name);
      if (holder !== agent.name) throw new RpcError('failed-precondition', `the id ${agent.id} is worker '${holder}'s`);
      await this.store.set(nameKey(agent.id), agent.name);
      // Before this worker is in the list: one that fails to join must not be found there by the next.
      for (const member of listed) await this.admit(agent, member, left);
      await publishAddress(this.store, agent.name, address);
      await this.store.set(MEMBERS, writeMembers([...listed, { name: agent.name, id: agent.id }]));
      try {
        await this.admit(agent, { name: agent.name, id: agent.id }, left);
        await Promise.all(listed.map(({ name }) => this.greet(agent, name, left)));
      } catch (error) {
        await this.takeBack(agent, all);
        throw error;
      }
      for (const { name, id } of all) if (dead.has(name)) await this.tell(agent, new WorkerInfo(name, id), left);
    });
  }

  /** Joining failed when others may have heard of this worker: it is no member, and they are told so. */
  private async takeBack(agent: Agent, before: readonly ListedMember[]): Promise<void> {
    try {
      await this.store.set(MEMBERS, writeMembers(before));
      await this.tell(agent, agent.self, () => TAKE_BACK_MS);
    } catch (error) {
      agent.logger.warn({ error }, 'this worker has not joined, and is in the list of members: evict it');
    }
  }

  /**
   * A member is known from now on.
   * @throws RpcError 'deadline-exceeded' for one that has not said where it listens within the time, or within 10 s where there is more.
   */
  async admit(agent: Agent, { name, id }: ListedMember, left: Left): Promise<void> {
    const key = addressKey(name);
    const waitMs = Math.min(MEMBER_MS, left() || MEMBER_MS);
    const address = await awaitAddress(this.store, name, waitMs).catch((error: unknown) => {
      if (rpcInfo(error)?.code !== 'deadline-exceeded') throw error;
      const missing = `worker '${name}' with id ${id} is a member of the group and has no address: '${this.store.key(key)}' in the store at ${this.store.endpoint} did not come within ${waitMs} ms`;
      const way = `evict '${name}' if it is dead`;
      throw new RpcError('deadline-exceeded', `${missing}; ${way}`, { peer: new WorkerInfo(name, id), cause: error });
    });
    agent.members.add({ worker: new WorkerInfo(name, id), address });
  }

  /**
   * Puts workers that are dead out of the group, in their place: the others forget them, and the token is free should one have held it.
   * @throws RpcError 'not-found' for one that is no member and held nothing.
   */
  evict(agent: Agent, names: readonly string[], timeoutMs: number): Promise<void> {
    const end = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
    const left: Left = () => (end === Infinity ? 0 : Math.max(1, Math.ceil(end - performance.now())));
    return whileStoreAnswers(this.putOut(agent, names, left), timeoutMs);
  }

  private async putOut(agent: Agent, names: readonly string[], left: Left): Promise<void> {
    const held = new Set<string>();
    for (const name of names) if (await this.freeToken(name)) held.add(name);
    await this.changing(agent.name, 'leave', left, async () => {
      const listed = await this.listed();
      const dead = listed.filter(({ name }) => names.includes(name));
      const stranger = names.find((name) => !held.has(name) && !dead.some((each) => each.name === name));
      if (stranger !== undefined) throw new RpcError('not-found', `no worker '${stranger}' is in the group`);
      await this.store.set(MEMBERS, writeMembers(listed.filter((each) => !dead.includes(each))));
      for (const { name } of dead) agent.forget(name);
      for (const { name, id } of dead) await this.tell(agent, new WorkerInfo(name, id), left);
    });
  }

  async leave(agent: Agent, { graceful, timeoutMs }: { graceful: boolean; timeoutMs: number }): Promise<void> {
    const end = performance.now() + (timeoutMs === 0 ? LEAVE_MS : timeoutMs);
    const left: Left = () => Math.max(1, Math.ceil(end - performance.now()));
    if (graceful) {
      await within(agent.caller.whenIdle(), left(), () => `${agent.caller.active} calls of this worker are open`);
      await agent.settle(left());
    }
    const leaving = this.changing(agent.name, 'leave', left, async () => {
      const listed = await this.listed();
      await this.store.set(MEMBERS, writeMembers(listed.filter(({ name }) => name !== agent.name)));
      await this.tell(agent, agent.self, left);
    });
    await whileStoreAnswers(leaving, left());
  }

  async close(): Promise<void> {
    this.store.close();
    await this.release();
  }

  private async listed(): Promise<ListedMember[]> {
    if (!(await this.store.has(MEMBERS))) return [];
    const text = await this.store.text(MEMBERS);
    return this.store.parsed(MEMBERS, 'the list of members', () => readMembers(text));
  }

  /** Asks a member for what torch asks, and makes itself known to it. */
  private async greet(agent: Agent, name: string, left: Left): Promise<void> {
    const limits = { timeoutMs: Math.min(MEMBER_MS, left() || MEMBER_MS) };
    try {
      await agent.callPython(name, DEVICES, [], limits);
      await agent.callPython(name, UPDATE, [agent.self, [], new Map(), true], limits);
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      agent.logger.warn({ peer: name, error }, 'a member of the group cannot be reached; evict it if it is dead');
    }
  }

  /** Tells all others that a worker left. Those that cannot be reached hear nothing. */
  private async tell(agent: Agent, who: WorkerInfo, left: Left): Promise<void> {
    const limits = { timeoutMs: Math.min(MEMBER_MS, left() || MEMBER_MS) };
    await Promise.all(
      agent.members.others().map(async ({ worker }) => {
        if (worker.name === who.name) return;
        const told = agent.callPython(worker, UPDATE, [who, [], new Map(), false], limits);
        await told.catch((error: unknown) =>
          agent.logger.warn({ peer: worker.name, error }, 'a member was not told of a change'),
        );
      }),
    );
  }

  /** Makes a change with the token, and gives it back whatever becomes of it. */
  private async changing(name: string, change: 'join' | 'leave', left: Left, work: () => Promise<void>): Promise<void> {
    const token = tokenOf(name, change);
    for (;;) {
      const held = await this.store.compareAndSet(TOKEN, '', token);
      if (held === token) break;
      await this.store.await(held, left(), `'${held}' holds the group's token, and its end`);
      // The key of an earlier change of the same worker is there already.
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      if (left() === 1)
        throw new RpcError('deadline-exceeded', `'${held}' holds the group's token: evict its worker if it is dead`);
    }
    try {
      await work();
    } finally {
      await this.store.set(TOKEN, '');
      await this.store.set(token, TOKEN_DONE);
    }
  }

  /** Frees the token of a worker that is known to be dead. Whether it held it. */
  private async freeToken(name: string): Promise<boolean> {
    if (!(await this.store.has(TOKEN))) return false;
    const held = await this.store.text(TOKEN);
    if (held !== tokenOf(name, 'join') && held !== tokenOf(name, 'leave')) return false;
    await this.store.set(TOKEN, '');
    await this.store.set(held, TOKEN_DONE);
    return true;
  }
}

/** What leaving may take when nothing is said: a group whose token is stuck must not keep a process. */
const LEAVE_MS = 60_000;

function isUnreachable(error: unknown): boolean {
  const code = rpcInfo(error)?.code;
  return code === 'unavailable' || code === 'peer-died' || code === 'deadline-exceeded';
}

/** Answers the changes that others make. */
export function followChanges(agent: Agent, group: DynamicGroup): void {
  agent.offered.answer(UPDATE, async ([worker, , , joins]) => {
    if (!(worker instanceof WorkerInfo) || typeof joins !== 'boolean')
      throw new TypeError('a malformed change of the group');
    if (!joins) agent.forget(worker.name);
    else {
      await group.admit(agent, worker, () => MEMBER_MS);
      agent.emit('peer-joined', worker);
    }
    return null;
  });
}
