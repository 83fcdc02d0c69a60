/** @file Random distributed programs under the simulator, against the same program in one process. */
import { RpcError } from '@backwire/rpc';
import { runBackward, tensor, type Tensor } from '@backwire/tensor';
import { AccumulateGrad, gradEdge } from '@backwire/tensor/internal';
import { MessageType } from '@backwire/wire/internal';
import { kept, Random, Simulation, SimulationFailure, type RunResult, type Suite } from '@backwire/testing';
import { backward, context } from '../src/index.ts';
import { drawProgram, runAt, type Fn, type Place, type Program } from './program.ts';
import { SimGroup, type SimHost } from './sim-host.ts';

/** A program and what happens to it. */
export interface Scenario {
  readonly seed: number;
  readonly program: Program;
  /** Mean delay of a message, virtual milliseconds. */
  readonly jitterMs: number;
  /** How many backward passes. */
  readonly passes: number;
  readonly dtype: 'float32' | 'float64';
  /** Cancels the first pass this long after its start, virtual milliseconds. */
  readonly cancelAfterMs: number | undefined;
  /** Messages do not say what they reach, so that every pass has to ask. */
  readonly asks: boolean;
  /** A worker other than the creator dies. */
  readonly death: { readonly worker: number; readonly atMs: number } | undefined;
}

/** What a run saw. */
export interface Outcome {
  readonly result: RunResult;
  /** `finished`: all passes succeeded; else what the program failed with. */
  readonly ended: string;
  /** By leaf, on its worker, before the context was left; undefined where the run did not get there. */
  readonly gradients: readonly (readonly number[] | undefined)[] | undefined;
  readonly messages: number;
  readonly covered: Covered;
}

/** What one run had in it. */
export interface Covered {
  /** Calls from one worker to another. */
  hops: number;
  /** The longest chain of calls inside of each other, hops or not. */
  deepest: number;
  /** Leaves that were used more than once, and so add up what comes back. */
  sharedLeaves: number;
  /** Send functions that no pass reached: results and arguments that nothing depended on. */
  unused: number;
  /** Functions that threw on purpose. */
  errors: number;
  /** Programs whose passes had to ask what they reach, and those that knew or did not get that far. */
  asked: number;
  planned: number;
  /** Passes that were cancelled or died. */
  aborts: number;
}

function drawScenario(seed: number): Scenario {
  const random = new Random(`autograd ${seed}`);
  const program = drawProgram(random.split('program'));
  const faults = random.split('faults');
  const kind = faults.weighted({ none: 6, cancel: 2, death: 2 });
  return {
    seed,
    program,
    jitterMs: faults.pick([0.1, 1, 10]),
    passes: faults.int(1, 4),
    dtype: 'float64',
    asks: random.split('asks').chance(0.5),
    cancelAfterMs: kind === 'cancel' ? faults.exponential(20) : undefined,
    death: kind === 'death' ? { worker: faults.int(1, program.workers), atMs: faults.exponential(60) } : undefined,
  };
}

/** Programs whose gradients must be those of one process, to the last bit; all of them must end, and leave nothing behind. */
export function programSuite(watch?: (outcome: Outcome) => void): Suite<Scenario> {
  return {
    name: 'autograd',
    draw: drawScenario,
    async run(scenario) {
      const expected = await runLocally(scenario);
      const outcome = await runDistributed(scenario);
      watch?.(outcome);
      check(scenario, expected, outcome);
      return outcome.result;
    },
  };
}

/** The gradients by leaf after one pass, all in one place. */
async function runLocally({ program, dtype }: Scenario): Promise<(number[] | undefined)[] | undefined> {
  const leaves = makeLeaves(program, dtype);
  const place = (worker: number): Place => ({
    worker,
    leaf: (index) => leaves[index] as Tensor,
    call: (to, fn, args) => runAt(program, place(to), fn, args),
  });
  const roots = rootsOf(program, await runAt(program, place(0), -1, [leaves[0] as Tensor]));
  if (roots.length === 0) return undefined;
  runBackward(roots);
  return leaves.map((leaf) => (leaf.grad === null ? undefined : (leaf.grad.toArray() as number[])));
}

/** Counts that start at nought. */
export function nothingCovered(): Covered {
  return {
    hops: 0,
    deepest: 0,
    sharedLeaves: 0,
    unused: 0,
    errors: 0,
    asked: 0,
    planned: 0,
    aborts: 0,
  };
}

