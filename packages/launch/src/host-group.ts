/** @file One launcher's place in a group of several: it keeps a lease, agrees with the others on every round, and notices who is gone. */
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Lease, Store } from '@backwire/rpc';
import { joinAddress, newId, rpcInfo, withoutPassword, type StoreServer } from '@backwire/rpc/internal';
import { AgreedState, forgotten } from './agreed-state.ts';
import { LaunchError, messageOf } from './errors.ts';
import { announce, exitKey, exitNotice, HOSTED, type GroupRound, type RoundEnd } from './group-store.ts';
import { FAREWELL_MS, HOST_LEASE_MS, HOST_PATIENCE_MS, POLL_MS, STORE_GRACE_MS, WAIT_NOTICE_MS } from './limits.ts';
import { localAddressTo } from './local-address.ts';
import { keepSecret, NOT_KEPT } from './secret-file.ts';
import { openRendezvousStore, storeAddress } from './rendezvous-store.ts';
import { missing, whose } from './group-texts.ts';
import * as steps from './rendezvous.ts';
import type { Refusal, Rendezvous, Terms } from './rendezvous.ts';
import type { LaunchSettings } from './settings.ts';
import { StoreOutage } from './store-outage.ts';
import { afterAWhile, inTime } from './waiting.ts';

/** States: *gathering* → *running* ⇄ *gathering* → *closed*; as the rendezvous has them. */
export class HostGroup {
  private readonly options: LaunchSettings;
  private readonly terms: Terms;
  private readonly store: Store;
  private readonly server: StoreServer | undefined;
  private readonly bind: string | undefined;
  private readonly agreed: AgreedState;
  private readonly alivePrefix: string;
  private readonly ended = new AbortController();
  private readonly waiters = new Set<() => void>();
  private id = '';
  private lease: Lease | undefined;
  private state: Rendezvous | undefined;
  /** When the state last asked for patience: enough hosts, or someone waiting. */
  private since: { readonly what: string; readonly at: number } | undefined;
  private running: { readonly round: number; readonly over: AbortController } | undefined;
  private readonly outage = new StoreOutage();
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
    this.agreed = new AgreedState(store, `launcher/${options.runId}/rendezvous`, (state) => this.learn(state));
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

