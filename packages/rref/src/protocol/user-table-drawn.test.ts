/** @file Drawn uses of a user table beside a model that counts anew each time: answers from the wrong ones, deaths and limits included. */
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { DeadMembers, memberKey, workerOf, type GlobalId, type MemberKey } from './ids.ts';
import type { Failure } from './messages.ts';
import { UserTable, type UserFork, type UserPhase } from './user-table.ts';

const SELF = memberKey(0, 1);
const OTHERS = [1, 2, 3, 4].map((worker) => memberKey(worker, 1));
const MOST_PENDING = 3;
const FAILED: Failure = { code: 'deadline-exceeded', text: 'timed out' };

const named = ({ member, local }: GlobalId): string => `${workerOf(member)}.${local}`;

interface ModelFork {
  readonly id: string;
  readonly owner: MemberKey;
  readonly parent: MemberKey;
  phase: UserPhase;
  released: boolean;
  failure: string | undefined;
}

/** The rules of a user table, with lists to look through in place of counts. */
class Model {
  readonly forks = new Map<string, ModelFork>();
  readonly children = new Map<string, { readonly parent: ModelFork; readonly at: MemberKey }>();
  readonly events: string[] = [];
  private readonly dead: DeadMembers;

  constructor(dead: DeadMembers) {
    this.dead = dead;
  }

  get unsettled(): ModelFork[] {
    return [...this.forks.values()].filter(({ phase }) => phase === 'creating' || phase === 'pending');
  }

  add(id: string, owner: MemberKey, parent: MemberKey, phase: UserPhase): string {
    this.forks.set(id, { id, owner, parent, phase, released: false, failure: undefined });
    return phase;
  }

  arrive(id: string, owner: MemberKey, parent: MemberKey): string {
    if (this.forks.has(id)) return 'known';
    if (this.dead.has(owner)) return 'gone';
    if (owner === parent) return this.add(id, owner, parent, 'confirmed');
    if (this.unsettled.filter((each) => each.phase === 'pending' && each.parent === parent).length >= MOST_PENDING) {
      this.accept(id, parent);
      return 'gone';
    }
    this.events.push(`fork-request to ${workerOf(owner)}: ${id}`);
    return this.add(id, owner, parent, 'pending');
  }

  acknowledged(id: string, refused: Failure | undefined, from: MemberKey): void {
    const fork = this.forks.get(id);
    if (fork?.phase !== 'pending' || fork.owner !== from) return;
    if (refused === undefined) this.accept(id, fork.parent);
    else fork.released = true;
    this.settle(fork, refused === undefined ? 'confirmed' : 'refused', refused?.code);
  }

  created(id: string, failure?: Failure): void {
    const fork = this.forks.get(id);
    if (fork?.phase !== 'creating') return;
    if (failure !== undefined) this.events.push(`create-failed to ${workerOf(fork.owner)}: ${id}`);
    this.settle(fork, 'confirmed', failure?.code);
  }

  release(fork: ModelFork): void {
    fork.released = true;
    this.deleteIfDone(fork);
  }

  childrenDone(which: (child: { readonly parent: ModelFork; readonly at: MemberKey }, id: string) => boolean): void {
    for (const [id, child] of [...this.children].filter(([id, child]) => which(child, id))) {
      this.children.delete(id);
      this.deleteIfDone(child.parent);
    }
  }

  lose(which: (fork: ModelFork) => boolean): void {
    for (const fork of [...this.forks.values()].filter(which)) {
      for (const [id, { parent }] of [...this.children]) if (parent === fork) this.children.delete(id);
      if (this.unsettled.includes(fork)) this.events.push(`${fork.id} settled: owner-died`);
      this.drop(fork);
    }
  }

  private settle(fork: ModelFork, phase: UserPhase, failure: string | undefined): void {
    fork.phase = phase;
    fork.failure = failure;
    this.events.push(`${fork.id} settled: ${failure ?? 'well'}`);
    this.deleteIfDone(fork);
  }

  private deleteIfDone(fork: ModelFork): void {
    const keeps = [...this.children.values()].some(({ parent }) => parent === fork) || this.unsettled.includes(fork);
    if (!fork.released || keeps || this.forks.get(fork.id) !== fork) return;
    this.drop(fork);
    if (fork.phase === 'refused') this.accept(fork.id, fork.parent);
    else this.events.push(`user-delete to ${workerOf(fork.owner)}: ${fork.id}`);
  }

  private drop(fork: ModelFork): void {
    this.forks.delete(fork.id);
    this.events.push(`${fork.id} dropped`);
  }

  private accept(id: string, parent: MemberKey): void {
    if (!this.dead.has(parent)) this.events.push(`child-accept to ${workerOf(parent)}: ${id}`);
  }
}

interface Seen {
  readonly answers: Record<string, number>;
  lost: number;
}

