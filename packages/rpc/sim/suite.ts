/** @file The session suite: random programs of calls, storages and control frames over faulty links, with the invariants of the RPC layer. */
import {
  calm,
  drawFaults,
  drawRates,
  Random,
  Simulation,
  type Fault,
  type LinkRates,
  type RunResult,
  type Suite,
} from '@backwire/testing';
import { Oracle } from './oracle.ts';
import { SimWorker, SOUND, type Directory, type Op, type Rules } from './sim-worker.ts';

/** Everything about a run, as data. */
export interface SessionScenario {
  readonly seed: number;
  readonly nodes: number;
  readonly program: readonly Op[];
  readonly faults: readonly Fault[];
  readonly rates: LinkRates;
  /** Bytes a virtual millisecond of every link, to the end; 0 for links that take all at once. */
  readonly bytesPerMs: number;
}

const SAFETY_MS = 6_000;
const LIVENESS_MS = 30_000;
/** After a crash the group notices within this time. */
const LEASE_MS = 300;

/** On slow links storages are so large that they take seconds, and small messages get through within this time. */
const SLOW_BODY_BYTES = 4_000;
const PATIENCE_MS = 1_000;

/** What one run saw, beyond its counts. */
export interface SessionRun extends RunResult {
  readonly frames: number;
  readonly outcomes: Readonly<Record<string, number>>;
}

/** The suite; `rules` other than the sound ones must fail it. */
export function sessionSuite(rules: Rules = SOUND, seen?: (run: SessionRun) => void): Suite<SessionScenario> {
  return {
    name: 'session',
    draw: drawScenario,
    run: (scenario) => {
      const result = runScenario(scenario, rules);
      seen?.(result);
      return result;
    },
  };
}

/** The scenario of a seed. */
function drawScenario(seed: number): SessionScenario {
  const random = new Random(seed);
  const nodes = random.split('size').int(2, 5);
  const names = nodeNames(nodes);
  const slow = random.split('slow');
  if (slow.chance(0.15)) return drawSlow(seed, slow);
  const workload = random.split('workload');
  const program = Array.from({ length: workload.int(1, 120) }, (_, i) => drawOp(workload.split(i), names));
  const drain = random.split('drain');
  if (drain.chance(0.3)) program.push({ ...drawOp(drain, names), kind: 'drain' });
  return {
    seed,
    nodes,
    program: program.sort((a, b) => a.at - b.at),
    faults: drawFaults(random.split('faults'), {
      nodes: names,
      durationMs: SAFETY_MS * 0.8,
      weights: { crash: random.split('crashes').chance(0.5) ? 2 : 0 },
      most: 12,
    }),
    rates: drawRates(random.split('rates')),
    bytesPerMs: 0,
  };
}

/** Two workers with a slow link between them that has no other fault: a few calls with large storages, and small messages beside them. */
function drawSlow(seed: number, random: Random): SessionScenario {
  const names = nodeNames(2);
  const program = Array.from({ length: random.int(2, 30) }, (_, i): Op => {
    const op = drawOp(random.split(i), names);
    const large = i % 5 === 0;
    const bodies = large ? [random.int(SLOW_BODY_BYTES / 4, SLOW_BODY_BYTES)] : [];
    return { ...op, kind: large ? 'call' : 'control', bodies, cancelAfterMs: large ? op.cancelAfterMs : 0 };
  });
  const rates = { ...calm, latencyMs: random.int(1, 40) };
  const bytesPerMs = 1 + random.float() * 10;
  return { seed, nodes: 2, program: program.sort((a, b) => a.at - b.at), faults: [], rates, bytesPerMs };
}

function drawOp(random: Random, names: readonly string[]): Op {
  const [node, to] = random.shuffle(names) as [string, string];
  const bodies = random.chance(0.3) ? Array.from({ length: random.int(1, 4) }, () => random.int(1, 100)) : [];
  return {
    at: Math.round(random.float() * SAFETY_MS * 0.9),
    node,
    to,
    kind: random.chance(0.25) ? 'control' : 'call',
    bytes: random.int(10, 40),
    bodies,
    deadlineMs: random.pick([30, 200, 2_000, 20_000]),
    durationMs: random.pick([0, 0, 1, 50, 500]),
    cancelAfterMs: random.chance(0.15) ? random.int(1, 300) : 0,
  };
}

