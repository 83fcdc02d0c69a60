/** @file Explicit-state breadth-first exploration: every interleaving of a model up to its bounds, with shortest counter-examples. */
import { performance } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import { canonical } from './canonical.ts';
import { HashSet64 } from './hash-set.ts';

/** One possible step out of a state. `next` must not change the state it came from. */
export interface Step<S> {
  readonly label: string;
  next(): S;
}

/** What can happen, and what must hold. States are values: plain data, or anything `encode` can tell apart. */
export interface Model<S> {
  readonly name: string;
  /** Where runs start. */
  readonly initial: readonly S[];
  /** The steps out of a state, always in the same order for equal states. */
  steps(state: S): Iterable<Step<S>>;
  /** A text that is equal exactly for states that behave alike. @default canonical text of plain data */
  encode?(state: S): string;
  /** Images of a state under renamings that change nothing (interchangeable workers); only the smallest encoding is kept. */
  readonly symmetries?: readonly ((state: S) => S)[];
  /** What is wrong with a state, checked on every one. */
  invariant?(state: S): string | undefined;
  /** What is wrong with a state without steps, where everything has settled. */
  terminal?(state: S): string | undefined;
}

/** Bounds of an exploration. */
export interface ExploreOptions {
  /** @default 2 million */
  readonly maxStates?: number;
  /** Longest path in steps. @default unbounded */
  readonly maxDepth?: number;
  /** Real milliseconds. @default unbounded */
  readonly maxMs?: number;
  /** Of V8's heap, which holds the states that were found and not left yet. @default 85 % of what V8 allows itself */
  readonly maxHeapBytes?: number;
}

/** What was seen. */
export interface Exploration<S> {
  readonly model: string;
  readonly states: number;
  readonly edges: number;
  /** States without steps. */
  readonly terminals: number;
  /** Steps of the longest shortest path. */
  readonly depth: number;
  /** True when no bound cut the exploration: within the model, the result is a proof (up to 64-bit hash collisions). */
  readonly complete: boolean;
  readonly elapsedMs: number;
  /** A shortest path to a wrong state. */
  readonly violation?: Violation<S>;
}

/** A shortest path to a wrong state. */
interface Violation<S> {
  readonly rule: 'invariant' | 'terminal' | 'exception';
  readonly detail: string;
  /** Labels of the steps from the start. */
  readonly trace: readonly string[];
  readonly state: S;
}

/** Explores a model and stops at the first wrong state, which is then one of those nearest to the start. */
export function explore<S>(model: Model<S>, options: ExploreOptions = {}): Exploration<S> {
  return new Explorer(model, options).run();
}

/** One line of counts, and the counter-example when there is one. */
export function formatExploration(result: Exploration<unknown>): string {
  const { model, states, edges, depth, complete, elapsedMs, violation } = result;
  const counts =
    `${model}: ${states} states, ${edges} edges, depth ${depth}, ${(elapsedMs / 1_000).toFixed(1)} s, ` +
    (violation !== undefined ? 'VIOLATION' : complete ? 'complete' : 'cut by its bounds');
  if (violation === undefined) return counts;
  const steps = violation.trace.map((label, i) => `  ${String(i + 1).padStart(3)}. ${label}`);
  return [counts, `  ${violation.rule}: ${violation.detail}`, ...steps].join('\n');
}

/** Throws with the counter-example unless the whole space was explored and is clean. */
export function assertExplored(result: Exploration<unknown>): void {
  if (result.violation !== undefined || !result.complete) throw new Error(formatExploration(result));
}

/** States left between two looks at the heap. */
const HEAP_EVERY = 4_096;

class Explorer<S> {
  readonly #model: Model<S>;
  readonly #maxStates: number;
  readonly #maxDepth: number;
  readonly #maxMs: number;
  readonly #maxHeapBytes: number;
  readonly #seen = new HashSet64();
  readonly #path = new PathStore();
  readonly #started = performance.now();
  #edges = 0;
  #terminals = 0;
  #cut = false;
  #violation: Violation<S> | undefined;

  constructor(model: Model<S>, options: ExploreOptions) {
    this.#model = model;
    this.#maxStates = options.maxStates ?? 2_000_000;
    this.#maxDepth = options.maxDepth ?? Infinity;
    this.#maxMs = options.maxMs ?? Infinity;
    this.#maxHeapBytes = options.maxHeapBytes ?? 0.85 * getHeapStatistics().heap_size_limit;
  }