/** Draws steps for both until one says something else than the other. */
function compare(seed: number, seen: Seen): void {
  const random = new Random(`user table ${seed}`);
  const dead = new DeadMembers();
  const events: string[] = [];
  const table = new UserTable(
    SELF,
    dead,
    {
      send: (to, message) => {
        const forks = 'forks' in message ? message.forks : 'fork' in message ? [message.fork] : [];
        events.push(`${message.kind} to ${workerOf(to)}: ${forks.map(named).join()}`);
      },
      settled: (fork) => void events.push(`${named(fork)} settled: ${fork.failure?.code ?? 'well'}`),
      dropped: (fork) => void events.push(`${named(fork)} dropped`),
    },
    undefined,
    MOST_PENDING,
  );
  const model = new Model(dead);
  const held = new Map<string, UserFork>();
  let drawn = 0;
  const drawId = (): GlobalId => ({ member: SELF, local: drawn++ });
  const other = (): MemberKey => random.pick(OTHERS);
  /** Of those that are in no group any more there are no messages. */
  const alive = (): MemberKey => random.pick([...OTHERS.filter((member) => !dead.has(member)), memberKey(9, 1)]);
  const one = (): UserFork | undefined => (held.size === 0 ? undefined : random.pick([...held.values()]));
  const keep = (fork: UserFork | undefined): string => {
    if (fork !== undefined && fork.phase !== 'gone') held.set(named(fork), fork);
    return fork?.phase ?? 'known';
  };
  const steps: Record<string, () => readonly [unknown, unknown]> = {
    create: () => {
      const [rref, fork, owner] = [drawId(), drawId(), alive()];
      return [keep(table.create(fork, rref, owner)), model.add(named(fork), owner, SELF, 'creating')];
    },
    arrive: () => {
      const [parent, owner] = [alive(), other()];
      const [fork, rref] = [
        { member: parent, local: random.int(0, 8) },
        { member: owner, local: 0 },
      ];
      return [keep(table.arrive(fork, rref, owner, parent)), model.arrive(named(fork), owner, parent)];
    },
    acknowledged: () => {
      const fork = one();
      if (fork === undefined) return [0, 0];
      const [from, refused] = [random.chance(0.8) ? fork.owner : alive(), random.chance(0.2) ? FAILED : undefined];
      return [table.acknowledged(fork, refused, from), model.acknowledged(named(fork), refused, from)];
    },
    created: () => {
      const fork = one();
      if (fork === undefined) return [0, 0];
      if (random.chance(0.7)) return [table.created(fork), model.created(named(fork))];
      return [table.createFailed(fork, FAILED), model.created(named(fork), FAILED)];
    },
    share: () => {
      const [fork, child, to] = [one(), drawId(), alive()];
      const parent = fork && model.forks.get(named(fork));
      if (fork === undefined || parent === undefined || parent.released) return [0, 0];
      table.share(fork, child, to);
      model.children.set(named(child), { parent, at: to });
      return [0, 0];
    },
    childDone: () => {
      const child = random.chance(0.9) && model.children.size > 0 ? random.pick([...model.children.keys()]) : '0.99';
      const from = random.pick([undefined, model.children.get(child)?.at, other()]);
      model.childrenDone(({ at }, id) => id === child && (from === undefined || at === from));
      const [worker, local] = child.split('.').map(Number) as [number, number];
      return [table.childDone({ member: memberKey(worker, 1), local }, from), undefined];
    },
    release: () => {
      const fork = one();
      const known = fork && model.forks.get(named(fork));
      if (fork === undefined || known === undefined) return [0, 0];
      return [table.release(fork), model.release(known)];
    },
    death: () => {
      const member = other();
      if (!dead.add(member)) return [0, 0];
      const present = OTHERS.filter((each) => !dead.has(each) && random.chance(0.8));
      table.died(member);
      model.lose(({ owner }) => owner === member);
      table.orphaned([member], present);
      model.lose(({ phase, parent, owner }) => phase === 'pending' && parent === member && !present.includes(owner));
      return [0, 0];
    },
    fenced: () => {
      const [owner, gone] = [other(), new Set(OTHERS.filter((member) => dead.has(member)))];
      table.fenced(owner, gone);
      return [undefined, model.childrenDone((child) => child.parent.owner === owner && gone.has(child.at))];
    },
  };
  const weights = {
    ...{ create: 3, arrive: 10, acknowledged: 8, created: 3, share: 6 },
    ...{ childDone: 6, release: 6, death: 0.2, fenced: 1 },
  };
  for (let step = 0; step < 120; step++) {
    const what = random.weighted(weights);
    const [answer, expected] = (steps[what] as (typeof steps)[string])();
    const is = text(
      answer,
      events,
      [...table.all()].map(shown),
      [...table.childHolders()],
      [...[table.size, table.pendingUsers, table.pendingChildren]],
    );
    const holders = [...model.children.values()].map(({ at }) => at);
    const wanted = text(expected, model.events, [...model.forks.values()].map(shownOf), holders, [
      ...[model.forks.size, model.unsettled.length, model.children.size],
    ]);
    // One comparison a step: thousands of `expect` take longer than all else.
    if (is !== wanted) expect(is, `seed ${seed}, step ${step}: ${what}`).toBe(wanted);
    seen.answers[String(expected)] = (seen.answers[String(expected)] ?? 0) + 1;
    seen.lost += events.filter((event) => event.endsWith('owner-died')).length;
    events.length = model.events.length = 0;
    for (const [name, fork] of held) if (fork.phase === 'gone') held.delete(name);
  }
}

const shown = ({ phase, released, failure, ...id }: UserFork): string =>
  `${named(id)} ${phase} ${released} ${failure?.code}`;
const shownOf = ({ id, phase, released, failure }: ModelFork): string => `${id} ${phase} ${released} ${failure}`;

/** What happens at once happens in any order. */
function text(answer: unknown, ...seen: (readonly (string | number)[])[]): string {
  const [events = [], forks = [], holders = [], counts = []] = seen;
  return [[answer], events.toSorted(), forks.toSorted(), holders.toSorted(), counts].map(String).join('\n');
}

describe('a user table', () => {
  it('holds, sends and lets go of what a model does, over a hundred drawn uses', () => {
    const seen: Seen = { answers: {}, lost: 0 };
    for (let seed = 1; seed <= 100; seed++) compare(seed, seen);
    // A drawing that never gets to what is interesting proves nothing.
    for (const kind of ['known', 'gone', 'pending', 'confirmed', 'creating'])
      expect(seen.answers[kind], kind).toBeGreaterThan(100);
    expect(seen.lost).toBeGreaterThan(20);
  });
});