  /** Whether it is the store that it ended with, and no host. */
  get lostStore(): boolean {
    return this.gone !== undefined && this.state?.phase !== 'closed';
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
    return afterAWhile(this.options, () => missing(WAIT_NOTICE_MS, this.id, this.terms, this.state), this.due());
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
      if (left <= 0) throw new LaunchError(missing(joinTimeoutMs, this.id, this.terms, this.state));
      await this.change(left);
    }
  }

  /** The workers here have finished; resolves when those of all hosts have, or another round begins, or this launcher is told to stop. */
  async finish(round: GroupRound): Promise<void> {
    const { signal } = this.options;
    while (this.outcome === undefined && round.over?.aborted !== true && !signal.aborted) {
      // Also again: who told a store that had lost it the state may not have known yet.
      if (!this.isDone(round)) await this.insist((state) => steps.finish(state, round.round, this.id), round);
      await this.change(POLL_MS * 4);
    }
  }

  private isDone({ round }: GroupRound): boolean {
    const { state, id } = this;
    return state?.round === round && state.hosts.some((host) => host.id === id && host.done);
  }

  /** A worker here failed, and is not replaced: this host leaves a dynamic group, and a static one ends or begins again. */
  async fail(round: GroupRound, report: string): Promise<void> {
    const failed = (state: Rendezvous): Rendezvous => steps.fail(state, round.round, this.id, report);
    if (this.isDynamic) {
      this.reported = report;
      await this.tell(failed);
    } else await this.insist(failed, round);
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
    const { store, agreed, state, options } = this;
    await lease.revoke();
    if (options.backend === 'hosted' || state?.phase !== 'closed') return;
    // Others may be there although the store knows of none: it is left to the next group of this name.
    if (!this.outage.isJudge(performance.now()) || (await store.list(this.alivePrefix)).size > 0) return;
    if (await agreed.remove(state)) await this.sweep(state);
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
      ...(isDynamic ? { replace: (exit: string) => this.replace(exit, over).catch(() => undefined) } : {}),
    };
  }

  private async replace(exit: string, over: AbortController): Promise<number | undefined> {
    let rank: number | undefined;
    const done = await this.insist(
      (state) => {
        // The answer to a try before this one may have been lost.
        rank = steps.replacement(state, exit);
        if (rank !== undefined) return state;
        const replaced = steps.replace(state, this.id, exit);
        rank = replaced?.rank;
        return replaced?.state ?? state;
      },
      { over: over.signal },
    );
    return done ? rank : undefined;
  }

  /** Comes in under a new id: an earlier one may have been given up by the others. */
  private async arrive(): Promise<void> {
    const { backend, joinTimeoutMs } = this.options;
    const deadline = performance.now() + joinTimeoutMs;
    for (;;) {
      try {
        return await this.enter();
      } catch (error) {
        // A store that a launcher served has died with it.
        const isAway = backend !== 'hosted' && rpcInfo(error)?.code === 'unavailable';
        if (!isAway || performance.now() > deadline || this.options.signal.aborted) throw error;
        await sleep(POLL_MS);
      }
    }
  }

  private async enter(): Promise<void> {
    const { store, options } = this;
    this.id = newId();
    await this.claim();
    const host = { id: this.id, name: this.name(), order: options.nodeRank ?? null, processes: options.processes };
    const since = performance.now();
    for (let tries = 0; ; tries++) {
      let refusal: Refusal | undefined;
      let left: Rendezvous | undefined;
      try {
        await this.agreed.stepFrom(async (state) => {
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
    const former = this.lease;
    const lease = await this.store.lease(HOST_LEASE_MS);
    this.lease = lease;
    await this.store.set(this.alivePrefix + this.id, new TextEncoder().encode(this.name()), { lease });
    void lease.lost.then(() => this.lease === lease && (this.lease = undefined));
    former?.revoke().catch(() => undefined);
  }

  /** The last word of this host: a store that does not answer is not waited for. */
  private async tell(change: (state: Rendezvous) => Rendezvous): Promise<void> {
    if (this.gone === undefined) await inTime(FAREWELL_MS, this.agreed.step(change)).catch(() => undefined);
  }

  /**
   * What cannot be left unsaid is said again until a store that is away is back. False when it is of no interest any more: the group has
   * ended, `over` says so, or this launcher is told to stop.
   */
  private async insist(
    change: (state: Rendezvous) => Rendezvous,
    { over }: Pick<GroupRound, 'over'>,
  ): Promise<boolean> {
    const { signal } = this.options;
    const since = performance.now();
    for (;;) {
      const began = performance.now();
      const isOver = (): boolean =>
        this.outcome !== undefined ||
        over?.aborted === true ||
        (signal.aborted && performance.now() - began > FAREWELL_MS);
      const trial = this.agreed.step(change).then(
        () => 'said' as const,
        (error: unknown) => ({ error }),
      );
      // A store that stands still answers nothing for long: meanwhile it may be known that the group has ended with it.
      let end: Awaited<typeof trial> | undefined;
      do end = await Promise.race([trial, this.change(POLL_MS, trial).then(() => undefined)]);
      while (end === undefined && !isOver());
      if (end === 'said') return true;
      if (end === undefined || isOver() || signal.aborted) return false;
      // It may be read all the while, and take nothing.
      if (performance.now() - since > STORE_GRACE_MS) {
        this.lose(end.error);
        return false;
      }
      await this.change(POLL_MS);
    }
  }

  /** Looks at the store until the group is closed or this launcher is done. */
  private async watch(): Promise<void> {
    const { signal } = this.ended;
    let isTold = false;
    while (!signal.aborted) {
      try {
        // After so long the others have gone on without this host.
        await inTime(HOST_LEASE_MS, this.look());
        isTold = false;
      } catch (error) {
        if (signal.aborted) return;
        const awayMs = this.outage.failed(performance.now());
        // A store that a launcher served has died with it; a server of its own may come back.
        if (this.options.backend === 'hosted' || awayMs > STORE_GRACE_MS) {
          this.lose(error);
          return;
        }
        if (awayMs > WAIT_NOTICE_MS && !isTold) {
          isTold = true;
          const patience = `the group ends if that lasts ${STORE_GRACE_MS / 1000} s`;
          this.options.say(
            `backwire: the group's store${whose(this.options)} cannot be used; ${patience}: ${messageOf(error)}`,
          );
        }
      }
      await sleep(POLL_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  /** The store does not come back, and the group ends with it. */
  private lose(error: unknown): void {
    this.gone = `the group's store is gone${whose(this.options)}: ${messageOf(error)}`;
    this.endRound({ kind: 'lost', why: this.gone });
  }

  private async look(): Promise<void> {
    const asked = performance.now();
    const found = await this.agreed.read();
    // Read after the state: whoever is in the state had its key before.
    const alive = await this.store.list(this.alivePrefix);
    if (await this.restore(found)) return;
    const { state } = found;
    if (state === undefined) throw forgotten();
    const now = performance.now();
    this.outage.answered(now, now - asked);
    this.learn(state);
    if (state.phase === 'closed') return;
    const lives = (id: string): boolean => alive.has(this.alivePrefix + id);
    if (this.knows(state) && !lives(this.id)) {
      // As its own sign of life, those of others may have gone.
      this.outage.forgive(now);
      await this.claim();
    }
    if (this.outage.isJudge(now))
      for (const { id, name } of [...state.hosts, ...state.waiting])
        if (id !== this.id && !lives(id))
          await this.agreed.step((latest) => steps.lose(latest, id, `host ${name} is gone`));
    await this.advance();
  }

  /** Tells a server of its own the state again that it has lost, or of which it has an earlier one: it was started anew. */
  private async restore(found: Awaited<ReturnType<AgreedState['read']>>): Promise<boolean> {
    const { state: known, options, agreed } = this;
    if (options.backend === 'hosted' || known === undefined || known.phase === 'closed') return false;
    const isRestored = await agreed.restore(known, found);
    if (isRestored) this.outage.forgive(performance.now());
    return isRestored;
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
    await this.agreed.step((now) => (gathered ? steps.start(now) : steps.reform(now, round, `host ${names} joins`)));
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

  /** Resolves at the next change, or after so long, or with `work`, which does not fail. */
  private change(ms: number, work?: Promise<unknown>): Promise<void> {
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
      void work?.then(done);
    });
  }

  private name(): string {
    return `${hostname()} (pid ${process.pid})`;
  }
}

/** Whether `a` comes after `b`; both are of one run, or of two. */
function isNewer(a: Rendezvous, b: Rendezvous): boolean {
  return a.token !== b.token || a.version > b.version;
}
