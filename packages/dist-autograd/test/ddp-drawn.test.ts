/**
 * @file Drawn programs of replicated models in contexts: several models, over groups of some of the workers, run in another order on each
 * worker, in passes that some repeat over a retained graph. One pass may go wrong on one worker. Then nobody gets a wrong gradient, nobody
 * waits for ever, and everybody is told who makes no further pass.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { Random } from '@backwire/testing';
import { createAgent, processGroup, rpcInfo, type RpcAgent } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { nn, type Tensor } from '@backwire/tensor';
import { expect, it } from 'vitest';
import { expectClean, waiting } from './agents.ts';
import { gradientIn, Slope, type Replica } from './replica-models.ts';
import { backward, context, distAutograd } from '../src/index.ts';

const SEEDS = Number(process.env.BACKWIRE_DRAWN_SEEDS ?? 30);
const FAULTS = [
  'none',
  'tensor hook throws',
  'comm hook throws',
  'root without gradient',
  'second pass throws',
] as const;
/** Nobody who is not told ends before. */
const TIMEOUT_MS = 8_000;

interface Model {
  /** The ranks that have it. */
  readonly members: readonly number[];
  readonly hooked: boolean;
  readonly large: boolean;
  /** An earlier one, over whose process group it is. */
  readonly beside: number | undefined;
}

interface Pass {
  readonly step: number;
  readonly models: readonly number[];
  /** More than one: over the same graph. */
  readonly times: number;
}

interface Plan {
  readonly workers: number;
  readonly models: readonly Model[];
  /** In the order in which all workers make theirs; those of one step in one context. */
  readonly passes: readonly Pass[];
  readonly fault: (typeof FAULTS)[number];
  readonly at: { readonly pass: number; readonly model: number; readonly rank: number; readonly time: number };
}

function drawModels(random: Random, workers: number): Model[] {
  const all = Array.from({ length: workers }, (_, rank) => rank);
  const models: Model[] = [];
  for (let i = random.int(1, 4); i > 0; i--) {
    const members = random.chance(0.4) ? all : random.shuffle(all).slice(0, 2).sort();
    const same = models.findIndex((one) => one.members.join() === members.join());
    const beside = same >= 0 && random.chance(0.5) ? same : undefined;
    models.push({ members, hooked: random.chance(0.3), large: random.chance(0.3), beside });
  }
  return models;
}

function draw(random: Random): Plan {
  const workers = random.int(2, 4);
  const models = drawModels(random, workers);
  const fault = random.pick(FAULTS);
  const passes: Pass[] = [];
  for (let step = 0, steps = random.int(2, 4); step < steps; step++)
    for (let i = random.int(1, 3); i > 0; i--) {
      const some = models.map((_, model) => model).filter(() => random.chance(0.7));
      const run = some.length > 0 ? some : [random.int(0, models.length)];
      passes.push({ step, models: run, times: random.chance(0.3) ? 2 : 1 });
    }
  const pass = random.int(0, passes.length);
  const faulty = passes[pass] as Pass;
  if (fault === 'second pass throws') passes[pass] = { ...faulty, times: 2 };
  const model = random.pick(faulty.models);
  const time = fault === 'second pass throws' ? 1 : random.int(0, faulty.times);
  if (fault === 'comm hook throws') models[model] = { ...(models[model] as Model), hooked: true };
  const { members } = models[model] as Model;
  return { workers, models, passes, fault, at: { pass, model, rank: random.pick(members), time } };
}

class Fault extends Error {}

/** What came of one pass on one worker: whether its gradients, and all those before, are right, or the error. */
interface Outcome {
  readonly pass: number;
  readonly time: number;
  readonly error?: unknown;
  readonly found: readonly (number | undefined)[];
  readonly expected: readonly (number | undefined)[];
}

class Program {
  private readonly plan: Plan;
  private readonly agents: readonly RpcAgent[];
  private readonly seed: number;
  /** Where each worker is. */
  private readonly now: { pass: number; time: number }[];

  constructor(plan: Plan, agents: readonly RpcAgent[], seed: number) {
    this.plan = plan;
    this.agents = agents;
    this.seed = seed;
    this.now = agents.map(() => ({ pass: 0, time: 0 }));
  }

  run(): Promise<Outcome[][]> {
    const own = this.agents.map((_, rank) => this.replicas(rank));
    return Promise.all(own.map((replicas, rank) => this.worker(rank, replicas)));
  }

  private isFaulty(rank: number): boolean {
    const { fault, at } = this.plan;
    const { pass, time } = this.now[rank] as (typeof this.now)[number];
    return fault !== 'none' && at.rank === rank && at.pass === pass && at.time === time;
  }

  /** A worker's replicas by model, all made in the order of the models. */
  private replicas(rank: number): Map<number, Replica> {
    const { models, fault, at } = this.plan;
    const groups: nn.ProcessGroup[] = [];
    const replicas = new Map<number, Replica>();
    for (const [model, { members, hooked, large, beside }] of models.entries()) {
      if (!members.includes(rank)) continue;
      const workers = members.map((member) => `w${member}`);
      const group = groups[beside ?? -1] ?? processGroup({ agent: this.agents[rank] as RpcAgent, workers });
      groups[model] = group;
      const replica = new nn.DistributedDataParallel(new Slope(large ? 30_000 : 3), { group });
      if (hooked)
        replica.registerCommHook(null, (_, bucket) => {
          if (fault === 'comm hook throws' && at.model === model && this.isFaulty(rank)) throw new Fault('in the hook');
          return group.allReduce(bucket.buffer(), 'mean', { signal: bucket.signal, tags: bucket.tags });
        });
      replica.module.weight.registerHook((grad) => {
        if (/tensor hook|second pass/.test(fault) && at.model === model && this.isFaulty(rank))
          throw new Fault('in the backward pass');
        return grad;
      });
      replicas.set(model, replica);
    }
    return replicas;
  }

