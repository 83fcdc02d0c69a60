/** @file One launcher's place in a group of several: it keeps a lease, agrees with the others on every round, and notices who is gone. */
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Lease, Store } from '@backwire/rpc';
import { joinAddress, newId, within, withoutPassword, type StoreServer } from '@backwire/rpc/internal';
import { LaunchError, messageOf } from './errors.ts';
import { announce, exitKey, exitNotice, HOSTED, type GroupRound, type RoundEnd } from './group-store.ts';
import { FAREWELL_MS, HOST_LEASE_MS, HOST_PATIENCE_MS, POLL_MS, STORE_GRACE_MS, WAIT_NOTICE_MS } from './limits.ts';
import { localAddressTo } from './local-address.ts';
import { keepSecret, NOT_KEPT } from './secret-file.ts';
import { openRendezvousStore, storeAddress } from './rendezvous-store.ts';
import * as steps from './rendezvous.ts';
import type { Refusal, Rendezvous, Terms } from './rendezvous.ts';
import type { LaunchSettings } from './settings.ts';

const decoder = new TextDecoder();

/** States: *gathering* → *running* ⇄ *gathering* → *closed*; as the rendezvous has them. */
export class HostGroup {
  private readonly options: LaunchSettings;
  private readonly terms: Terms;
  private readonly store: Store;
  private readonly server: StoreServer | undefined;
  private readonly bind: string | undefined;
  private readonly stateKey: string;
  private readonly alivePrefix: string;
  private readonly ended = new AbortController();
  private readonly waiters = new Set<() => void>();
  private id = '';
  private lease: Lease | undefined;
  private state: Rendezvous | undefined;
  /** When the state last asked for patience: enough hosts, or someone waiting. */
  private since: { readonly what: string; readonly at: number } | undefined;
  private running: { readonly round: number; readonly over: AbortController } | undefined;
  private gone: string | undefined;
  /** The failure that is the result of this launch, and is said there. */
  private reported: string | undefined;
  private watching: Promise<void> | undefined;
  private kept = NOT_KEPT;
  private forget = (): void => undefined;

  private constructor(options: LaunchSettings, store: Store, server: StoreServer | undefined, bind?: string) {
    this.options = options;
    const { nodes: most, minNodes: least, membership, maxRestarts } = options;
    this.terms = { membership, least, most, maxRestarts };
    this.store = store;
    this.server = server;
    this.bind = bind;
    this.stateKey = `launcher/${options.runId}/rendezvous`;
    this.alivePrefix = `launcher/${options.runId}/alive/`;
    const { secret, freshSecret } = options;
    if (server !== undefined && freshSecret && secret !== undefined) this.kept = keepSecret(secret, server.port);
  }

  /**
   * Finds the others, or is the first.
   * @throws LaunchError when the store cannot be had or the group does not take this host.
   */
  static async join(options: LaunchSettings): Promise<HostGroup> {
    const { masterAddr, masterPort } = options;
    const { store, server } = await afterAWhile(
      options,
      () => `nobody answers at ${masterAddr}:${masterPort} yet, where the group's store is to be`,
      openRendezvousStore(options),
    );
    const bind = options.localAddr ?? (await localAddressTo(options.masterAddr).catch(() => undefined));
    const group = new HostGroup(options, store, server, bind);
    try {
      await group.arrive();
      group.watching = group.watch();
      return group;
    } catch (error) {
      await group.close();
      throw error instanceof LaunchError ? error : new LaunchError(messageOf(error), { cause: error });
    }
  }

  get isDynamic(): boolean {
    return this.terms.membership === 'dynamic';
  }

  /** Whether it says what happens to the group. */
  get tells(): boolean {
    return this.terms.least !== this.terms.most || this.isDynamic;
  }

  /** Why the round before ended. */
  get reason(): string {
    return this.state?.why ?? '';
  }

  /** How the group ended; undefined while it has not. */
  get outcome(): { readonly ok: boolean; readonly why: string } | undefined {
    if (this.state?.phase === 'closed') return this.state;
    return this.gone === undefined ? undefined : { ok: false, why: this.gone };
  }

  /**
   * Waits until the workers of this host have to run; undefined when the group has ended instead.
   * @throws LaunchError naming the hosts that did not come in time.
   */
  round(): Promise<GroupRound | undefined> {
    return afterAWhile(this.options, () => this.missing(WAIT_NOTICE_MS), this.due());
  }

