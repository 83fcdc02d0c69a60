import { describe, expect, it } from 'vitest';
import { Context, ContextRefused, ContextTable } from './context.ts';
import { comparePasses, localId, publicId, splitId, type ContextRef } from './ids.ts';
import { compareKeys, Invocation, type OrderKey } from './order-key.ts';

type Ctx = Context<string, string>;
const tableOf = (worker: number, life = 0, limit?: number): ContextTable<Ctx> =>
  new ContextTable<Ctx>({ worker, incarnation: 100 + life }, life, (ref) => new Context(ref), limit);
const ref = (local: number, incarnation = 100, worker = 7): ContextRef => ({ worker, incarnation, local });

const reasonOf = (fn: () => unknown): string => {
  try {
    fn();
    return 'accepted';
  } catch (error) {
    return error instanceof ContextRefused ? error.reason : String(error);
  }
};

describe('ids', () => {
  it('are those of torch in a first life: the worker in the upper 16 bits, a counter from 0 below', () => {
    expect(tableOf(0).create().id).toBe(0n);
    const table = tableOf(3);
    expect([table.create().id, table.create().id]).toEqual([3n << 48n, (3n << 48n) + 1n]);
    expect([table.nextMessage(), table.nextMessage()]).toEqual([0, 1]);
    expect(publicId(0xffff, 2 ** 48 - 1)).toBe((0xffffn << 48n) + 281474976710655n);
    expect(splitId(publicId(5, 77))).toEqual({ worker: 5, local: 77 });
  });

  it('of later lives never meet those of the first', () => {
    expect(tableOf(3, 1).create().id).toBe((3n << 48n) + (1n << 38n));
    expect(localId(1024, 0)).toBe(0);
    expect(() => localId(0, 2 ** 38)).toThrow('wrapped around');
  });

  it('that cannot be are found nowhere', () => {
    const table = tableOf(0);
    for (const id of [-1n, 1n << 64n, 5n, 'x' as unknown as bigint]) expect(table.find(id)).toBeUndefined();
  });
});

describe('a context on another worker', () => {
  it('is made by the first message and found by the next', () => {
    const table = tableOf(1);
    const made = table.accept(ref(4), 0);
    expect(table.accept(ref(4), 0)).toBe(made);
    expect(table.find(publicId(7, 4))).toBe(made);
    expect(table.size).toBe(1);
  });

  it('never comes back after its release, whether it was there or not', () => {
    const table = tableOf(1);
    const made = table.accept(ref(4), 0);
    expect(table.release(ref(4))).toBe(made);
    expect(made.released).toBe(true);
    expect(table.release(ref(9))).toBeUndefined();
    expect(reasonOf(() => table.accept(ref(4), 0))).toBe('released');
    expect(reasonOf(() => table.accept(ref(9), 0))).toBe('released');
    expect(table.tombstones).toBe(2);
  });

  it("is refused below the creator's oldest, which also buries the tombstones", () => {
    const table = tableOf(1);
    for (let i = 0; i < 50; i++) table.release(ref(i));
    expect(table.tombstones).toBe(50);
    table.accept(ref(60), 48);
    expect(table.tombstones).toBe(2);
    expect(reasonOf(() => table.accept(ref(47), 0))).toBe('released');
    expect(reasonOf(() => table.accept(ref(50), 0))).toBe('accepted');
  });

  it('is over for good, however many have ended since: the oldest ends are kept as one mark', () => {
    const table = tableOf(1);
    for (let i = 0; i < 65_540; i++) table.release(ref(2 * i));
    expect(table.tombstones).toBe(65_536);
    expect(table.oldestOf(ref(0))).toBe(7);
    for (const local of [0, 6, 8, 2 * 65_539]) expect(reasonOf(() => table.accept(ref(local), 0))).toBe('released');
    expect(reasonOf(() => table.accept(ref(9), 0))).toBe('accepted');
    table.creatorDied({ worker: 7, incarnation: 100 });
    expect(table.tombstones).toBe(0);
  });

  it('that is alive here stays when the mark passes it', () => {
    const table = tableOf(1);
    const made = table.accept(ref(4), 0);
    table.accept(ref(60), 60);
    expect(table.accept(ref(4), 60)).toBe(made);
  });

  it('of its own creator is never made by a message', () => {
    const table = tableOf(7);
    const own = table.create();
    expect(table.accept(own.ref, 0)).toBe(own);
    table.release(own.ref);
    expect(reasonOf(() => table.accept(own.ref, 0))).toBe('released');
    expect(table.tombstones).toBe(0);
  });

  it('goes with its creator, and no straggler brings it back', () => {
    const table = tableOf(1);
    const made = table.accept(ref(4), 0);
    const other = table.accept(ref(4, 100, 8), 0);
    expect(table.creatorDied({ worker: 7, incarnation: 100 })).toEqual([made]);
    expect(reasonOf(() => table.accept(ref(5), 0))).toBe('creator-dead');
    expect([...table]).toEqual([other]);
    expect(reasonOf(() => table.accept(ref(0, 101), 0))).toBe('accepted');
  });

  it('of an earlier life gives way to the same number in a later one', () => {
    const table = tableOf(1);
    const old = table.accept(ref(4), 0);
    const young = table.accept(ref(4, 100 + 1024), 0);
    expect(table.lookup(ref(4))).toBeUndefined();
    expect(table.find(publicId(7, 4))).toBe(young);
    expect([old.released, young.released, table.size]).toEqual([true, false, 1]);
    expect(reasonOf(() => table.accept(ref(5), 0))).toBe('released');
  });

  it('is one of a bounded number', () => {
    const table = tableOf(1, 0, 3);
    for (let i = 0; i < 3; i++) table.accept(ref(i), 0);
    expect(reasonOf(() => table.accept(ref(3), 0))).toBe('full');
    table.release(ref(0));
    expect(reasonOf(() => table.accept(ref(3), 0))).toBe('accepted');
  });
});