/** The same over simulated workers. */
export async function runDistributed(scenario: Scenario, timing = 0): Promise<Outcome> {
  const { program, death } = scenario;
  const simulation = new Simulation({ seed: `${scenario.seed}/${timing}` });
  const leaves = makeLeaves(program, scenario.dtype);
  const covered = nothingCovered();
  const uses = leaves.map(() => 0);
  const count = (host: SimHost): Place => counted(placeOn(host, leaves), covered, uses);
  const group = new SimGroup(simulation, program.workers, scenario.jitterMs, async (on, fn, args) => {
    try {
      return await runAt(program, count(on), fn, args);
    } catch (error) {
      if (error instanceof RangeError) covered.errors++;
      throw error;
    }
  });
  for (const host of group.hosts) host.session.plans = !scenario.asks;
  const creator = group.host(0);
  let ended: string | undefined;
  let gradients: Outcome['gradients'];
  simulation.clock.after(0, 'start', () => {
    const body = creator.run(() => context((id) => train(scenario, group, leaves, id, count(creator), covered)));
    body.then(
      (found) => {
        gradients = found;
        ended = 'finished';
      },
      (error: unknown) => (ended = error instanceof RpcError ? error.code : String(error)),
    );
  });
  if (death !== undefined) simulation.clock.after(death.atMs, 'death', () => group.kill(death.worker));
  // Keeps time going while promises alone have work to do.
  const tick = (): void => void simulation.clock.after(25, 'tick', () => (quiet() ? undefined : tick()));
  const quiet = (): boolean => ended !== undefined && group.hosts.every((host) => host.gone || isIdle(host));
  tick();
  simulation.atEnd('nothing is kept', () => {
    const left = group.hosts.flatMap((host) => (host.gone ? [] : keptBy(host)));
    return left.length > 0 ? left.join('; ') : undefined;
  });
  const result = await simulation.runAsync({
    safetyMs: 1,
    livenessMs: 600_000,
    done: quiet,
    describe: () => describe(group, ended),
  });
  const messages = [...group.delivered.values()].reduce((a, b) => a + b, 0);
  if (ended !== 'finished') covered.aborts++;
  covered.sharedLeaves = uses.filter((n) => n > 1).length;
  covered.deepest = depthOf(program, -1);
  covered[group.delivered.has(MessageType.AUTOGRAD_DISCOVER_REQ) ? 'asked' : 'planned']++;
  return { result, ended: ended ?? 'nothing', gradients, messages, covered };
}

async function train(
  scenario: Scenario,
  group: SimGroup,
  leaves: readonly Tensor[],
  id: bigint,
  creator: Place,
  covered: Covered,
): Promise<Outcome['gradients']> {
  const { program } = scenario;
  const roots = rootsOf(program, await runAt(program, creator, -1, [leaves[0] as Tensor]));
  if (roots.length === 0) return undefined;
  const { cancelAfterMs } = scenario;
  const done = cancelAfterMs !== undefined && (await inTime(cancelAfterMs, group, id, roots)) ? 1 : 0;
  if (cancelAfterMs !== undefined && done === 0) covered.aborts++;
  for (let pass = done; pass < scenario.passes; pass++) {
    const before = reached(group);
    await backward(id, roots, { retainGraph: true });
    const sends = group.hosts.reduce((sum, host) => sum + (host.session.contexts.find(id)?.sends.size ?? 0), 0);
    if (pass === scenario.passes - 1) covered.unused += Math.max(0, sends - (reached(group) - before));
  }
  return gradientsOf(scenario.program, group, leaves, id);
}

/** Runs a pass that is cancelled some time; one that was not in time leaves no gradients anywhere. */
async function inTime(afterMs: number, group: SimGroup, id: bigint, roots: readonly Tensor[]): Promise<boolean> {
  const stop = new AbortController();
  const { clock } = group.simulation;
  clock.after(afterMs, 'cancel', () => stop.abort());
  try {
    await backward(id, roots, { retainGraph: true, signal: stop.signal });
    return true;
  } catch (error) {
    if (!(error instanceof RpcError) || error.code !== 'cancelled') throw error;
  }
  // Half of the time the next pass follows while the abort is still on its way.
  if (afterMs % 2 < 1) return false;
  await new Promise<void>((resolve) => void clock.after(500, 'abort has spread', resolve));
  for (const host of group.hosts) {
    const left = host.session.contexts.find(id)?.gradients.size ?? 0;
    if (left > 0)
      group.simulation.fail('atomic', `${left} gradients of a cancelled pass are left on worker ${host.id}`);
  }
  return false;
}

