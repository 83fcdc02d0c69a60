/**
 * @file Breadth-first exploration of worlds that are rows of small numbers: levels in typed arrays, and of the rows that were seen only
 * fingerprints of 64 bits. For worlds of some hundred thousand states and more, of which `explore` would hold objects.
 */
import { performance } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import type { Exploration, ExploreOptions } from './explorer.ts';
import { HashSet64 } from './hash-set.ts';

/**
 * Takes the row of a step: in the one form of rows that behave alike, and as it came about, under the names that were used before, where
 * a model renames. Both are overwritten by the next step.
 */
export type EmitRow = (row: Uint32Array, label: () => string, unrenamed?: Uint32Array) => void;

/** What can happen, and what must hold, in worlds of a fixed number of words. */
export interface RowModel {
  readonly name: string;
  /** Words of a row. */
  readonly width: number;
  initial(): Uint32Array;
  /** Tells every step out of a row, always in the same order. The row is not changed, and not kept. */
  steps(from: Uint32Array, emit: EmitRow): void;
  /** What is wrong with a row. */
  invariant?(row: Uint32Array): string | undefined;
  /** What is wrong with a row without steps. */
  terminal?(row: Uint32Array): string | undefined;
}

const ROOT = 0xffff_ffff;
/** Rows left between two looks at the clock and the heap. */
const LOOK_EVERY = 4_096;

/**
 * Explores a model and stops at the first wrong row, which is then one of those nearest to the start. Two rows of one fingerprint would be
 * taken for one: of n rows the chance that any were is about n² / 2⁶⁵, 3·10⁻⁴ for a hundred million.
 */
export function exploreRows(model: RowModel, options: ExploreOptions = {}): Exploration<string> {
  return new RowExplorer(model, options).run();
}

/** The row that the steps of these labels lead to. @throws Error where there is no such step */
export function followRows(model: RowModel, labels: readonly string[], from = model.initial()): Uint32Array {
  return labels.reduce((row, wanted) => {
    const step = firstStep(model, row, (_, label) => label() === wanted);
    if (step === undefined) throw new Error(`no step '${wanted}'`);
    return step.row;
  }, from);
}

/** The first step that fulfils a condition: its label, and its row under the names that were used before. */
function firstStep(
  model: RowModel,
  from: Uint32Array,
  fulfils: (row: Uint32Array, label: () => string) => boolean,
): { readonly row: Uint32Array; readonly label: string } | undefined {
  let found: { row: Uint32Array; label: string } | undefined;
  model.steps(from, (row, label, unrenamed = row) => {
    if (found === undefined && fulfils(row, label)) found = { row: unrenamed.slice(), label: label() };
  });
  return found;
}

class RowExplorer {
  private readonly model: RowModel;
  private readonly maxStates: number;
  private readonly maxDepth: number;
  private readonly maxMs: number;
  private readonly maxHeapBytes: number;
  private readonly started = performance.now();
  private readonly seen = new HashSet64(1 << 13);
  private readonly parents = new Column(1 << 12);
  private readonly choices = new Column(1 << 12);
  private edges = 0;
  private terminals = 0;
  private fault:
    { readonly rule: 'invariant' | 'terminal'; readonly detail: string; readonly index: number } | undefined;

  constructor(model: RowModel, options: ExploreOptions) {
    this.model = model;
    this.maxStates = options.maxStates ?? 10_000_000;
    this.maxDepth = options.maxDepth ?? Infinity;
    this.maxMs = options.maxMs ?? Infinity;
    this.maxHeapBytes = options.maxHeapBytes ?? 0.85 * getHeapStatistics().heap_size_limit;
  }

  run(): Exploration<string> {
    const { model, seen } = this;
    let level = new Level(model.width);
    this.visit(model.initial(), ROOT, 0, level);
    let depth = 0;
    let cut = false;
    while (level.size > 0 && this.fault === undefined && !cut) {
      const next = new Level(model.width);
      cut = depth >= this.maxDepth;
      for (let i = 0; i < level.size && this.fault === undefined && !cut; i++) {
        cut = seen.size >= this.maxStates || (i % LOOK_EVERY === 0 && this.isLate());
        if (!cut) this.expand(level, i, next);
      }
      if (next.size > 0) depth++;
      level = next;
    }
    const { fault } = this;
    return {
      model: model.name,
      states: seen.size,
      edges: this.edges,
      terminals: this.terminals,
      depth,
      complete: !cut && fault === undefined,
      elapsedMs: performance.now() - this.started,
      ...(fault === undefined ? {} : { violation: this.violation(fault) }),
    };
  }

  private isLate(): boolean {
    return performance.now() - this.started > this.maxMs || getHeapStatistics().used_heap_size > this.maxHeapBytes;
  }

  private expand(level: Level, i: number, next: Level): void {
    const index = level.indices.at(i);
    const from = level.row(i);
    let choice = 0;
    this.model.steps(from, (row) => {
      if (this.fault === undefined) this.visit(row, index, choice, next);
      choice++;
    });
    this.edges += choice;
    if (choice > 0) return;
    this.terminals++;
    const detail = this.model.terminal?.(from);
    if (detail !== undefined) this.fault ??= { rule: 'terminal', detail, index };
  }

  private visit(row: Uint32Array, parent: number, choice: number, next: Level): void {
    if (!see(this.seen, row)) return;
    const index = this.parents.push(parent);
    this.choices.push(choice);
    const detail = this.model.invariant?.(row);
    if (detail !== undefined) this.fault = { rule: 'invariant', detail, index };
    next.push(row, index);
  }

  /** Takes the recorded choices again from the start; then names the steps of a run in which everybody keeps its name. */
  private violation(fault: NonNullable<RowExplorer['fault']>): NonNullable<Exploration<string>['violation']> {
    const { model } = this;
    const choices: number[] = [];
    for (let at = fault.index; this.parents.at(at) !== ROOT; at = this.parents.at(at))
      choices.push(this.choices.at(at));
    let row = model.initial();
    let named = row;
    const trace: string[] = [];
    for (const choice of choices.reverse()) {
      row = this.successor(row, choice);
      const wanted = row.join();
      const step = firstStep(model, named, (reached) => reached.join() === wanted);
      if (step === undefined) throw new Error('a run cannot be taken again under its old names');
      trace.push(step.label);
      named = step.row;
    }
    return { rule: fault.rule, detail: fault.detail, trace, state: named.join() };
  }

  private successor(row: Uint32Array, choice: number): Uint32Array {
    let step = 0;
    let reached = row;
    this.model.steps(row, (next) => {
      if (step++ === choice) reached = next.slice();
    });
    return reached;
  }
}

/** The rows of one depth, and where each was recorded. */
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