describe("the creator's oldest context", () => {
  it('follows releases in whatever order', () => {
    const table = tableOf(0);
    const [a, b, c] = [table.create(), table.create(), table.create()];
    expect(table.oldestOwn).toBe(0);
    table.release(b.ref);
    expect(table.oldestOwn).toBe(0);
    table.release(a.ref);
    expect(table.oldestOwn).toBe(c.ref.local);
    table.release(c.ref);
    expect(table.oldestOwn).toBe(3);
  });
});

describe('order', () => {
  it('of calls: by ordinal, outer before inner, request before response', () => {
    const main = new Invocation([]);
    const [first, second] = [main.next(), main.next()];
    const inner = new Invocation(first).next();
    const keys: OrderKey[] = [
      { path: first, direction: 'request' },
      { path: first, direction: 'response' },
      { path: inner, direction: 'request' },
      { path: inner, direction: 'response' },
      { path: second, direction: 'request' },
    ];
    expect([...keys].reverse().sort(compareKeys)).toEqual(keys);
    expect(compareKeys(keys[0]!, keys[0]!)).toBe(0);
  });

  it('is refused where calls are nested without end', () => {
    let path = new Invocation([]).next();
    expect(() => {
      for (;;) path = new Invocation(path).next();
    }).toThrow('nested deeper than 1024');
  });

  it('of passes: by worker, life and number', () => {
    const passes = [
      { worker: 0, incarnation: 2, n: 9 },
      { worker: 1, incarnation: 1, n: 5 },
      { worker: 1, incarnation: 2, n: 1 },
      { worker: 1, incarnation: 2, n: 2 },
    ];
    expect([...passes].reverse().sort(comparePasses)).toEqual(passes);
  });
});

