/** @file Drawn programs of scopes beside and inside of each other, some of whose code goes on when they have ended, against a model of whose each tensor is. */
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { ambient } from '../src/ambient.ts';
import { keep, scope, zeros, type Tensor } from '../src/index.ts';
import { adoptIntoScope, scopeHere, untracked } from '../src/scope.ts';

/** What a scope ought to be. */
interface Expected {
  readonly parent: Expected | undefined;
  readonly holds: Set<Tensor>;
  ended: boolean;
  /** What stands for it in the library. */
  real: { readonly owned: ReadonlySet<unknown> } | undefined;
}

/** Everything else that is ready runs first: what a scope does at its end is done when the next one goes on. */
const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

class Program {
  private readonly random: Random;
  private readonly scopes: Expected[] = [];
  private readonly all: Tensor[] = [];
  private readonly freed = new Set<Tensor>();
  private readonly running: Promise<unknown>[] = [];
  private left = 60;
  /** The first thing that was not as expected. */
  problem: string | undefined;

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  async run(): Promise<void> {
    this.running.push(this.code(undefined), this.code(undefined));
    while (this.running.length > 0) await this.running.pop();
    this.check();
    expect(this.scopes.every(({ ended }) => ended)).toBe(true);
  }

  /** Code in a scope, or in none; what it made or was given. */
  private async code(here: Expected | undefined): Promise<Tensor[]> {
    const mine: Tensor[] = [];
    for (let i = this.random.int(1, 8); i > 0 && this.left > 0; i--) {
      this.left--;
      await tick();
      this.check();
      await this.step(here, mine);
    }
    return mine;
  }

  private async step(here: Expected | undefined, mine: Tensor[]): Promise<void> {
    const [any] = this.all.length > 0 ? [this.random.pick(this.all)] : [];
    switch (this.random.int(0, 9)) {
      case 0:
      case 1:
        return void mine.push(this.given(zeros([1]), here));
      case 2:
        return void mine.push(this.given(any === undefined || any.disposed ? zeros([1]) : any.neg(), here));
      case 3: {
        const t = untracked(() => zeros([1]));
        adoptIntoScope(t);
        return void mine.push(this.given(t, here));
      }
      case 4: {
        // As an answer, which comes to the scope in which it was asked for.
        const [asked, expected] = [scopeHere(), taker(here)];
        const t = untracked(() => zeros([1]));
        await tick();
        asked?.adopt([t]);
        return void mine.push(this.given(t, expected));
      }
      case 5:
        if (any !== undefined) keep({ any });
        for (let at = here; at !== undefined && any !== undefined; at = at.parent) at.holds.delete(any);
        return;
      case 6:
        return void mine.push(...this.inline(here));
      case 7: {
        const inner = this.scoped(here);
        if (this.random.chance(0.5)) mine.push(...(await inner));
        else this.running.push(inner);
        return;
      }
      default:
        // Goes on for itself, as a timer does.
        this.running.push(this.code(here));
    }
  }

  private inline(outer: Expected | undefined): Tensor[] {
    const own = this.open(outer);
    return scope(() => {
      own.real = ambient().scope as Expected['real'];
      const made = [0, 1, 2].map(() => this.given(zeros([1]), own));
      return this.end(own, made);
    });
  }

  private scoped(outer: Expected | undefined): Promise<Tensor[]> {
    const own = this.open(outer);
    const fails = this.random.chance(0.1);
    const done = scope(async () => {
      own.real = ambient().scope as Expected['real'];
      const made = await this.code(own);
      const result = this.end(own, fails ? [] : made);
      if (fails) throw new Error('drawn');
      return result;
    });
    return done.catch(() => []);
  }

  private open(outer: Expected | undefined): Expected {
    const own: Expected = { parent: taker(outer), holds: new Set(), ended: false, real: undefined };
    this.scopes.push(own);
    return own;
  }

  /** What a scope gives of what its code has made. */
  private end(own: Expected, made: readonly Tensor[]): Tensor[] {
    const result = made.filter(() => this.random.chance(0.5));
    own.ended = true;
    for (const t of result) if (own.holds.delete(t)) taker(own.parent)?.holds.add(t);
    for (const t of own.holds) this.freed.add(t);
    own.holds.clear();
    return result;
  }

  private given(t: Tensor, here: Expected | undefined): Tensor {
    this.all.push(t);
    taker(here)?.holds.add(t);
    return t;
  }

  private check(): void {
    const wrong = this.all.find((t) => t.disposed !== this.freed.has(t));
    if (wrong !== undefined) this.problem ??= wrong.disposed ? 'a tensor was freed too soon' : 'one was not freed';
    for (const { real, holds } of this.scopes)
      if (real !== undefined && real.owned.size !== holds.size)
        this.problem ??= `a scope holds ${real.owned.size} tensors in place of ${holds.size}`;
  }
}

function taker(from: Expected | undefined): Expected | undefined {
  return from?.ended === true ? taker(from.parent) : from;
}

describe('drawn programs', () => {
  it('leave to each scope what was made in it before its end, and to those around what is made later', async () => {
    const failed: string[] = [];
    for (let seed = 1; seed <= 300; seed++) {
      const program = new Program(seed);
      await program.run();
      if (program.problem !== undefined) failed.push(`${seed}: ${program.problem}`);
    }
    expect(failed).toEqual([]);
  });
});
