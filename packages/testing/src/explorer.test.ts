import { describe, expect, it } from 'vitest';
import { canonical } from './canonical.ts';
import { assertExplored, explore, formatExploration, type Model, type Step } from './explorer.ts';
import { HashSet64 } from './hash-set.ts';
import { replaying } from './replay-model.ts';

/** Two processes and a lock that may or may not be a lock. */
interface Mutex {
  readonly pc: readonly ('idle' | 'wants' | 'inside' | 'done')[];
  readonly lock: boolean;
}

const mutex = (workers: number, works: boolean): Model<Mutex> => ({
  name: `mutex of ${workers}`,
  initial: [{ pc: new Array<'idle'>(workers).fill('idle'), lock: false }],
  *steps(state) {
    for (const [i, pc] of state.pc.entries()) {
      const to = (next: Mutex['pc'][number], lock = state.lock): Step<Mutex> => ({
        label: `worker ${i} ${next}`,
        next: () => ({ pc: state.pc.map((old, j) => (i === j ? next : old)), lock }),
      });
      if (pc === 'idle') yield to('wants');
      else if (pc === 'wants' && !(works && state.lock)) yield to('inside', true);
      else if (pc === 'inside') yield to('done', false);
    }
  },
  invariant: ({ pc }) => (pc.filter((at) => at === 'inside').length > 1 ? 'two are inside' : undefined),
  terminal: ({ pc }) => (pc.every((at) => at === 'done') ? undefined : 'stuck'),
});

const reversed = (state: Mutex): Mutex => ({ ...state, pc: [...state.pc].reverse() });

describe('explore', () => {
  it('counts the states and edges of a known space', () => {
    // Lattice paths: a counter pair up to (9, 9) has 100 states and 2 * 10 * 9 edges.
    const result = explore<readonly [number, number]>({
      name: 'grid',
      initial: [[0, 0]],
      *steps([x, y]) {
        if (x < 9) yield { label: 'right', next: () => [x + 1, y] };
        if (y < 9) yield { label: 'up', next: () => [x, y + 1] };
      },
    });
    expect(result).toMatchObject({ states: 100, edges: 180, depth: 18, terminals: 1, complete: true });
  });

  it('proves a right lock and finds the shortest way to break a wrong one', () => {
    assertExplored(explore(mutex(3, true)));
    const broken = explore(mutex(3, false));
    expect(broken.violation?.rule).toBe('invariant');
    expect(broken.violation?.trace).toHaveLength(4);
    expect(formatExploration(broken)).toMatch(/two are inside\n {4}1\. worker \d wants/);
    expect(() => assertExplored(broken)).toThrow('two are inside');
  });

  it('explores fewer states with a symmetry and finds the same bug', () => {
    const plain = explore(mutex(2, true));
    const folded = explore({ ...mutex(2, true), symmetries: [reversed] });
    expect(folded.states).toBeLessThan(plain.states);
    expect(explore({ ...mutex(2, false), symmetries: [reversed] }).violation?.trace).toHaveLength(4);
  });

  it('reports a state where everything stopped wrongly', () => {
    const stuck = explore<number>({
      name: 'stuck',
      initial: [0],
      steps: (n) => (n < 3 ? [{ label: 'on', next: () => n + 1 }] : []),
      terminal: (n) => (n === 3 ? 'ends at three' : undefined),
    });
    expect(stuck.violation).toMatchObject({ rule: 'terminal', trace: ['on', 'on', 'on'], state: 3 });
  });

  it('reports an exception in a step with the path to it', () => {
    const result = explore<number>({
      name: 'throws',
      initial: [0],
      steps: (n) => [{ label: `step ${n}`, next: () => (n < 2 ? n + 1 : fail()) }],
    });
    expect(result.violation).toMatchObject({ rule: 'exception', trace: ['step 0', 'step 1', 'step 2'] });
  });

  it('says when a bound cut it', () => {
    const endless: Model<number> = {
      name: 'endless',
      initial: [0],
      steps: (n) => [{ label: 'on', next: () => n + 1 }],
    };
    expect(explore(endless, { maxStates: 100 })).toMatchObject({ complete: false, states: 100 });
    expect(explore(endless, { maxDepth: 10 })).toMatchObject({ complete: false, depth: 10 });
    expect(explore(endless, { maxMs: 5 }).complete).toBe(false);
    expect(explore(endless, { maxHeapBytes: 1 })).toMatchObject({ complete: false, states: 1 });
    expect(() => assertExplored(explore(endless, { maxStates: 10 }))).toThrow('cut by its bounds');
  });
});

describe('replaying', () => {
  class Live {
    #values: number[] = [];
    push(value: number): void {
      this.#values.push(value);
    }
    get values(): readonly number[] {
      return this.#values;
    }
  }

  it('explores objects with private state', () => {
    const model = replaying<Live>({
      name: 'stack',
      create: () => new Live(),
      actions: (live) => (live.values.length < 3 ? ['0', '1'] : []),
      apply: (live, action) => live.push(Number(action)),
      encode: (live) => live.values.join(),
      terminal: (live) => (live.values.join() === '1,0,1' ? 'found it' : undefined),
    });
    const result = explore(model);
    expect(result.violation).toMatchObject({ rule: 'terminal', trace: ['1', '0', '1'] });
    const sorted = explore(
      replaying<Live>({
        name: 'bag',
        create: () => new Live(),
        actions: (live) => (live.values.length < 3 ? ['0', '1'] : []),
        apply: (live, action) => live.push(Number(action)),
        encode: (live) => [...live.values].join(),
        symmetric: (live) => [[...live.values].map((v) => 1 - v).join()],
      }),
    );
    expect(sorted).toMatchObject({ complete: true, states: 8 });
  });
});

describe('HashSet64', () => {
  it('keeps every distinct text over several growths', () => {
    const set = new HashSet64(16);
    for (let i = 0; i < 50_000; i++) expect(set.add(`state ${i}`)).toBe(true);
    for (let i = 0; i < 50_000; i += 997) expect(set.add(`state ${i}`)).toBe(false);
    expect(set.size).toBe(50_000);
  });
});

describe('canonical', () => {
  it('is equal for equal data whatever the insertion order', () => {
    const a = {
      x: 1,
      y: new Map([
        [1, 'a'],
        [2, 'b'],
      ] as const),
      z: new Set([3n, 4n]),
    };
    const b = {
      z: new Set([4n, 3n]),
      y: new Map([
        [2, 'b'],
        [1, 'a'],
      ] as const),
      x: 1,
    };
    expect(canonical(a)).toBe(canonical(b));
  });

  it('tells apart what differs', () => {
    const values = [0, -0, '0', 0n, null, undefined, [], {}, [[]], [0], ['0'], new Set([0]), Uint8Array.of(0), 'null'];
    expect(new Set(values.map(canonical)).size).toBe(values.length);
    expect(() => canonical(new Date())).toThrow(TypeError);
    expect(() => canonical({ f: () => 1 })).toThrow(TypeError);
  });
});

function fail(): never {
  throw new Error('broken step');
}
