/** @file Drawn uses of an owner table beside a model that counts anew each time: forged ids, deaths and limits included. */
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { DeadMembers, memberKey, type GlobalId, type MemberKey } from './ids.ts';
import type { Failure } from './messages.ts';
import { OwnerTable, type OwnerPhase } from './owner-table.ts';

const OWNER = memberKey(0, 1);
const OTHERS = [1, 2, 3, 4].map((worker) => memberKey(worker, 1));
const LIMITS = { maxForksPerHolder: 4, maxAwaited: 2 };
const GIVEN_UP: Failure = { code: 'deadline-exceeded', text: 'timed out' };

const named = ({ member, local }: GlobalId): string => `${OTHERS.indexOf(member) + 1}.${local}`;

interface ModelEntry {
  phase: OwnerPhase;
  /** Who mentioned it before its creation came. */
  readonly by: MemberKey;
}

interface ModelFork {
  readonly id: string;
  readonly holder: MemberKey;
  readonly rref: string;
}

/** The rules of an owner table, with lists to look through in place of counts. */
class Model {
  readonly entries = new Map<string, ModelEntry>();
  forks: ModelFork[] = [];
  readonly events: string[] = [];
  /** Who has let go of each fork last; a word about one that was not there takes nobody's place. */
  private readonly deleted = new Map<string, MemberKey>();
  private readonly dead: DeadMembers;

  constructor(dead: DeadMembers) {
    this.dead = dead;
  }

  /** All that can be seen of it, after a step that was answered so. What goes at once goes in any order. */
  said(answer: string | undefined): string {
    const entries = [...this.entries].map(
      ([rref, { phase }]) => `${rref} ${phase} ${this.forks.filter((fork) => fork.rref === rref).length}`,
    );
    const forks = this.forks.map(({ id, holder, rref }) => `${id} of ${holder}: ${rref}`);
    return text(answer, this.events, entries, forks, [entries.length, forks.length]);
  }

  mention(rref: GlobalId, by: MemberKey): void {
    this.obtain(rref, by);
    this.freeIfUnheld(named(rref));
  }

  share(rref: GlobalId, fork: GlobalId, holder: MemberKey): void {
    if (!this.entries.has(named(rref))) this.entries.set(named(rref), { phase: 'settled', by: OWNER });
    this.forks.push({ id: named(fork), holder, rref: named(rref) });
  }

  create(rref: GlobalId, fork: GlobalId, creator: MemberKey): string | undefined {
    const refused = this.refusal(fork, creator);
    if (refused !== undefined) this.abandon(named(rref), refused);
    else {
      const entry = this.entries.get(named(rref)) ?? { phase: 'created', by: creator };
      if (entry.phase === 'awaited') entry.phase = 'created';
      this.entries.set(named(rref), entry);
      this.register(rref, fork, creator);
    }
    return refused;
  }

  createFailed(rref: GlobalId, fork: GlobalId, creator: MemberKey): void {
    if (!this.holds(fork, creator) && this.refusal(fork, creator) === undefined) {
      this.obtain(rref, creator);
      this.register(rref, fork, creator);
    }
    this.abandon(named(rref), GIVEN_UP.code);
  }

  request(rref: GlobalId, fork: GlobalId, holder: MemberKey): string | undefined {
    if (this.holds(fork, holder)) return undefined;
    const refused = fork.member === OWNER ? 'protocol-error' : this.refusal(fork, holder);
    if (refused !== undefined) return refused;
    this.obtain(rref, holder);
    this.register(rref, fork, holder);
    return undefined;
  }

  delete(fork: GlobalId, holder: MemberKey): void {
    if (!this.deleted.has(named(fork))) this.deleted.set(named(fork), holder);
    this.remove((each) => each.id === named(fork) && each.holder === holder);
  }

  unshare(fork: GlobalId): void {
    for (const { holder } of this.forks.filter(({ id }) => id === named(fork))) this.delete(fork, holder);
  }

  settle(rref: GlobalId): void {
    const entry = this.entries.get(named(rref));
    if (entry !== undefined) entry.phase = 'settled';
    this.freeIfUnheld(named(rref));
  }

