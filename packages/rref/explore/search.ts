/** @file Every world that can be reached, breadth first: rows in typed arrays, and of those seen only a fingerprint of 64 bits. */
import { performance } from 'node:perf_hooks';
import { HashSet64, type Exploration } from '@backwire/testing';
import { describe, type Bounds } from './bounds.ts';
import { findFault } from './oracle.ts';
import { Worlds } from './world.ts';

export interface SearchOptions {
  /** @default 10 million */
  readonly maxStates?: number;
}

const DEFAULT_MAX_STATES = 10_000_000;
const ROOT = 0xffff_ffff;

/** Explores all interleavings within `bounds`; stops at the first wrong world, which is then one of those nearest to the start. */
export function exploreRRefs(
  bounds: Bounds,
  { maxStates = DEFAULT_MAX_STATES }: SearchOptions = {},
): Exploration<string> {
  return new Search(new Worlds(bounds), maxStates).run();
}

/** Takes the steps with these labels and gives what is wrong with the world they end in. */
export function follow(bounds: Bounds, labels: readonly string[]): string | undefined {
  const worlds = new Worlds(bounds);
  let row = worlds.initial();
  for (const wanted of labels) {
    const step = firstStep(worlds, row, (_, label) => label() === wanted);
    if (step === undefined) throw new Error(`no step '${wanted}'`);
    row = step.row;
  }
  return findFault(worlds, row);
}

/** The first step that fulfils a condition: its label, and its world with the users under their old names. */
function firstStep(
  worlds: Worlds,
  from: Uint32Array,
  fulfils: (row: Uint32Array, label: () => string) => boolean,
): { readonly row: Uint32Array; readonly label: string } | undefined {
  let found: { row: Uint32Array; label: string } | undefined;
  worlds.steps(from, (row, label, unrenamed) => {
    if (found === undefined && fulfils(row, label)) found = { row: unrenamed.slice(), label: label() };
  });
  return found;
}

class Search {
  private readonly worlds: Worlds;
  private readonly maxStates: number;
  private readonly seen = new HashSet64(1 << 13);
  private readonly parents = new Column(1 << 12);
  private readonly choices = new Column(1 << 12);
  private edges = 0;
  private terminals = 0;
  private fault: { readonly detail: string; readonly index: number } | undefined;

  constructor(worlds: Worlds, maxStates: number) {
    this.worlds = worlds;
    this.maxStates = maxStates;
  }

  run(): Exploration<string> {
    const started = performance.now();
    const { worlds, seen } = this;
    let level = new Level(worlds.width);
    this.visit(worlds.initial(), ROOT, 0, level);
    let depth = 0;
    let cut = false;
    while (level.size > 0 && this.fault === undefined && !cut) {
      const next = new Level(worlds.width);
      for (let i = 0; i < level.size && this.fault === undefined && !cut; i++) {
        this.expand(level, i, next);
        cut = seen.size >= this.maxStates;
      }
      if (next.size > 0) depth++;
      level = next;
    }
    const { fault } = this;
    return {
      model: describe(worlds.bounds),
      states: seen.size,
      edges: this.edges,
      terminals: this.terminals,
      depth,
      complete: !cut && fault === undefined,
      elapsedMs: performance.now() - started,
      ...(fault === undefined ? {} : { violation: this.violation(fault.detail, fault.index) }),
    };
  }

  private expand(level: Level, i: number, next: Level): void {
    const index = level.indices.at(i);
    let choice = 0;
    this.worlds.steps(level.row(i), (row) => {
      if (this.fault === undefined) this.visit(row, index, choice, next);
      choice++;
    });
    this.edges += choice;
    if (choice === 0) this.terminals++;
  }

  private visit(row: Uint32Array, parent: number, choice: number, next: Level): void {
    if (!see(this.seen, row)) return;
    const index = this.parents.push(parent);
    this.choices.push(choice);
    const detail = findFault(this.worlds, row);
    if (detail !== undefined) this.fault = { detail, index };
    next.push(row, index);
  }

  /** Takes the recorded choices again from the start; then names the steps of a run in which every user keeps its name. */
  private violation(detail: string, index: number): NonNullable<Exploration<string>['violation']> {
    const { worlds } = this;
    const choices: number[] = [];
    for (let at = index; this.parents.at(at) !== ROOT; at = this.parents.at(at)) choices.unshift(this.choices.at(at));
    let row = worlds.initial();
    let named = row;
    const trace: string[] = [];
    for (const choice of choices) {
      row = this.successor(row, choice);
      const wanted = row.join();
      const step = firstStep(worlds, named, (reached) => reached.join() === wanted);
      if (step === undefined) throw new Error('a run cannot be taken again under its old names');
      trace.push(step.label);
      named = step.row;
    }
    return { rule: 'invariant', detail, trace, state: named.join() };
  }

  private successor(row: Uint32Array, choice: number): Uint32Array {
    let step = 0;
    let reached = row;
    this.worlds.steps(row, (next) => {
      if (step++ === choice) reached = next.slice();
    });
    return reached;
  }
}

/** The worlds of one depth, and where each was recorded. */
class Level {
  readonly indices = new Column(1 << 10);
  private readonly width: number;
  private rows: Uint32Array;

  constructor(width: number) {
    this.width = width;
    this.rows = new Uint32Array(width << 10);
  }

  get size(): number {
    return this.indices.size;
  }

  row(i: number): Uint32Array {
    return this.rows.subarray(i * this.width, (i + 1) * this.width);
  }

  push(row: Uint32Array, index: number): void {
    const at = this.size * this.width;
    if (at === this.rows.length) {
      const rows = new Uint32Array(2 * at);
      rows.set(this.rows);
      this.rows = rows;
    }
    this.rows.set(row, at);
    this.indices.push(index);
  }
}

/** Numbers that grow at the end. */
class Column {
  size = 0;
  private values: Uint32Array;

  constructor(capacity: number) {
    this.values = new Uint32Array(capacity);
  }

  at(index: number): number {
    return this.values[index] as number;
  }

  /** Returns the index of what was added. */
  push(value: number): number {
    if (this.size === this.values.length) {
      const values = new Uint32Array(2 * this.size);
      values.set(this.values);
      this.values = values;
    }
    this.values[this.size] = value;
    return this.size++;
  }
}

/** A fingerprint of a row, added to those seen; false when it was there. */
function see(seen: HashSet64, row: Uint32Array): boolean {
  let a = 0x9e3779b9;
  let b = 0x85ebca6b;
  for (let i = 0; i < row.length; i++) {
    const word = row[i] as number;
    a = Math.imul(a ^ word, 0xcc9e2d51);
    a ^= a >>> 15;
    b = Math.imul(b + word, 0x1b873593);
    b ^= b >>> 13;
    b = Math.imul(b, 0xc2b2ae35);
  }
  a = Math.imul(a ^ (a >>> 16), 0x85ebca6b);
  a ^= a >>> 13;
  b = Math.imul(b ^ (b >>> 16), 0x27d4eb2f);
  b ^= b >>> 15;
  return seen.addHash(a >>> 0, b >>> 0);
}
