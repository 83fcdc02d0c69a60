/** @file Random programs of whole groups over a faulty network: drawn from a seed, run in virtual time, shrunk when they fail. */
import {
  drawFaults,
  drawRates,
  Random,
  Simulation,
  type Fault,
  type LinkRates,
  type RunResult,
  type Suite,
} from '@backwire/testing';
import { ALL_RULES } from '../src/protocol/rules.ts';
import { SimGroup, type Pace, type SimRules } from './group.ts';
import { SimWorker, type Operation } from './worker.ts';

/** One run as plain data. */
export interface Scenario {
  readonly seed: number;
  readonly workers: number;
  readonly operations: readonly Operation[];
  readonly faults: readonly Fault[];
  readonly rates: LinkRates;
  readonly pace: Pace;
}

/** A death costs three messages for each pair of members, which is what large groups spend their time with. */
const MOST_FAULTS = 8;
const PROGRAM_MS = 3_000;
/** Long enough for every message, view and fence after the faults have stopped. */
const SETTLE_MS = 60_000;

/** Everything is audited once in so many events, for each worker of the group. */
const AUDIT_EVENTS_PER_WORKER = 8;

/** What happened in all runs of a suite. */
interface Coverage {
  shared: number;
  calls: number;
  freed: number;
  starts: number;
  /** Functions whose caller died before they could start. */
  unstarted: number;
  crashes: number;
  restarts: number;
  partitions: number;
}

/** A suite, and what its runs covered so far. */
export interface RRefSuite extends Suite<Scenario> {
  readonly coverage: Coverage;
}

/** Groups of that many workers, or of two to six; with weaker rules it shows what they are for. */
export function rrefSuite({ rules = {}, workers }: { rules?: Partial<SimRules>; workers?: number } = {}): RRefSuite {
  const counts = { shared: 0, calls: 0, freed: 0, starts: 0, unstarted: 0 };
  const coverage: Coverage = { ...counts, crashes: 0, restarts: 0, partitions: 0 };
  return {
    name: 'rref',
    coverage,
    draw: (seed) => draw(seed, workers),
    run: (scenario) => run(scenario, { ...ALL_RULES, givesBackUnstarted: true, ...rules }, coverage),
  };
}

function draw(seed: number, size: number | undefined): Scenario {
  const random = new Random(seed);
  const workers = size ?? random.split('workers').int(2, 7);
  const nodes = names(workers);
  const make = random.split('objects').float() + 0.02;
  const share = random.split('shares').float() * 8;
  const plan = random.split('operations');
  // From a few messages' time to far longer than a death takes to be noticed.
  const spanMs = PROGRAM_MS * 0.01 ** random.split('span').float();
  const operations = Array.from({ length: plan.int(workers, 24 * workers) }, (_, i): Operation => {
    const own = plan.split(i);
    return {
      at: Math.round(own.float() * spanMs),
      node: own.int(0, workers),
      kind: own.weighted({ make, remote: 2 * make, share, call: 2, drop: 3, 'give-up': 0.3 }),
      which: own.int(0, 1_000),
      to: own.int(0, 1_000),
    };
  });
  const pace = random.split('pace');
  return {
    seed,
    workers,
    operations: operations.sort((a, b) => a.at - b.at),
    faults: drawFaults(random.split('faults'), {
      nodes,
      durationMs: 2 * spanMs,
      weights: { crash: 6, reset: 0 },
      restart: 0.7,
      most: MOST_FAULTS,
    }),
    rates: drawRates(random.split('rates')),
    pace: {
      detectMs: pace.float() * 400,
      viewMs: pace.float() * 300,
      runMs: pace.float() * 200,
      loss: pace.chance(0.5) ? 0 : pace.float() * 0.3,
    },
  };
}

function run(scenario: Scenario, rules: SimRules, coverage: Coverage): RunResult {
  const { seed, workers, operations, faults, rates, pace } = scenario;
  const simulation = new Simulation({ seed, faults, rates });
  const nodes = names(workers);
  const group = new SimGroup<SimWorker>(
    simulation,
    nodes,
    pace,
    rules,
    faults.flatMap((fault) => (fault.kind === 'crash' ? [fault.at] : [])),
  );
  const present = new Map<string, SimWorker>();
  for (const [index, name] of nodes.entries()) {
    simulation.addNode(name, (env) => {
      const worker = new SimWorker(group, index, env.incarnation);
      present.set(name, worker);
      group.join(worker, name);
      if (simulation.healed) worker.leave();
      return {};
    });
  }
  for (const operation of operations) {
    simulation.clock.at(operation.at, `w${operation.node} ${operation.kind}`, () => {
      const name = nodes[operation.node] ?? '';
      simulation.network.arrive(name, () => {
        if (simulation.node(name).state === 'up') present.get(name)?.play(operation);
      });
    });
  }
  let events = 0;
  simulation.invariant('views', () => {
    group.watch();
    if (++events % (AUDIT_EVENTS_PER_WORKER * workers) === 0) group.ledger.audit();
    return undefined;
  });
  simulation.atEnd('audit', () => {
    group.ledger.audit();
    return undefined;
  });
  simulation.atEnd('nothing is kept', () => {
    const left = [...group.workers.values()].flatMap((worker) => worker.leftovers());
    return left.length > 0 ? left.join('; ') : undefined;
  });
  let told = false;
  const settled = (): boolean => {
    if (!told) for (const worker of group.workers.values()) worker.leave();
    told = true;
    if (group.busy) return false;
    return (
      [...group.workers.values()].every((worker) => worker.clean && worker.upToDate) && simulation.clock.pending === 0
    );
  };
  const describe = (): string => [...group.workers.values()].map((worker) => worker.describe()).join('; ');
  const result = simulation.run({ safetyMs: PROGRAM_MS, livenessMs: SETTLE_MS, done: settled, describe });
  for (const [what, count] of Object.entries(group.ledger.counts)) coverage[what as keyof Coverage] += count;
  for (const fault of faults) {
    if (fault.kind === 'partition') coverage.partitions++;
    if (fault.kind === 'crash') coverage[fault.restartAfterMs === undefined ? 'crashes' : 'restarts']++;
  }
  return result;
}

function names(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `w${i}`);
}