  creatorDied(member: MemberKey): void {
    for (const rref of [...this.entries.keys()])
      if (rref.startsWith(named({ member, local: 0 }).slice(0, 2))) this.abandon(rref, 'peer-died');
  }

  remove(gone: (fork: ModelFork) => boolean): void {
    const removed = this.forks.filter(gone);
    this.forks = this.forks.filter((fork) => !gone(fork));
    for (const { id, holder, rref } of removed) {
      this.deleted.set(id, holder);
      this.freeIfUnheld(rref);
    }
  }

  private holds(fork: GlobalId, holder: MemberKey): boolean {
    return this.forks.some((each) => each.id === named(fork) && each.holder === holder);
  }

  private register(rref: GlobalId, fork: GlobalId, holder: MemberKey): void {
    if (!this.holds(fork, holder)) this.forks.push({ id: named(fork), holder, rref: named(rref) });
  }

  private refusal(fork: GlobalId, holder: MemberKey): string | undefined {
    if (this.deleted.get(named(fork)) === holder) return 'rref-released';
    if (this.dead.has(holder)) return 'fenced';
    const held = this.forks.filter((each) => each.holder === holder).length;
    return held < LIMITS.maxForksPerHolder ? undefined : 'resource-exhausted';
  }

  private obtain(rref: GlobalId, by: MemberKey): void {
    const known = this.entries.get(named(rref));
    if (known !== undefined) return;
    this.entries.set(named(rref), { phase: 'awaited', by });
    const awaited = [...this.entries.values()].filter((each) => each.phase === 'awaited' && each.by === by).length;
    if (rref.member === OWNER) this.fail(named(rref), 'rref-released');
    else if (this.dead.has(rref.member)) this.fail(named(rref), 'peer-died');
    else if (awaited > LIMITS.maxAwaited) this.fail(named(rref), 'resource-exhausted');
  }

  private abandon(rref: string, code: string): void {
    const phase = this.entries.get(rref)?.phase;
    if (phase !== 'awaited' && phase !== 'created') return;
    this.fail(rref, code);
    this.freeIfUnheld(rref);
  }

  private fail(rref: string, code: string): void {
    const entry = this.entries.get(rref);
    if (entry !== undefined) entry.phase = 'settled';
    this.events.push(`${rref} failed: ${code}`);
  }

  private freeIfUnheld(rref: string): void {
    const entry = this.entries.get(rref);
    if (entry === undefined || entry.phase === 'awaited' || this.forks.some((fork) => fork.rref === rref)) return;
    this.entries.delete(rref);
    this.events.push(`${rref} freed`);
  }
}

function text(
  answer: string | undefined,
  events: readonly string[],
  entries: readonly string[],
  forks: readonly string[],
  counts: readonly number[],
): string {
  return [[answer], events.toSorted(), entries.toSorted(), forks.toSorted(), counts]
    .map((each) => each.join('; '))
    .join('\n');
}

interface Seen {
  readonly refusals: Record<string, number>;
  doubles: number;
  freed: number;
}

