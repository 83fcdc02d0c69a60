/** @file The calls over which the model of a backward pass runs, and the part of them on one worker. */
import type { Fired, LocalGraph, Reached, Target } from '../src/protocol/pass-types.ts';

/** Where gradients go from each start: `roots` at the origin, send functions by number elsewhere. */
export type Graph = Readonly<Record<string, readonly Target[]>>;

/** 0 → 1 → 2. */
export const CHAIN: readonly Graph[] = [{ roots: [{ to: 1, message: 1 }] }, { 1: [{ to: 2, message: 2 }] }, { 2: [] }];

/** The same, with a call that nothing depends on and of which only the far end knows. */
export const SPARE: readonly Graph[] = [CHAIN[0] as Graph, CHAIN[1] as Graph, { 2: [], 9: [] }];

/** Workers 0 and 2 both have roots that lead through 1 to each other. */
export const TWO_ORIGINS: readonly Graph[] = [
  { roots: [{ to: 1, message: 1 }], 4: [] },
  { 1: [{ to: 2, message: 2 }], 3: [{ to: 0, message: 4 }] },
  { roots: [{ to: 1, message: 3 }], 2: [] },
];

/** Worker 2's roots lead through 1 to the creator and to 3; but for 1, nobody knows another. */
export const STAR: readonly Graph[] = [
  { 3: [] },
  {
    1: [
      { to: 0, message: 3 },
      { to: 3, message: 2 },
    ],
  },
  { roots: [{ to: 1, message: 1 }] },
  { 2: [] },
];

/** 0 → 1 → 2, and a worker that is not in it yet. */
export const DETOUR: readonly Graph[] = [...CHAIN, {}];

/** The same after a call 0 → 3 → 2, on which the roots depend now instead. */
export const DETOUR_LATER: readonly Graph[] = [
  { roots: [{ to: 3, message: 3 }] },
  CHAIN[1] as Graph,
  { 2: [], 4: [] },
  { 3: [{ to: 2, message: 4 }] },
];

/** The chain 0 → 1 → 2 with a side call 0 → 2, and a call that nothing depends on. */
export const TRIANGLE: readonly Graph[] = [
  {
    roots: [
      { to: 1, message: 1 },
      { to: 2, message: 3 },
    ],
    1: [],
    3: [],
    9: [],
  },
  { 1: [{ to: 2, message: 2 }], 2: [{ to: 0, message: 1 }] },
  { 2: [{ to: 1, message: 2 }], 3: [{ to: 0, message: 3 }], 9: [] },
];

/** How a graph is run. */
export interface GraphOptions {
  /** A send function whose run throws. */
  readonly breaks?: { readonly worker: number; readonly send: number };
  /** Every message told what it reaches, so that no wave is needed. */
  readonly planned?: boolean;
}

/** Fires a receive function once all starts that lead to it have run. */
export class FakeGraph implements LocalGraph<null> {
  private readonly bounds: GraphOptions;
  private readonly graphs: readonly Graph[];
  private readonly worker: number;
  private readonly add: () => void;
  private readonly walked: string[] = [];
  private readonly ran = new Set<string>();

  constructor(bounds: GraphOptions, graphs: readonly Graph[], worker: number, add: () => void) {
    this.bounds = bounds;
    this.graphs = graphs;
    this.worker = worker;
    this.add = add;
  }

  private get graph(): Graph {
    return this.graphs[this.worker] as Graph;
  }

  walk(starts: readonly number[] | 'roots'): Reached[] {
    const names = starts === 'roots' ? ['roots'] : starts.map(String);
    this.walked.push(...names);
    const targets = names.flatMap((name) => this.graph[name] ?? []);
    return this.bounds.planned === true
      ? targets.map((target) => ({ ...target, reach: beyond(this.graphs, target) }))
      : targets;
  }

  seal(): void {}

  run(start: { readonly message: number } | 'roots'): Fired<null>[] {
    const name = start === 'roots' ? 'roots' : String(start.message);
    const { breaks } = this.bounds;
    if (breaks?.worker === this.worker && name === String(breaks.send)) throw new Error('broken');
    this.ran.add(name);
    const complete = (target: Target): boolean =>
      this.walked.every((other) => this.ran.has(other) || !leads(this.graph[other], target));
    return (this.graph[name] ?? []).filter(complete).map((target) => ({ ...target, grads: null, tensors: 1 }));
  }

  commit(): void {
    this.add();
  }

  discard(): void {}
}

/** All send functions that gradients come to after `target`. */
export function beyond(graph: readonly Graph[], target: Target): Target[] {
  const found: Target[] = [];
  const pending = [target];
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    for (const next of graph[at.to]?.[at.message] ?? []) {
      if (found.some(({ to, message }) => to === next.to && message === next.message)) continue;
      found.push(next);
      pending.push(next);
    }
  }
  return found;
}

function leads(targets: readonly Target[] | undefined, { to, message }: Target): boolean {
  return targets?.some((target) => target.to === to && target.message === message) === true;
}