  private async due(): Promise<GroupRound | undefined> {
    const { joinTimeoutMs, signal } = this.options;
    const deadline = performance.now() + joinTimeoutMs;
    for (;;) {
      if (this.outcome !== undefined || signal.aborted) return undefined;
      const { state } = this;
      if (state !== undefined && !this.knows(state)) await this.arrive();
      else if (state?.phase === 'running') {
        const at = state.hosts.findIndex(({ id }) => id === this.id);
        if (at >= 0) return this.begin(state, at);
      }
      const left = deadline - performance.now();
      if (left <= 0) throw new LaunchError(this.missing(joinTimeoutMs));
      await this.change(left);
    }
  }

  /** The workers here have finished; resolves when those of all hosts have, or another round begins, or this launcher is told to stop. */
  async finish(round: GroupRound): Promise<void> {
    await this.step((state) => steps.finish(state, round.round, this.id));
    const { signal } = this.options;
    while (this.outcome === undefined && round.over?.aborted !== true && !signal.aborted)
      await this.change(POLL_MS * 4);
  }

  /** A worker here failed, and is not replaced. */
  async fail(round: GroupRound, report: string): Promise<void> {
    if (this.isDynamic) this.reported = report;
    await this.tell((state) => steps.fail(state, round.round, this.id, report));
  }

  /** This launcher was told to stop: a group of a fixed size whose workers run ends, another goes on without this host. */
  async leave(why: string): Promise<void> {
    const name = this.name();
    await this.tell((state) =>
      steps.needs(state, this.id)
        ? steps.close(state, why)
        : steps.lose(state, this.id, `host ${name} has left: ${why}`),
    );
  }

  async close(): Promise<void> {
    this.ended.abort();
    this.forget();
    this.kept.forget();
    await this.watching;
    const { gone, lease } = this;
    if (gone === undefined && lease !== undefined)
      await inTime(FAREWELL_MS, this.farewell(lease)).catch(() => undefined);
    await this.store.close();
    await this.server?.close({ lingerMs: FAREWELL_MS });
  }

  /** Leaves; the last of a group that has ended takes with it what it wrote to a store that goes on. */
  private async farewell(lease: Lease): Promise<void> {
    const { store, stateKey, state, options } = this;
    await lease.revoke();
    if (options.backend === 'hosted' || state?.phase !== 'closed') return;
    if ((await store.list(this.alivePrefix)).size > 0) return;
    const found = await store.get(stateKey);
    if (found === undefined || readState(found).token !== state.token) return;
    // Deleted only while it is this: another group of the name may begin.
    const brief = await store.lease(HOST_LEASE_MS);
    await store.compareAndSet(stateKey, found, found, { lease: brief });
    await brief.revoke();
    await this.sweep(state);
  }

  /** Deletes what the workers of a group wrote in all its rounds. */
  private async sweep({ token }: Rendezvous): Promise<void> {
    const keys = await this.store.list(this.prefixOf(token));
    await Promise.all([...keys.keys()].map((key) => this.store.delete(key)));
  }

  private prefixOf(token: string): string {
    return `backwire/runs/${this.options.runId}/${token}/`;
  }

  private begin(state: Rendezvous, at: number): GroupRound {
    const { options, isDynamic } = this;
    const over = new AbortController();
    this.running = { round: state.round, over };
    const prefix = `${this.prefixOf(state.token)}${state.round}/`;
    const store = storeAddress(options, this.server?.port);
    this.forget();
    this.forget = announce(
      options,
      joinAddress(withoutPassword(store), prefix, this.server?.webSocketEndpoint),
      this.kept.path,
    );
    return {
      host: options.masterAddr,
      port: this.server?.port ?? options.masterPort,
      env: {
        ...HOSTED,
        BACKWIRE_STORE: store,
        BACKWIRE_STORE_PREFIX: prefix,
        BACKWIRE_MEMBERSHIP: options.membership,
        ...(this.bind === undefined ? {} : { BACKWIRE_BIND: this.bind }),
      },
      nodeRank: at,
      nodes: state.hosts.length,
      firstRank: state.hosts[at]?.firstRank ?? 0,
      worldSize: isDynamic ? undefined : steps.worldSize(state),
      round: state.round,
      restarts: state.restarts,
      over: over.signal,
      // Only a hint for the others: without it they notice the death themselves.
      exited: (exit) => void this.store.set(prefix + exitKey(exit), exitNotice(exit)).catch(() => undefined),
      ...(isDynamic ? { replace: (exit: string) => this.replace(exit).catch(() => undefined) } : {}),
    };
  }