/** Draws steps for both until one says something else than the other. */
function compare(seed: number, seen: Seen): void {
  const random = new Random(`owner table ${seed}`);
  const dead = new DeadMembers();
  const events: string[] = [];
  const table = new OwnerTable<string>(
    OWNER,
    dead,
    {
      freed: (entry) => void events.push(`${named(entry)} freed`),
      failed: (entry, { code }) => void events.push(`${named(entry)} failed: ${code}`),
    },
    undefined,
    LIMITS,
  );
  const model = new Model(dead);
  let drawn = 0;
  const other = (): MemberKey => random.pick(OTHERS);
  const id = (member: MemberKey, count: number): GlobalId => ({ member, local: random.int(0, count) });
  const anyRRef = (): GlobalId => id(random.pick([OWNER, ...OTHERS]), 3);
  const anyFork = (): GlobalId => id(random.pick(OTHERS), 5);
  const steps: Record<string, () => [string, string | undefined, string | undefined]> = {
    share: () => {
      const [rref, fork, to] = [id(OWNER, 3), { member: OWNER, local: 100 + drawn++ }, other()];
      model.share(rref, fork, to);
      return ['share', void table.share(rref, 'value', fork, to), undefined];
    },
    unshare: () => {
      const fork = { member: OWNER, local: 100 + random.int(0, drawn + 1) };
      return ['unshare', void table.unshare(fork), void model.unshare(fork)];
    },
    request: () => {
      const [rref, fork, by] = [anyRRef(), random.chance(0.05) ? id(OWNER, 3) : anyFork(), other()];
      return [`request ${named(fork)}`, table.request(rref, fork, by)?.code, model.request(rref, fork, by)];
    },
    delete: () => {
      // Most often what is there.
      const [fork, by] =
        model.forks.length > 0 && random.chance(0.8)
          ? (({ id, holder }) => [idOf(id), holder] as const)(random.pick(model.forks))
          : ([anyFork(), other()] as const);
      return ['delete', void table.delete(fork, by), void model.delete(fork, by)];
    },
    create: () => {
      const by = other();
      const [rref, fork] = [id(by, 3), id(by, 5)];
      return ['create', table.create(rref, fork, by)?.code, model.create(rref, fork, by)];
    },
    createFailed: () => {
      const by = other();
      const [rref, fork] = [id(by, 3), id(by, 5)];
      return [
        'createFailed',
        void table.createFailed(rref, fork, by, GIVEN_UP),
        void model.createFailed(rref, fork, by),
      ];
    },
    run: () => {
      const rref = id(other(), 3);
      const known = model.entries.get(named(rref));
      const expected = known?.phase === 'created' ? 'runs' : undefined;
      const entry = table.start(rref);
      if (expected !== undefined) model.settle(rref);
      if (entry !== undefined) table.settle(entry);
      return ['run', entry && 'runs', expected];
    },
    mention: () => {
      const [rref, by] = [anyRRef(), other()];
      model.mention(rref, by);
      return ['mention', void table.mention(rref, by), undefined];
    },
    death: () => {
      const member = other();
      if (!dead.add(member)) return ['death', undefined, undefined];
      return ['death', void table.creatorDied(member), void model.creatorDied(member)];
    },
    fenced: () => {
      const gone = new Set(OTHERS.filter((member) => dead.has(member)));
      table.releaseHeldBy(gone);
      return ['fenced', undefined, void model.remove(({ holder }) => gone.has(holder))];
    },
  };
  const weights = {
    ...{ share: 4, unshare: 2, request: 10, delete: 12, create: 6 },
    ...{ createFailed: 3, run: 4, mention: 3, death: 0.15, fenced: 1 },
  };
  for (let step = 0; step < 120; step++) {
    const [what, answer, expected] = (steps[random.weighted(weights)] as (typeof steps)[string])();
    // One comparison a step: thousands of `expect` take longer than all else.
    const entries = [...table.all()].map((entry) => `${named(entry)} ${entry.phase} ${entry.forks}`);
    const forks = [...table.allForks()].map((fork) => `${named(fork)} of ${fork.holder}: ${named(fork.entry)}`);
    const is = text(answer, events, entries, forks, [table.size, table.forkCount]);
    const wanted = model.said(expected);
    if (is !== wanted) expect(is, `seed ${seed}, step ${step}: ${what}`).toBe(wanted);
    if (expected !== undefined) seen.refusals[expected] = (seen.refusals[expected] ?? 0) + 1;
    seen.freed += events.filter((event) => event.endsWith('freed')).length;
    events.length = model.events.length = 0;
    if (model.forks.some((a) => model.forks.filter((b) => a.id === b.id).length > 2)) seen.doubles++;
  }
}

function idOf(name: string): GlobalId {
  const [worker, local] = name.split('.').map(Number) as [number, number];
  return { member: memberKey(worker, 1), local };
}

describe('an owner table', () => {
  it('has, refuses and frees what a model does, whoever claims which id, over a hundred drawn uses', () => {
    const seen: Seen = { refusals: {}, doubles: 0, freed: 0 };
    for (let seed = 1; seed <= 100; seed++) compare(seed, seen);
    // A drawing that never gets to what is interesting proves nothing.
    for (const kind of ['rref-released', 'fenced', 'resource-exhausted', 'protocol-error', 'runs'])
      expect(seen.refusals[kind], kind).toBeGreaterThan(100);
    expect(seen.doubles).toBeGreaterThan(100);
    expect(seen.freed).toBeGreaterThan(1_000);
  });
});