  run(): Exploration<S> {
    let level: Frontier<S> = { states: [], indices: [] };
    this.#model.initial.forEach((state, choice) => this.#visit(state, PathStore.root, choice, level));
    let depth = 0;
    while (level.states.length > 0 && this.#violation === undefined) {
      const next: Frontier<S> = { states: [], indices: [] };
      if (depth >= this.#maxDepth) {
        this.#cut = true;
        break;
      }
      this.#expand(level, next);
      if (next.states.length > 0) depth++;
      level = next;
    }
    return {
      model: this.#model.name,
      states: this.#seen.size,
      edges: this.#edges,
      terminals: this.#terminals,
      depth,
      complete: !this.#cut && this.#violation === undefined,
      elapsedMs: performance.now() - this.#started,
      ...(this.#violation === undefined ? {} : { violation: this.#violation }),
    };
  }

  #expand(level: Frontier<S>, next: Frontier<S>): void {
    for (let i = 0; i < level.states.length && this.#violation === undefined; i++) {
      const state = level.states[i] as S;
      const index = level.indices[i] as number;
      // Nobody comes back to it.
      level.states[i] = undefined as S;
      const isFull = i % HEAP_EVERY === 0 && getHeapStatistics().used_heap_size > this.#maxHeapBytes;
      if (isFull || this.#seen.size >= this.#maxStates || performance.now() - this.#started > this.#maxMs) {
        this.#cut = true;
        next.states.length = 0;
        return;
      }
      let choice = 0;
      for (const step of this.#model.steps(state)) {
        this.#edges++;
        let reached: S;
        try {
          reached = step.next();
        } catch (error) {
          const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
          this.#violation = { rule: 'exception', detail: text, trace: [...this.#labels(index), step.label], state };
          return;
        }
        this.#visit(reached, index, choice++, next);
        if (this.#violation !== undefined) return;
      }
      if (choice === 0) this.#end(state, index);
    }
  }

  #visit(state: S, parent: number, choice: number, next: Frontier<S>): void {
    if (!this.#seen.add(this.#encode(state))) return;
    const index = this.#path.add(parent, choice);
    const wrong = this.#model.invariant?.(state);
    if (wrong !== undefined) {
      this.#violation = { rule: 'invariant', detail: wrong, trace: this.#labels(index), state };
      return;
    }
    next.states.push(state);
    next.indices.push(index);
  }

  #end(state: S, index: number): void {
    this.#terminals++;
    const wrong = this.#model.terminal?.(state);
    if (wrong !== undefined) {
      this.#violation = { rule: 'terminal', detail: wrong, trace: this.#labels(index), state };
    }
  }

  #encode(state: S): string {
    const encode = this.#model.encode?.bind(this.#model) ?? canonical;
    let smallest = encode(state);
    for (const image of this.#model.symmetries ?? []) {
      const text = encode(image(state));
      if (text < smallest) smallest = text;
    }
    return smallest;
  }

  /** Walks the recorded choices again from the start to name the steps. */
  #labels(index: number): string[] {
    const [first, ...choices] = this.#path.choices(index);
    let state = this.#model.initial[first as number] as S;
    return choices.map((choice) => {
      const step = [...this.#model.steps(state)][choice] as Step<S>;
      state = step.next();
      return step.label;
    });
  }
}

interface Frontier<S> {
  readonly states: S[];
  readonly indices: number[];
}

/** For each state the state it was first reached from and the ordinal of the step taken: six bytes a state. */
class PathStore {
  static readonly root = 0xffff_ffff;
  #parents = new Uint32Array(1 << 12);
  #choices = new Uint16Array(1 << 12);
  #size = 0;

  add(parent: number, choice: number): number {
    if (choice > 0xffff) throw new RangeError('more than 65536 steps out of one state');
    if (this.#size === this.#parents.length) {
      const parents = new Uint32Array(this.#size * 2);
      const choices = new Uint16Array(this.#size * 2);
      parents.set(this.#parents);
      choices.set(this.#choices);
      this.#parents = parents;
      this.#choices = choices;
    }
    this.#parents[this.#size] = parent;
    this.#choices[this.#size] = choice;
    return this.#size++;
  }

  choices(index: number): number[] {
    const out: number[] = [];
    for (let at = index; at !== PathStore.root; at = this.#parents[at] as number) out.push(this.#choices[at] as number);
    return out.reverse();
  }
}