describe('contexts that one member brings', () => {
  const from = (worker: number): { worker: number; incarnation: number } => ({ worker, incarnation: 100 });

  it('leave room for those of others', () => {
    const table = tableOf(1, 0, 16);
    let brought = 0;
    while (reasonOf(() => table.accept(ref(brought, 5, 60_000), 0, from(2))) === 'accepted') brought++;
    expect(brought).toBe(14);
    expect(reasonOf(() => table.accept(ref(0, 100, 3), 0, from(3)))).toBe('accepted');
    expect(reasonOf(() => table.create())).toBe('accepted');
    expect(reasonOf(() => table.create())).toBe('full');
  });

  it('are ten thousand of one member without more ado', () => {
    const table = tableOf(1);
    for (let i = 0; i < 10_000; i++) table.accept(ref(i), 0, from(2));
    expect(table.size).toBe(10_000);
    for (let i = 10_000; i < 10_500; i++) table.accept(ref(i), 0, from(2));
    expect(() => table.accept(ref(10_500), 0, from(2))).toThrow(
      /^10500 autograd contexts are alive on this worker, 10500 of which one member has brought, .*limits\.maxContexts \(12000\)/,
    );
    expect(reasonOf(() => table.accept(ref(0, 100, 3), 0, from(3)))).toBe('accepted');
  });

  it('go with it when nobody is there who could have made them', () => {
    const table = tableOf(1);
    const forged = table.accept(ref(0, 5, 60_000), 0, from(2));
    const others = [table.accept(ref(0, 100, 3), 0, from(2)), table.accept(ref(1, 5, 60_000), 0, from(3))];
    expect(table.bringersDied([from(4)], [from(1), from(2), from(3)])).toEqual([]);
    expect(table.bringersDied([from(2)], [from(1), from(3)])).toEqual([forged]);
    expect([forged.released, table.size, ...others.map(({ released }) => released)]).toEqual([true, 2, false, false]);
  });

  it('are ended by whoever brought them and by their creator, not by others', () => {
    const table = tableOf(1);
    const made = table.accept(ref(4), 0, from(2));
    expect(table.release(ref(4), 0, from(3))).toBeUndefined();
    expect(made.released).toBe(false);
    expect(table.release(ref(4), 0, from(2))).toBe(made);
    // What this worker calls on itself comes late too.
    expect(reasonOf(() => table.accept(ref(4), 0, from(1)))).toBe('released');
    const again = table.accept(ref(4), 0, from(3 + 1));
    expect(table.release(ref(4))).toBe(again);
    expect(reasonOf(() => table.accept(ref(4), 0, from(4)))).toBe('released');
    expect(table.size).toBe(0);
  });

  it('are not brought again by a member that said they are over, whose calls may come later', () => {
    const table = tableOf(1);
    table.release(ref(4), 0, from(2));
    expect(reasonOf(() => table.accept(ref(4), 0, from(2)))).toBe('released');
    expect(reasonOf(() => table.accept(ref(4), 0))).toBe('accepted');
  });

  it("are the creator's as soon as it speaks of them, so that a forger cannot end them", () => {
    const table = tableOf(1);
    const forged = table.accept(ref(4), 0, from(2));
    expect(table.accept(ref(4), 0)).toBe(forged);
    expect(table.release(ref(4), 0, from(2))).toBeUndefined();
    expect(forged.released).toBe(false);
  });

  it("change nothing of what the creator's own messages say", () => {
    const table = tableOf(1);
    const real = table.accept(ref(4), 0);
    // A life that has not come yet, a mark that is far ahead, an end of what is alive and of what is still to come.
    expect(reasonOf(() => table.accept(ref(4, 200), 0, from(2)))).toBe('released');
    expect(reasonOf(() => table.accept(ref(5, 200), 0, from(2)))).toBe('accepted');
    expect(reasonOf(() => table.accept(ref(6), 2 ** 40, from(2)))).toBe('released');
    for (const local of [4, 5, 6]) table.release(ref(local), 2 ** 40, from(2));
    expect([real.released, table.accept(ref(4), 0)]).toEqual([false, real]);
    for (const local of [5, 6]) expect(reasonOf(() => table.accept(ref(local), 4))).toBe('accepted');
    expect(table.oldestOf(ref(6))).toBe(4);
  });

  it('leave nothing behind of creators that do not exist', () => {
    const table = tableOf(1);
    for (let worker = 1_000; worker < 9_000; worker++) table.release(ref(0, 5, worker), 1, from(2));
    expect(table.tombstones).toBe(0);
    expect(table.remembered).toBe(1_024);
    table.bringersDied([from(2)], []);
    expect(table.remembered).toBe(0);
  });
});
