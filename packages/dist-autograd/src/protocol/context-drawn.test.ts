/** @file Drawn uses of the table of contexts beside a model that counts anew each time: late lives, forged names, deaths and the limit. */
import { kept, Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { Context, ContextRefused, ContextTable } from './context.ts';
import { memberKey, publicId, sameMember, type ContextRef, type MemberRef } from './ids.ts';

type Ctx = Context<string, string>;

const SELF: MemberRef = { worker: 0, incarnation: 1 };
const LIMIT = 9;
const SHARE = 7;

const named = ({ worker, incarnation, local }: ContextRef): string => `${worker}.${incarnation}.${local}`;

interface ModelContext {
  readonly ref: ContextRef;
  readonly oldest: number;
  bringer: MemberRef | undefined;
}

/** What a creator has said itself in its latest life. */
interface Told {
  readonly incarnation: number;
  oldest: number;
  readonly over: Set<number>;
}

/** The rules of the table, with lists to look through in place of counts. */
class Model {
  contexts: ModelContext[] = [];
  drawn = 0;
  private readonly told = new Map<number, Told>();
  private readonly dead = new Map<number, number>();
  private readonly said = new Map<number, Set<string>>();

  create(): string {
    if (!this.hasRoom()) return 'full';
    const ref = { ...SELF, local: this.drawn++ };
    this.contexts.push({ ref, oldest: 0, bringer: undefined });
    return named(ref);
  }

  accept(ref: ContextRef, oldest: number, by: MemberRef): string {
    const known = this.lookup(ref);
    const first = sameMember(by, ref);
    if (known !== undefined) {
      if (!first) return named(ref);
      this.heard(ref, oldest);
      known.bringer = by;
      return named(ref);
    }
    if (sameMember(ref, SELF)) return 'released';
    if (ref.incarnation <= (this.dead.get(ref.worker) ?? -1)) return 'creator-dead';
    if (first) this.heard(ref, oldest);
    const stale = this.contexts.find((one) => one.ref.worker === ref.worker && one.ref.local === ref.local);
    if (ref.local < oldest || this.isOver(ref, by) || (stale !== undefined && !first)) return 'released';
    if (!this.hasRoom(by)) return 'full';
    this.contexts = this.contexts.filter((one) => one !== stale);
    this.contexts.push({ ref, oldest, bringer: by });
    return named(ref);
  }

  release(ref: ContextRef, oldest: number, by: MemberRef): string | undefined {
    const found = this.lookup(ref);
    if (!sameMember(by, ref)) {
      this.note(by, ref);
      if (found?.bringer === undefined || !sameMember(found.bringer, by)) return undefined;
      this.note(SELF, ref);
    } else if (!sameMember(ref, SELF)) {
      const told = this.heard(ref, oldest);
      if (told !== undefined && ref.local >= told.oldest) told.over.add(ref.local);
    }
    this.contexts = this.contexts.filter((one) => one !== found);
    return found && named(ref);
  }

  creatorDied(member: MemberRef): string[] {
    this.dead.set(member.worker, Math.max(member.incarnation, this.dead.get(member.worker) ?? -1));
    if ((this.told.get(member.worker)?.incarnation ?? Infinity) <= member.incarnation) this.told.delete(member.worker);
    return this.drop(({ ref }) => ref.worker === member.worker && ref.incarnation <= member.incarnation);
  }

  bringersDied(members: readonly MemberRef[], present: readonly MemberRef[]): string[] {
    for (const member of members) this.said.delete(memberKey(member));
    const has = (among: readonly MemberRef[], member: MemberRef): boolean =>
      among.some((one) => sameMember(one, member));
    return this.drop(
      ({ ref, bringer }) => bringer !== undefined && has(members, bringer) && !has([SELF, ...present], ref),
    );
  }

  oldestOf(ref: ContextRef): number {
    if (sameMember(ref, SELF))
      return Math.min(
        this.drawn,
        ...this.contexts.filter((one) => sameMember(one.ref, SELF)).map((one) => one.ref.local),
      );
    const told = this.told.get(ref.worker);
    return Math.max(told?.incarnation === ref.incarnation ? told.oldest : 0, this.lookup(ref)?.oldest ?? 0);
  }

  get tombstones(): number {
    return [...this.told.values()].reduce((sum, { over }) => sum + over.size, 0);
  }

  get remembered(): number {
    return [...this.said.values()].reduce((sum, { size }) => sum + size, 0);
  }

  lookup(ref: ContextRef): ModelContext | undefined {
    return this.contexts.find((one) => named(one.ref) === named(ref));
  }

  private hasRoom(by?: MemberRef): boolean {
    const free = LIMIT - this.contexts.length;
    const own = this.contexts.filter(({ bringer }) => by && bringer && sameMember(bringer, by)).length;
    return free > 0 && own < SHARE * free;
  }

  private drop(which: (context: ModelContext) => boolean): string[] {
    const gone = this.contexts.filter(which);
    this.contexts = this.contexts.filter((one) => !gone.includes(one));
    return gone.map(({ ref }) => named(ref));
  }

  private note(by: MemberRef, ref: ContextRef): void {
    this.said.set(memberKey(by), new Set([...(this.said.get(memberKey(by)) ?? []), named(ref)]));
  }

  private heard(ref: ContextRef, oldest: number): Told | undefined {
    const before = this.told.get(ref.worker);
    if (before !== undefined && before.incarnation > ref.incarnation) return undefined;
    const told = before?.incarnation === ref.incarnation ? before : { ...ref, oldest: 0, over: new Set<number>() };
    this.told.set(ref.worker, told);
    told.oldest = Math.max(told.oldest, oldest);
    for (const local of [...told.over]) if (local < told.oldest) told.over.delete(local);
    return told;
  }

  private isOver(ref: ContextRef, by: MemberRef): boolean {
    if (this.said.get(memberKey(by))?.has(named(ref)) === true) return true;
    const told = this.told.get(ref.worker);
    if (told === undefined || told.incarnation < ref.incarnation) return false;
    return told.incarnation > ref.incarnation || ref.local < told.oldest || told.over.has(ref.local);
  }
}

/** Draws steps for both until one says something else than the other; counts the answers. */
function compare(seed: number, answers: Record<string, number>): void {
  const random = new Random(`contexts ${seed}`);
  const table = new ContextTable<Ctx>(SELF, 0, (ref) => new Context(ref), LIMIT);
  const model = new Model();
  const other = (): MemberRef => ({ worker: random.int(1, 4), incarnation: random.chance(0.9) ? 1 : random.int(1, 4) });
  const anyRef = (): ContextRef => ({ ...(random.chance(0.1) ? SELF : other()), local: random.int(0, 8) });
  const alive = (): ContextRef => (model.contexts.length > 0 ? random.pick(model.contexts).ref : anyRef());
  const speaker = (ref: ContextRef): MemberRef =>
    random.chance(0.5) && ref.worker !== SELF.worker ? { worker: ref.worker, incarnation: ref.incarnation } : other();
  const oldest = (): number => (random.chance(0.8) ? 0 : random.int(0, 6));
  const said = (fn: () => Ctx | undefined): string | undefined => {
    try {
      const found = fn();
      return found && named(found.ref);
    } catch (error) {
      return error instanceof ContextRefused ? error.reason : String(error);
    }
  };
  const steps: Record<string, () => [unknown, unknown]> = {
    create: () => [said(() => table.create()), model.create()],
    accept: () => {
      const ref = random.chance(0.3) ? alive() : anyRef();
      const [by, mark] = [speaker(ref), oldest()];
      return [said(() => table.accept(ref, mark, by)), model.accept(ref, mark, by)];
    },
    release: () => {
      const ref = random.chance(0.7) ? alive() : anyRef();
      const by = ref.worker === SELF.worker || random.chance(0.5) ? ref : (model.lookup(ref)?.bringer ?? other());
      const mark = oldest();
      return [said(() => table.release(ref, mark, by)), model.release(ref, mark, by)];
    },
    creatorDied: () => {
      const member = other();
      return [
        table
          .creatorDied(member)
          .map(({ ref }) => named(ref))
          .sort(),
        model.creatorDied(member).sort(),
      ];
    },
    bringersDied: () => {
      const [dead, present] = [[other()], [other(), other()]];
      return [
        table
          .bringersDied(dead, present)
          .map(({ ref }) => named(ref))
          .sort(),
        model.bringersDied(dead, present).sort(),
      ];
    },
  };
  const weights = { create: 2, accept: 10, release: 6, creatorDied: 0.15, bringersDied: 0.5 };
  for (let step = 0; step < 100; step++) {
    const what = random.weighted(weights);
    const [answer, expected] = (steps[what] as (typeof steps)[string])();
    const asked = anyRef();
    const found = table.find(publicId(asked.worker, asked.local));
    const is = [
      answer,
      [...table].map(({ ref, oldest: mark }) => `${named(ref)} from ${mark}`).sort(),
      ...[table.size, table.tombstones, table.remembered, table.oldestOwn, table.oldestOf(asked)],
      found && named(found.ref),
      table.lookup(asked) !== undefined,
      table.hasEnded(publicId(SELF.worker, asked.local)),
    ].join('\n');
    const twin = model.contexts.find(({ ref }) => ref.worker === asked.worker && ref.local === asked.local);
    const own = model.contexts.some(({ ref }) => ref.worker === SELF.worker && ref.local === asked.local);
    const wanted = [
      expected,
      model.contexts.map(({ ref, oldest: mark }) => `${named(ref)} from ${mark}`).sort(),
      ...[model.contexts.length, model.tombstones, model.remembered],
      ...[model.oldestOf({ ...SELF, local: 0 }), model.oldestOf(asked)],
      twin && named(twin.ref),
      model.lookup(asked) !== undefined,
      asked.local < model.drawn && !own,
    ].join('\n');
    // One comparison a step: thousands of `expect` take longer than all else.
    if (is !== wanted) expect(is, `seed ${seed}, step ${step}: ${what}`).toBe(wanted);
    const kind = String(expected);
    answers[kind] = (answers[kind] ?? 0) + 1;
  }
  for (const { ref } of model.contexts) table.release(ref);
  expect(kept(table, ['creators', 'dead', 'hearsay'])).toEqual([]);
}

describe('a table of contexts', () => {
  it('has, refuses and lets go of what a model does, whoever says what of whom, over two hundred drawn uses', () => {
    const answers: Record<string, number> = {};
    for (let seed = 1; seed <= 200; seed++) compare(seed, answers);
    // A drawing that never gets to what is interesting proves nothing.
    for (const kind of ['released', 'creator-dead', 'full']) expect(answers[kind], kind).toBeGreaterThan(100);
  });
});