  private slope(rank: number, model: number, pass: number): number {
    return 6 * (1 + rank + 10 * model + 100 * pass);
  }

  private mean(model: number, pass: number): number {
    const { members } = this.plan.models[model] as Model;
    return members.reduce((sum, rank) => sum + this.slope(rank, model, pass), 0) / members.length;
  }

  private async worker(rank: number, replicas: ReadonlyMap<number, Replica>): Promise<Outcome[]> {
    const random = new Random(`${this.seed}/${rank}`);
    const outcomes: Outcome[] = [];
    const agent = this.agents[rank] as RpcAgent;
    for (const step of new Set(this.plan.passes.map((pass) => pass.step))) {
      const loop = async (id: bigint): Promise<void> => {
        const sums = new Map<number, number>();
        for (const [pass, { step: of, models, times }] of this.plan.passes.entries()) {
          const own = random.shuffle(models.filter((model) => replicas.has(model)));
          if (of !== step || own.length === 0) continue;
          for (let i = random.int(0, 8); i > 0; i--) await turn();
          const losses = own.map((model) => replicas.get(model)!.forward(this.slope(rank, model, pass)));
          for (let time = 0; time < times; time++) {
            this.now[rank] = { pass, time };
            const error = await this.pass(rank, id, losses, time + 1 < times);
            for (const model of error === undefined ? own : [])
              sums.set(model, (sums.get(model) ?? 0) + this.mean(model, pass));
            const found = [...replicas.values()].map((replica) => gradientIn(id, replica));
            const expected = [...replicas.keys()].map((model) => sums.get(model));
            outcomes.push({ pass, time, found, expected, ...(error === undefined ? {} : { error }) });
          }
        }
      };
      await agent.run(() => context(loop));
    }
    return outcomes;
  }

  private async pass(rank: number, id: bigint, losses: readonly Tensor[], retainGraph: boolean): Promise<unknown> {
    const bare = this.plan.fault === 'root without gradient' && this.isFaulty(rank);
    const roots = bare ? losses.map((loss) => loss.detach()) : losses;
    try {
      await backward(id, roots, { retainGraph, timeoutMs: TIMEOUT_MS });
      return undefined;
    } catch (error) {
      return error;
    }
  }
}

/** Whether a pass of a worker can come to nothing else than an error: it would combine a replica that the one of the fault has given up. */
function mustFail({ models, passes, fault, at }: Plan, rank: number, { pass, time }: Outcome): boolean {
  if (fault === 'none' || pass < at.pass || (pass === at.pass && time < at.time)) return false;
  const has = (worker: number) => (model: number) => (models[model] as Model).members.includes(worker);
  // Others of the same pass may have come together before a hook threw.
  const whole = fault !== 'comm hook throws' || pass > at.pass || time > at.time || rank === at.rank;
  const lost = whole ? (passes[at.pass] as Pass).models.filter(has(at.rank)) : [at.model];
  return (passes[pass] as Pass).models.filter(has(rank)).some((model) => lost.includes(model));
}

function mayFail({ fault, at }: Plan, { pass, time }: Outcome): boolean {
  return fault !== 'none' && (pass > at.pass || (pass === at.pass && time >= at.time));
}

function isTold(error: unknown): boolean {
  const text = String(error);
  if (/out of step with its group/.test(text)) return true;
  return rpcInfo(error)?.code === 'failed-precondition' && /worker 'w\d' makes no further pass with replica/.test(text);
}

function check(plan: Plan, all: readonly (readonly Outcome[])[], about: string): void {
  for (const [rank, outcomes] of all.entries())
    for (const outcome of outcomes) {
      const where = `worker ${rank}, pass ${outcome.pass}.${outcome.time}: ${String(outcome.error)}; ${about}`;
      expect(outcome.found, where).toEqual(outcome.expected);
      if (mustFail(plan, rank, outcome)) expect('error' in outcome, where).toBe(true);
      if (!('error' in outcome)) continue;
      expect(mayFail(plan, outcome), where).toBe(true);
      const { at } = plan;
      const own = rank === at.rank && outcome.pass === at.pass && outcome.time === at.time;
      if (own) expect(String(outcome.error), where).toMatch(/in the hook|in the backward pass|requires_grad not set/);
      else expect(isTold(outcome.error), where).toBe(true);
    }
}

async function run(seed: number): Promise<void> {
  const plan = draw(new Random(seed));
  const about = `seed ${seed}: ${JSON.stringify(plan)}`;
  const store = `memory://ddp-drawn-${seed}`;
  const started = Array.from({ length: plan.workers }, (_, rank) =>
    createAgent({
      name: `w${rank}`,
      rank,
      worldSize: plan.workers,
      store,
      extensions: [rrefs(), distAutograd()],
    }),
  );
  const agents = await Promise.all(started);
  try {
    check(plan, await new Program(plan, agents, seed).run(), about);
    await expect.poll(() => waiting(agents), { message: `nothing waits; ${about}`, timeout: 5_000 }).toBe(0);
    await expectClean(agents);
    const sound: Plan = { ...plan, fault: 'none' };
    check(sound, await new Program(sound, agents, seed).run(), `new replicas; ${about}`);
  } finally {
    await Promise.allSettled(agents.map((agent) => agent.shutdown({ graceful: false })));
  }
}

it(`of ${SEEDS} seeds`, { timeout: 20_000 + 2_000 * SEEDS }, async () => {
  const first = Number(process.env.BACKWIRE_DRAWN_FIRST ?? 1);
  for (let seed = first; seed < first + SEEDS; seed++) await run(seed);
});