  private async replace(exit: string): Promise<number | undefined> {
    let rank: number | undefined;
    await this.step((state) => {
      const replaced = steps.replace(state, this.id, exit);
      rank = replaced?.rank;
      return replaced?.state ?? state;
    });
    return rank;
  }

  /** Comes in under a new id: an earlier one may have been given up by the others. */
  private async arrive(): Promise<void> {
    const { store, options } = this;
    this.id = newId();
    await this.claim();
    const host = { id: this.id, name: this.name(), order: options.nodeRank ?? null, processes: options.processes };
    const since = performance.now();
    for (let tries = 0; ; tries++) {
      let refusal: Refusal | undefined;
      let left: Rendezvous | undefined;
      try {
        await this.stepFrom(async (state) => {
          const alive = await store.list(this.alivePrefix);
          // Nobody of it lives: it is what a former run left behind.
          left =
            state === undefined || steps.isAlive(state, (id) => alive.has(this.alivePrefix + id)) ? undefined : state;
          const current = state === undefined || left !== undefined ? steps.opened(this.terms, newId()) : state;
          const next = steps.arrive(current, host, this.terms);
          if (!steps.isRefusal(next)) return next;
          refusal = next;
          throw new LaunchError(next.refused);
        });
        // What it left is in nobody's way.
        if (left !== undefined) await this.sweep(left).catch(() => undefined);
        return;
      } catch (error) {
        // Who is in the way may be a host that was killed: it has its lease a little longer.
        if (refusal?.mayPass !== true || performance.now() - since > HOST_PATIENCE_MS || options.signal.aborted)
          throw error;
        if (tries === 0)
          options.say(`backwire: ${refusal.refused}; waits for ${HOST_LEASE_MS / 1000} s, in case one is gone`);
        await sleep(POLL_MS);
      }
    }
  }

  private async claim(): Promise<void> {
    const lease = await this.store.lease(HOST_LEASE_MS);
    this.lease = lease;
    await this.store.set(this.alivePrefix + this.id, new TextEncoder().encode(this.name()), { lease });
    void lease.lost.then(() => this.lease === lease && (this.lease = undefined));
  }

  /** The last word of this host: a store that does not answer is not waited for. */
  private async tell(change: (state: Rendezvous) => Rendezvous): Promise<void> {
    if (this.gone === undefined) await inTime(FAREWELL_MS, this.step(change)).catch(() => undefined);
  }

  /** Changes the agreed state, as often as someone else is faster. */
  private step(change: (state: Rendezvous) => Rendezvous): Promise<void> {
    return this.stepFrom((state) => {
      if (state === undefined) throw new LaunchError('the state of the group is no longer in the store');
      return change(state);
    });
  }

  private async stepFrom(change: (state: Rendezvous | undefined) => Rendezvous | Promise<Rendezvous>): Promise<void> {
    for (;;) {
      const before = await this.store.get(this.stateKey);
      const state = before === undefined ? undefined : readState(before);
      const changed = await change(state);
      if (changed === state) return this.learn(changed);
      const next = { ...changed, version: changed.version + 1 };
      const { ok } = await this.store.compareAndSet(this.stateKey, before ?? null, steps.encode(next));
      if (ok) return this.learn(next);
    }
  }

