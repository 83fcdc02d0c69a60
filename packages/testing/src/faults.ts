/** @file What can go wrong in a simulated network: per-message rates and scheduled faults, as plain data that can be shrunk. */
import type { Random } from './random.ts';

/** Chances and delays that apply to every message of a directed link. All zero is a perfect, instant network. */
export interface LinkRates {
  /** Shortest delay, virtual milliseconds. */
  readonly latencyMs: number;
  /** Mean of the exponential delay added to it. */
  readonly jitterMs: number;
  /** Connections: bytes a virtual millisecond, one message after the other; 0 for no limit. */
  readonly bytesPerMs: number;
  /** Datagrams: chance to be lost. */
  readonly drop: number;
  /** Datagrams: chance to arrive twice. */
  readonly duplicate: number;
  /** Datagrams: chance of a long extra delay, so that later ones overtake. */
  readonly reorder: number;
  /** Chance per message that the link holds everything for a while. */
  readonly clog: number;
  /** Mean length of such a hold, virtual milliseconds. */
  readonly clogMs: number;
  /** Connections: chance per message that the connection is reset and what is in flight is lost. */
  readonly reset: number;
  /** Connections carrying bytes: chance that a write arrives in several pieces. */
  readonly split: number;
  /** Connections carrying bytes: chance that a write is joined with the one before it. */
  readonly merge: number;
  /** Connections carrying bytes: chance that one bit is flipped. */
  readonly flip: number;
  /** Connections carrying bytes: chance that only a prefix arrives, followed by a reset. */
  readonly truncate: number;
}

/** No fault and one millisecond of delay. */
export const calm: LinkRates = {
  latencyMs: 1,
  jitterMs: 0,
  bytesPerMs: 0,
  drop: 0,
  duplicate: 0,
  reorder: 0,
  clog: 0,
  clogMs: 0,
  reset: 0,
  split: 0,
  merge: 0,
  flip: 0,
  truncate: 0,
};

/** One scheduled fault; `at` is virtual milliseconds after the start. */
export type Fault =
  | {
      readonly kind: 'partition';
      readonly at: number;
      readonly forMs: number;
      readonly nodes: readonly string[];
      readonly symmetric: boolean;
    }
  | { readonly kind: 'crash'; readonly at: number; readonly node: string; readonly restartAfterMs?: number }
  | { readonly kind: 'pause'; readonly at: number; readonly node: string; readonly forMs: number }
  | { readonly kind: 'reset'; readonly at: number; readonly from: string; readonly to: string }
  | { readonly kind: 'clog'; readonly at: number; readonly from: string; readonly to: string; readonly forMs: number }
  | { readonly kind: 'clock-jump'; readonly at: number; readonly node: string; readonly byMs: number };

/** How harsh `drawFaults` is. */
export interface FaultPlan {
  /** The nodes faults may hit. */
  readonly nodes: readonly string[];
  /** Faults start within this many virtual milliseconds. */
  readonly durationMs: number;
  /** Relative weights of the kinds. @default every kind but crash and clock-jump */
  readonly weights?: Partial<Record<Fault['kind'], number>>;
  /** Most faults drawn. @default 8 */
  readonly most?: number;
  /** Longest partition, pause, clog or time until a restart. @default 2000 */
  readonly longestMs?: number;
  /** Share of crashes after which the node comes back. @default 1 */
  readonly restart?: number;
}

/** Draws the rates of one run: each fault is off in a third of the runs, else within TigerBeetle's ranges. */
export function drawRates(random: Random): LinkRates {
  const upTo = (name: string, most: number): number => {
    const own = random.split(name);
    return own.chance(1 / 3) ? 0 : own.float() * most;
  };
  return {
    latencyMs: upTo('latency', 5),
    jitterMs: upTo('jitter', 20),
    bytesPerMs: 0,
    drop: upTo('drop', 0.3),
    duplicate: upTo('duplicate', 0.5),
    reorder: upTo('reorder', 0.3),
    clog: upTo('clog', 0.02),
    clogMs: upTo('clog-length', 500),
    reset: upTo('reset', 0.05),
    split: upTo('split', 0.5),
    merge: upTo('merge', 0.5),
    flip: upTo('flip', 0.01),
    truncate: upTo('truncate', 0.02),
  };
}

/** Draws a schedule of faults, sorted by time. */
export function drawFaults(random: Random, plan: FaultPlan): Fault[] {
  const weights = { partition: 3, pause: 2, reset: 4, clog: 2, crash: 0, 'clock-jump': 0, ...plan.weights };
  const count = random.split('count').int(0, (plan.most ?? 8) + 1);
  const faults = Array.from({ length: count }, (_, i) => drawFault(random.split(i), plan, weights));
  return faults.sort((a, b) => a.at - b.at);
}

function drawFault(random: Random, plan: FaultPlan, weights: Record<Fault['kind'], number>): Fault {
  const kind = random.weighted(weights);
  const at = Math.round(random.float() * plan.durationMs);
  const forMs = Math.round(random.float() * (plan.longestMs ?? 2_000));
  const [from, to] = random.shuffle(plan.nodes) as [string, string];
  switch (kind) {
    case 'partition': {
      const nodes = random.shuffle(plan.nodes).slice(0, random.int(1, Math.max(2, plan.nodes.length)));
      return { kind, at, forMs, nodes, symmetric: random.chance(0.5) };
    }
    case 'crash':
      return random.chance(plan.restart ?? 1)
        ? { kind, at, node: from, restartAfterMs: forMs }
        : { kind, at, node: from };
    case 'pause':
      return { kind, at, node: from, forMs };
    case 'reset':
      return { kind, at, from, to };
    case 'clog':
      return { kind, at, from, to, forMs };
    case 'clock-jump':
      return { kind, at, node: from, byMs: forMs };
  }
}