/** Runs one scenario under `rules`. */
function runScenario(scenario: SessionScenario, rules: Rules): SessionRun {
  const { seed, faults, rates, program } = scenario;
  const simulation = new Simulation({ seed, faults, rates });
  const paused = faults.flatMap((fault) => (fault.kind === 'pause' ? [fault.node] : []));
  const slow = scenario.bytesPerMs > 0;
  const oracle = new Oracle(simulation, paused, slow ? PATIENCE_MS : Infinity);
  const directory: Directory = { members: new Map() };
  const workers = new Map<string, SimWorker>();
  for (const name of nodeNames(scenario.nodes)) {
    simulation.addNode(name, (env) => {
      const worker = new SimWorker(env, oracle, directory, rules, slow, (rule, why) => simulation.fail(rule, why));
      workers.set(name, worker);
      return worker;
    });
  }
  if (slow)
    for (const a of simulation.names)
      for (const b of simulation.names) simulation.network.link(a, b).own = { bytesPerMs: scenario.bytesPerMs };
  const live = (): SimWorker[] =>
    [...workers].filter(([name]) => simulation.node(name).state !== 'down').map(([, worker]) => worker);
  for (const op of program) {
    simulation.clock.at(op.at, `op ${op.node}`, () => {
      if (simulation.node(op.node).state === 'up') workers.get(op.node)?.perform(op);
    });
  }
  bury(simulation, directory);
  const waiting = (): string | undefined => {
    for (const worker of live()) {
      const open = worker.open();
      if (open !== undefined) return open;
    }
    return undefined;
  };
  simulation.atEnd('every call of a live caller settles', () => {
    const open = oracle.open(
      ({ name, incarnation }) =>
        simulation.node(name).incarnation === incarnation && simulation.node(name).state !== 'down',
    );
    return open.length > 0 ? `calls ${open.join()}` : undefined;
  });
  simulation.atEnd('both ends of a session agree', () => disagreement(live(), oracle));
  const result = simulation.run({
    safetyMs: SAFETY_MS,
    livenessMs: LIVENESS_MS,
    done: () => waiting() === undefined && disagreement(live(), oracle) === undefined,
    describe: () => waiting() ?? disagreement(live(), oracle) ?? 'nothing',
    maxEvents: 500_000,
  });
  return { ...result, frames: oracle.frames, outcomes: oracle.outcomes };
}

/** Stands for leases: a worker that is down long enough leaves the view. */
function bury(simulation: Simulation, directory: Directory): void {
  const downSince = new Map<string, number>();
  const look = (): void => {
    for (const name of simulation.names) {
      if (simulation.node(name).state !== 'down') downSince.delete(name);
      else if (!downSince.has(name)) downSince.set(name, simulation.clock.now);
      else if (simulation.clock.now - (downSince.get(name) as number) > LEASE_MS) directory.members.delete(name);
    }
    simulation.clock.after(50, 'leases', look);
  };
  look();
}

function disagreement(workers: readonly SimWorker[], oracle: Oracle): string | undefined {
  for (const a of workers) {
    for (const b of workers) {
      const session = a.sessionWith(b.self.name);
      if (a === b || session === undefined || session.state === 'closed') continue;
      const missing = oracle.missing(a.self, b.self);
      if (missing > 0) return `${a.self.name} to ${b.self.name}: ${missing} frames never arrived`;
      const used = session.snapshot();
      const back = b.sessionWith(a.self.name)?.snapshot();
      if (back === undefined || (used.usedCalls === back.finishedCalls && used.usedBytes === back.finishedBytes))
        continue;
      const credit = `${used.usedCalls - back.finishedCalls} calls and ${used.usedBytes - back.finishedBytes} bytes`;
      return `${a.self.name} to ${b.self.name}: the credit of ${credit} never came back`;
    }
  }
  return undefined;
}

function nodeNames(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `w${i}`);
}
