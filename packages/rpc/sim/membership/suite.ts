/** @file The membership suite: many workers that join, leave, crash, pause and lose links, over a store with leases. */
import {
  drawRates,
  Random,
  Simulation,
  type Fault,
  type LinkRates,
  type RunResult,
  type Suite,
} from '@backwire/testing';
import { STORE, type Life } from './messages.ts';
import { MembershipOracle, type MembershipCounts } from './oracle.ts';
import { SimMember, type MemberRules } from './sim-member.ts';
import { SimStore } from './sim-store.ts';

/** What is wrong on purpose. */
export interface MembershipRules extends MemberRules {
  /** The store sets without comparing. */
  readonly blind: boolean;
}

export const SOUND: MembershipRules = { usurps: false, waves: false, hurries: false, blind: false };

export interface MembershipSize {
  readonly workers: number;
  /** Draws how many there are, between this and `workers`, the small ones as often as the large ones; without it there are always `workers`. */
  readonly fewest?: number;
  /** Virtual milliseconds in which things go wrong. */
  readonly forMs: number;
}

/** What `npm run sim` runs: on both sides of how many watch all, and of how many links do not rest. */
export const FULL: MembershipSize = { fewest: 6, workers: 200, forMs: 1_000_000 };

/** Everything about a run, as data. */
export interface MembershipScenario extends MembershipSize {
  readonly seed: number;
  readonly faults: readonly Fault[];
  readonly rates: LinkRates;
  /** Link losses: when, and whose. */
  readonly cuts: readonly { readonly at: number; readonly node: string }[];
  /** How long a worker stays on average. */
  readonly stayMs: number;
  /** All start within this time. */
  readonly spreadMs: number;
}

export interface MembershipRun extends RunResult {
  readonly counts: Readonly<MembershipCounts>;
}

/** Workers whose names belong to another as well: they have to wait for its end. */
const TWINS = 0.05;
const CREW = 4;
const LIVENESS_MS = 400_000;
/** Workers that start one after the other, and a herd; some of that die while they come in, one at the door among them. */
const SPREAD_MS = 60_000;
const HERD_MS = 1_000;
const HERD_DEATHS = 0.2;
const HERD_DEATHS_MS = 8_000;

export function membershipSuite(
  size: MembershipSize,
  rules: MembershipRules = SOUND,
  seen?: (run: MembershipRun) => void,
): Suite<MembershipScenario> {
  return {
    name: 'membership',
    draw: (seed) => drawScenario(seed, size),
    run: (scenario) => {
      const run = runScenario(scenario, rules);
      seen?.(run);
      return run;
    },
  };
}

/** Of every worker: a crash or two, a pause, a lost link now and then; partitions of random parts. */
function drawScenario(seed: number, { fewest, workers, forMs }: MembershipSize): MembershipScenario {
  const random = new Random(seed);
  const share = fewest === undefined ? 1 : random.split('workers').float();
  const least = fewest ?? workers;
  const size = { workers: Math.round(least * (workers / least) ** share), forMs };
  const names = nodes(size.workers);
  const faults: Fault[] = [];
  const at = (): number => Math.round(random.float() * size.forMs * 0.9);
  const per = size.forMs / 1_000_000;
  const times = (mean: number): number => Math.ceil(mean * per * size.workers * (0.5 + random.float()));
  for (let i = times(1); i > 0; i--)
    faults.push({ kind: 'crash', at: at(), node: random.pick(names), restartAfterMs: random.int(100, 40_000) });
  for (let i = times(0.5); i > 0; i--)
    faults.push({ kind: 'pause', at: at(), node: random.pick(names), forMs: random.int(500, 60_000) });
  for (let i = times(0.05); i > 0; i--) {
    // Some cut workers off from each other, some from the store as well.
    const cut = random.shuffle(names).slice(0, random.int(1, Math.max(3, Math.ceil(size.workers / 8))));
    faults.push({
      kind: 'partition',
      at: at(),
      forMs: random.int(500, 60_000),
      nodes: cut,
      symmetric: random.chance(0.7),
    });
  }
  const cuts = Array.from({ length: times(5) }, () => ({ at: at(), node: random.pick(names) }));
  const stayMs = random.int(100_000, 600_000);
  const spreadMs = random.chance(0.5) ? HERD_MS : SPREAD_MS;
  if (spreadMs === HERD_MS)
    for (let i = Math.ceil(size.workers * HERD_DEATHS); i > 0; i--) {
      const node = random.pick(names);
      faults.push({ kind: 'crash', at: random.int(100, HERD_DEATHS_MS), node, restartAfterMs: random.int(100, 4_000) });
    }
  const { latencyMs, jitterMs, drop } = drawRates(random.split('rates'));
  const rates = { ...drawRates(random.split('rates')), latencyMs, jitterMs, drop: Math.min(drop, 0.05) };
  return { seed, ...size, faults, rates, cuts, stayMs, spreadMs };
}

function runScenario(scenario: MembershipScenario, rules: MembershipRules): MembershipRun {
  const { seed, workers, faults, rates, cuts, forMs, stayMs, spreadMs } = scenario;
  const simulation = new Simulation({ seed, faults, rates, drift: 0.001 });
  const oracle = new MembershipOracle(simulation);
  const where = new Map<Life, string>();
  const members = new Map<string, SimMember>();
  const met = new Set<string>();
  const kept: { store?: SimStore } = {};
  simulation.addNode(STORE, (env) => (kept.store = new SimStore(env, oracle, rules.blind)));
  const distinct = Math.max(1, Math.round(workers * (1 - TWINS)));
  const nameOf = (i: number): string => `w${String(i % distinct).padStart(3, '0')}`;
  nodes(workers).forEach((node, i) => {
    const first = Math.floor((i % distinct) / CREW) * CREW;
    const crew = Array.from({ length: CREW }, (_, n) => nameOf(Math.min(first + n, distinct - 1)));
    const plan = {
      name: nameOf(i),
      nodeOf: (life: Life) => where.get(life),
      started: (life: Life, at: string) => void where.set(life, at),
      oracle,
      rules,
      crew: [...new Set(crew)],
      stayMs,
      spreadMs,
      closing: () => simulation.healed,
      met: () => void met.add(node),
    };
    simulation.addNode(node, (env) => {
      const member = new SimMember(env, plan);
      members.set(node, member);
      met.delete(node);
      return member;
    });
  });
  for (const { at, node } of cuts)
    simulation.clock.at(at, `cut ${node}`, () => simulation.node(node).state === 'up' && members.get(node)?.loseLink());
  // The system closes the connections of a process that is gone; of every second one it cannot, as of a machine that lost its power.
  for (const fault of faults)
    if (fault.kind === 'crash' && fault.at % 2 === 0)
      simulation.clock.at(
        fault.at,
        'close',
        () => simulation.node(fault.node).state === 'down' && kept.store?.orphan(fault.node),
      );
  const result = simulation.run({
    safetyMs: forMs,
    livenessMs: LIVENESS_MS,
    done: () => met.size >= distinct,
    describe: () => `${met.size} of ${distinct} members met at a barrier of all`,
    maxEvents: 20_000_000,
  });
  return { ...result, counts: oracle.counts };
}

function nodes(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `n${i}`);
}