function gradientsOf(program: Program, group: SimGroup, leaves: readonly Tensor[], id: bigint): Outcome['gradients'] {
  return program.leaves.map(({ worker }, i) => {
    const node = gradEdge(leaves[i] as Tensor)?.node;
    const found = group.host(worker).session.contexts.find(id);
    return node instanceof AccumulateGrad ? (found?.gradients.get(node)?.toArray() as number[] | undefined) : undefined;
  });
}

function check(scenario: Scenario, once: (number[] | undefined)[] | undefined, outcome: Outcome): void {
  const fail = (rule: string, detail: string): never => {
    throw new SimulationFailure(rule, detail, new Simulation({ seed: scenario.seed }));
  };
  if (outcome.ended !== 'finished') {
    if (scenario.death === undefined) fail('unexpected failure', outcome.ended);
    if (!['peer-died', 'failed-precondition'].includes(outcome.ended))
      fail('unexpected failure after a death', outcome.ended);
    return;
  }
  const expected = once?.map((grad) => grad?.map((value) => value * scenario.passes));
  // What died has no gradients to show.
  const dead = scenario.death?.worker;
  const visible = (list: readonly (readonly number[] | undefined)[] | undefined): string =>
    JSON.stringify(list?.map((grad, i) => (scenario.program.leaves[i]?.worker === dead ? null : (grad ?? null))));
  if (visible(expected) !== visible(outcome.gradients))
    fail('gradients', `${visible(outcome.gradients)} instead of ${visible(expected)}`);
}

function makeLeaves(program: Program, dtype: 'float32' | 'float64'): Tensor[] {
  return program.leaves.map(({ values }) => tensor([...values], { dtype, requiresGrad: true }));
}

function placeOn(host: SimHost, leaves: readonly Tensor[]): Place {
  return {
    worker: host.id,
    leaf: (index) => leaves[index] as Tensor,
    call: (to, fn, args) => host.callFunction(to, fn, args),
  };
}

/** Sums that can be roots: leaves among them are passed through an operation. */
function rootsOf(program: Program, values: readonly Tensor[]): Tensor[] {
  const picked = new Set(program.roots.map((index) => index % values.length));
  return [...picked]
    .map((index) => values[index] as Tensor)
    .filter((value) => value.requiresGrad)
    .map((value) => value.mul(1).sum());
}

/** Messages of passes delivered so far, each to a send function. */
function reached(group: SimGroup): number {
  return group.delivered.get(MessageType.BACKWARD_AUTOGRAD_REQ) ?? 0;
}

/** A place that notes what is done there. */
function counted(place: Place, covered: Covered, uses: number[]): Place {
  return {
    worker: place.worker,
    leaf: (index) => {
      uses[index] = (uses[index] ?? 0) + 1;
      return place.leaf(index);
    },
    call: (to, fn, args) => {
      if (to !== place.worker) covered.hops++;
      return place.call(to, fn, args);
    },
  };
}

/** Calls inside of each other at most, from function `fn` (main: -1) on. */
function depthOf(program: Program, fn: number): number {
  const steps = fn < 0 ? program.main : (program.functions[fn] as Fn).steps;
  const below = program.functions.length - fn - 1;
  if (below <= 0) return 0;
  const calls = steps.flatMap((step) => (step.do === 'call' ? step.calls : []));
  return Math.max(0, ...calls.map((call) => 1 + depthOf(program, fn + 1 + (call.fn % below))));
}

function isIdle(host: SimHost): boolean {
  return host.session.contexts.size === 0 && host.session.runner.machine.active === 0;
}

/** What a worker keeps, but for what it has to remember of ends that others have told. */
function keptBy({ session: { contexts, runner } }: SimHost): string[] {
  return [...kept(contexts, ['creators', 'dead', 'hearsay']), ...kept(runner.machine, ['dead'])];
}

function describe(group: SimGroup, ended: string | undefined): string {
  const workers = group.hosts.map(
    ({ id, gone, session }) =>
      `${id}: ${gone ? 'dead' : `${session.contexts.size} contexts, ${session.runner.machine.active} passes`}`,
  );
  return `program ${ended ?? 'still runs'}; ${workers.join('; ')}`;
}