  /** Looks at the store until the group is closed or this launcher is done. */
  private async watch(): Promise<void> {
    const { signal } = this.ended;
    let failing: number | undefined;
    while (!signal.aborted) {
      try {
        // After so long the others have gone on without this host.
        await inTime(HOST_LEASE_MS, this.look());
        failing = undefined;
      } catch (error) {
        if (signal.aborted) return;
        const now = performance.now();
        failing ??= now;
        // A store that a launcher served has died with it; a server of its own may come back.
        if (this.options.backend === 'hosted' || now - failing > STORE_GRACE_MS) {
          this.gone = `the group's store is gone${this.whose()}: ${messageOf(error)}`;
          this.endRound({ kind: 'lost', why: this.gone });
          return;
        }
      }
      await sleep(POLL_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  private async look(): Promise<void> {
    const bytes = await this.store.get(this.stateKey);
    // Read after the state: whoever is in the state had its key before.
    const alive = await this.store.list(this.alivePrefix);
    if (bytes === undefined) throw new LaunchError('the state of the group is no longer in the store');
    const state = readState(bytes);
    this.learn(state);
    if (state.phase === 'closed') return;
    const lives = (id: string): boolean => alive.has(this.alivePrefix + id);
    if (this.lease === undefined && this.knows(state)) await this.claim();
    for (const { id, name } of [...state.hosts, ...state.waiting])
      if (id !== this.id && !lives(id)) await this.step((now) => steps.lose(now, id, `host ${name} is gone`));
    await this.advance();
  }

  /** Starts the round that is due: with all that may come, or once nobody has for a while. */
  private async advance(): Promise<void> {
    const { state, options } = this;
    if (state === undefined) return;
    const { phase, hosts, waiting, least, most, round } = state;
    const gathered = phase === 'gathering' && hosts.length >= least;
    const pending = phase === 'running' && !this.isDynamic && waiting.length > 0 && hosts.length < most;
    if (!gathered && !pending) {
      this.since = undefined;
      return;
    }
    const what = `${phase} ${round} ${hosts.length + waiting.length}`;
    if (this.since?.what !== what) this.since = { what, at: performance.now() };
    const complete = gathered && hosts.length >= most;
    if (!complete && performance.now() - this.since.at < options.lastCallMs) return;
    const names = waiting.map(({ name }) => name).join(', ');
    await this.step((now) => (gathered ? steps.start(now) : steps.reform(now, round, `host ${names} joins`)));
  }

  /** Takes note of a state; tells people, and the workers that have to stop. */
  private learn(state: Rendezvous): void {
    const { state: before, options } = this;
    if (before !== undefined && !isNewer(state, before)) return;
    this.state = state;
    if (this.tells)
      for (const line of steps.news(before, state)) if (line !== this.reported) options.say(`backwire: ${line}`);
    const { running } = this;
    if (running !== undefined) {
      if (state.phase === 'closed') this.endRound({ kind: 'closed', why: state.why });
      else if (state.round !== running.round) this.endRound({ kind: 'reformed', why: state.why });
      else if (!this.knows(state)) this.endRound({ kind: 'removed', why: 'the other hosts went on without this one' });
    }
    for (const wake of [...this.waiters]) wake();
  }

  private endRound(end: RoundEnd): void {
    this.running?.over.abort(end);
    this.running = undefined;
    for (const wake of [...this.waiters]) wake();
  }

  private knows({ hosts, waiting }: Rendezvous): boolean {
    return [...hosts, ...waiting].some(({ id }) => id === this.id);
  }

  /** Resolves at the next change, or after so long. */
  private change(ms: number): Promise<void> {
    const { signal } = this.options;
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.waiters.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.waiters.add(done);
      signal.addEventListener('abort', done);
    });
  }

  private whose(): string {
    const { backend, masterAddr, masterPort } = this.options;
    if (backend !== 'hosted') return ` (${backend} at ${masterAddr}:${masterPort})`;
    const advice = 'with --rdzv-backend etcd or redis it outlives every launcher';
    return ` (the launcher at ${masterAddr}:${masterPort} served it; ${advice})`;
  }

  private name(): string {
    return `${hostname()} (pid ${process.pid})`;
  }

  private missing(ms: number): string {
    const { terms } = this;
    const time = `${ms / 1000} s`;
    const hosts = this.state?.hosts ?? [];
    if (this.state?.waiting.some(({ id }) => id === this.id) === true)
      return `the group had no room for this host in ${time}`;
    if (hosts.some(({ order }) => order === null)) return `${hosts.length} of ${terms.least} hosts came in ${time}`;
    const here = new Set(hosts.map(({ order }) => order));
    const absent = Array.from({ length: terms.least }, (_, n) => n).filter((n) => !here.has(n));
    return `hosts ${absent.join(', ')} of ${terms.least} did not come in ${time}`;
  }
}

/** Tells people once, when `work` takes its time, what this host waits for and how long it will. */
async function afterAWhile<T>(
  { say, joinTimeoutMs }: LaunchSettings,
  what: () => string,
  work: Promise<T>,
): Promise<T> {
  const patience = `this host waits for ${joinTimeoutMs / 1000} s`;
  const timer = setTimeout(() => say(`backwire: ${what()}; ${patience}`), WAIT_NOTICE_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}

/** @throws when it takes longer. */
function inTime(ms: number, work: Promise<void>): Promise<void> {
  return within(work, ms, () => {
    throw new Error(`no answer in ${ms / 1000} s`);
  });
}

/** Whether `a` comes after `b`; both are of one run, or of two. */
function isNewer(a: Rendezvous, b: Rendezvous): boolean {
  return a.token !== b.token || a.version > b.version;
}

function readState(bytes: Uint8Array): Rendezvous {
  const state = steps.decode(bytes);
  if (state === undefined)
    throw new LaunchError(
      `the store holds something that is not the state of a group: ${decoder.decode(bytes.subarray(0, 40))}`,
    );
  return state;
}
