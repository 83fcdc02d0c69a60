/** @file Drawn lives of a group beside a plain model of who is in it, with which ranks, and how it ends. */
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { MAX_EVENTS } from './limits.ts';
import { decode, encode } from './rendezvous-codec.ts';
import * as steps from './rendezvous.ts';
import type { Rendezvous, Terms } from './rendezvous.ts';

interface Host {
  readonly id: string;
  readonly order: number | null;
  readonly processes: number;
  rank: number;
  done: boolean;
}

/** What the group has come to; each event changes it in place. */
class Model {
  phase: Rendezvous['phase'] = 'gathering';
  ok = false;
  round = 0;
  restarts = 0;
  nextRank = 0;
  hosts: Host[] = [];
  waiting: Host[] = [];
  private readonly terms: Terms;

  constructor(terms: Terms) {
    this.terms = terms;
  }

  /** Why the host is refused. */
  arrive(host: Omit<Host, 'rank' | 'done'>): string | undefined {
    const { least, most } = this.terms;
    if (this.phase === 'closed') return this.ok ? 'finished already' : 'has ended';
    if ([...this.hosts, ...this.waiting].some(({ id }) => id === host.id)) return undefined;
    if (host.order !== null && this.hosts.some(({ order }) => order === host.order)) return 'is taken';
    const running = this.phase === 'running';
    if (this.isFull && running && least === most) return 'has its';
    const newcomer = { ...host, rank: 0, done: false };
    if (this.isFull || (running && this.isStatic)) this.waiting.push(newcomer);
    else this.enter(newcomer);
    return undefined;
  }

  start(): void {
    if (this.phase !== 'gathering' || this.hosts.length < this.terms.least) return;
    this.phase = 'running';
    if (this.isStatic) this.number();
  }

  reform(round: number): void {
    if (this.phase === 'running' && round === this.round && this.isStatic) this.again(this.hosts);
  }

  lose(id: string): void {
    if (this.phase === 'closed') return;
    this.waiting = this.waiting.filter((host) => host.id !== id);
    const host = this.hosts.find((one) => one.id === id);
    if (host === undefined || host.done) return;
    const rest = this.hosts.filter((one) => one !== host);
    if (this.phase === 'gathering') {
      this.hosts = rest;
      this.admit();
    } else if (!this.isStatic) this.shrink(rest);
    else if (rest.length + this.waiting.length >= this.terms.least) this.again(rest);
    else this.restart(rest);
  }

  fail(round: number, id: string): void {
    if (this.phase === 'closed' || round !== this.round) return;
    if (this.isStatic) this.restart(this.hosts);
    else this.shrink(this.hosts.filter((host) => host.id !== id));
  }

  replace(id: string): number | undefined {
    const may = !this.isStatic && this.phase === 'running' && this.restarts < this.terms.maxRestarts;
    if (!may || !this.hosts.some((host) => host.id === id)) return undefined;
    this.restarts++;
    return this.nextRank++;
  }

  finish(round: number, id: string): void {
    const host = this.hosts.find((one) => one.id === id);
    if (this.phase !== 'running' || round !== this.round || host === undefined || host.done) return;
    host.done = true;
    if (this.hosts.every(({ done }) => done)) this.close(true);
    else this.admit();
  }

  close(ok: boolean): void {
    this.phase = 'closed';
    this.ok = ok;
    this.waiting = [];
  }

  private get isStatic(): boolean {
    return this.terms.membership === 'static';
  }

  private get isFull(): boolean {
    return this.hosts.filter(({ done }) => !done).length >= this.terms.most;
  }

  private enter(host: Host): void {
    host.rank = this.nextRank;
    this.nextRank += host.processes;
    this.hosts.push(host);
  }

  private admit(): void {
    if (this.isStatic && this.phase === 'running') return;
    while (!this.isFull && this.waiting.length > 0) this.enter(this.waiting.shift() as Host);
  }

  private shrink(hosts: Host[]): void {
    this.hosts = hosts;
    this.admit();
    if (this.hosts.length > 0 && this.hosts.every(({ done }) => done)) this.close(true);
    else if (this.hosts.length < this.terms.least) this.close(false);
  }

  private restart(hosts: Host[]): void {
    if (this.restarts >= this.terms.maxRestarts) return this.close(false);
    this.restarts++;
    this.again(hosts);
  }

  private again(survivors: readonly Host[]): void {
    const all = [...survivors, ...this.waiting].map((host) => ({ ...host, done: false }));
    this.hosts = all.slice(0, this.terms.most);
    this.waiting = all.slice(this.terms.most);
    this.round++;
    this.phase = 'gathering';
    this.number();
    this.start();
  }

  private number(): void {
    const hosts = [...this.hosts].sort((a, b) => (a.order ?? 0) - (b.order ?? 0));
    [this.hosts, this.nextRank] = [[], 0];
    for (const host of hosts) this.enter(host);
  }
}

/** What matters of either. */
function text(
  { phase, ok, round, restarts, nextRank }: Model | Rendezvous,
  hosts: readonly (readonly [string, number, boolean])[],
  waiting: readonly { readonly id: string }[],
): string {
  const ids = waiting.map(({ id }) => id);
  return [phase, ok, round, restarts, nextRank, ...hosts.map(String), 'waiting', ...ids].join(' ');
}

function live(seed: number, membership: 'static' | 'dynamic', ends: Record<string, number>): void {
  const random = new Random(`rendezvous ${seed}`);
  const least = random.int(1, 4);
  const terms: Terms = { membership, least, most: random.int(least, 5), maxRestarts: random.int(0, 4) };
  const model = new Model(terms);
  const where = (step: number): string => `seed ${seed}, step ${step}`;
  let state = steps.opened(terms, 't');
  for (let step = 0; step < 60; step++) {
    const before = state;
    const was = text(model, modelled(model), model.waiting);
    const someone = random.pick([...model.hosts, ...model.waiting, { id: 'nobody' }]).id;
    const round = model.round - (random.chance(0.1) ? 1 : 0);
    const choices: Record<string, () => void> = {
      arrive: () => {
        const order = random.chance(0.3) ? random.int(0, 6) : null;
        const host = { id: random.chance(0.1) ? someone : `h${step}`, order, processes: random.int(1, 3) };
        const arrived = steps.arrive(state, { ...host, name: host.id }, terms);
        const refused = model.arrive(host);
        if (!steps.isRefusal(arrived)) state = arrived;
        const why = steps.isRefusal(arrived) ? arrived.refused : undefined;
        if (why !== refused) expect(why, where(step)).toMatch(refused ?? /^$/);
      },
      start: () => {
        state = steps.start(state);
        model.start();
      },
      reform: () => {
        state = steps.reform(state, round, 'growth');
        model.reform(round);
      },
      lose: () => {
        state = steps.lose(state, someone, 'lost');
        model.lose(someone);
      },
      fail: () => {
        state = steps.fail(state, round, someone, 'failed');
        model.fail(round, someone);
      },
      replace: () => {
        const replaced = steps.replace(state, someone, 'killed');
        const rank = model.replace(someone);
        if (replaced?.rank !== rank) expect(replaced?.rank, where(step)).toBe(rank);
        state = replaced?.state ?? state;
      },
      finish: () => {
        state = steps.finish(state, round, someone);
        model.finish(round, someone);
      },
      close: () => {
        state = steps.close(state, 'told to');
        if (model.phase !== 'closed') model.close(false);
      },
    };
    const weights = { arrive: 8, start: 4, reform: 1, lose: 1.5, fail: 1, replace: 1, finish: 3, close: 0.1 };
    const what = random.weighted(weights);
    (choices[what] as () => void)();
    const told = state.told - before.told;
    const needed = model.phase === 'running' && terms.least === terms.most;
    const hosts = state.hosts.map(({ id, firstRank, done }) => [id, firstRank, done] as const);
    const after = text(model, modelled(model), model.waiting);
    // One comparison a step: thousands of `expect` take longer than all else.
    const is = [
      text(state, hosts, state.waiting),
      state.hosts.map(({ id }) => steps.needs(state, id)),
      ...[
        steps.worldSize(state),
        state.events.length,
        steps.news(before, state),
        JSON.stringify(decode(encode(state))),
      ],
      // Who looks at the version alone sees each change, and hears of it.
      after === was || (state !== before && told > 0),
    ].join('\n');
    const wanted = [
      after,
      model.hosts.map(({ done }) => needed && !done),
      model.hosts.reduce((sum, { processes }) => sum + processes, 0),
      ...[Math.min(state.told, MAX_EVENTS), told === 0 ? [] : state.events.slice(-told), JSON.stringify(state)],
      true,
    ].join('\n');
    if (is !== wanted) expect(is, `${where(step)}: ${what}`).toBe(wanted);
  }
  const end = state.phase === 'closed' ? `closed ${state.ok}` : state.phase;
  ends[end] = (ends[end] ?? 0) + 1;
}

function modelled({ hosts }: Model): (readonly [string, number, boolean])[] {
  return hosts.map(({ id, rank, done }) => [id, rank, done] as const);
}

describe('a rendezvous', () => {
  it.each(['static', 'dynamic'] as const)('does what a model does in 200 drawn lives (%s)', (membership) => {
    const ends: Record<string, number> = {};
    for (let seed = 0; seed < 200; seed++) live(seed, membership, ends);
    // A drawing that never gets to what is interesting proves nothing.
    for (const end of ['closed true', 'closed false']) expect(ends[end], end).toBeGreaterThan(20);
  });

  it('tells those who come to a state all that it remembers, and those of another run too', () => {
    const terms: Terms = { membership: 'dynamic', least: 1, most: 4, maxRestarts: 0 };
    const host = (id: string, processes: number): Parameters<typeof steps.arrive>[1] => {
      return { id, name: id, order: null, processes };
    };
    let state = steps.opened(terms, 't');
    for (const [id, processes] of [['a', 1] as const, ['b', 2] as const])
      state = steps.arrive(state, host(id, processes), terms) as Rendezvous;
    state = steps.start(state);
    const all = ['host a joined as rank 0', 'host b joined as ranks 1 to 2', 'round 0 starts with 2 hosts, 3 workers'];
    expect(steps.news(undefined, state)).toEqual(all);
    expect(steps.news({ ...state, token: 'another', told: 2 }, state)).toEqual(all);
    expect(steps.news({ ...state, told: 1 }, state)).toEqual(all.slice(1));
    expect([steps.news(state, state), steps.isAlive(state, (id) => id === 'b')]).toEqual([[], true]);
    expect([steps.isAlive(state, () => false), steps.needs(state, 'a')]).toEqual([false, false]);
    const one = steps.start(steps.arrive(steps.opened(terms, 't'), host('a', 1), terms) as Rendezvous);
    expect(one.events.at(-1)).toBe('round 0 starts with 1 host, 1 worker');
    expect(steps.isAlive(steps.lose(state, 'b', 'lost'), (id) => id === 'b')).toBe(false);
  });
});
