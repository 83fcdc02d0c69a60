/**
 * @file Drawn programs of a DistributedOptimizer whose passes go wrong: one throws on its way, is given up, or is too late, while aborts are slow to
 * come. Right after it every worker, asked by whomever, has the gradients of those that succeeded, and the parameters become what they become in
 * one process that makes these alone.
 */
import { Random } from '@backwire/testing';
import { rpcAsync, rpcFunction, rpcInfo } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { remote } from '@backwire/rref';
import { optim, tensor, type Tensor } from '@backwire/tensor';
import { expect, it } from 'vitest';
import { backward, context, DistributedOptimizer, getGradients } from '../src/index.ts';
import type { AutogradSession } from '../src/extension.ts';
import { expectClean, useAgents } from './agents.ts';

const SEEDS = Number(process.env.BACKWIRE_DRAWN_SEEDS ?? 20);
const WORKERS = 5;
const { agents, at } = useAgents('optimizer-drawn', WORKERS);

/** A row of workers that multiply by their parameter; at `throwsAt` of them the way back throws. */
interface Way {
  readonly through: readonly number[];
  readonly throwsAt: number | undefined;
}

interface Pass {
  /** Which worker begins it: in the creator's own code, or in a function that it calls. */
  readonly origin: number;
  readonly ways: readonly Way[];
  readonly giveUpAfterMs: number | undefined;
  readonly timeoutMs: number | undefined;
  /** Who is asked for gradients afterwards, and through whom. */
  readonly asked: readonly (readonly [number, number])[];
}

interface Plan {
  readonly contexts: readonly (readonly Pass[])[];
  /** By worker, how long aborts wait there; not at the creator, whom answers come to that would have to wait, too. */
  readonly lateMs: readonly number[];
}

function drawPass(random: Random): Pass {
  const all = [1, 2, 3, 4];
  const ways = Array.from({ length: random.int(1, 4) }, (): Way => {
    const through = random.shuffle(all).slice(0, random.int(1, 5));
    return { through, throwsAt: random.chance(0.15) ? random.int(0, through.length) : undefined };
  });
  const late = random.weighted({ none: 4, signal: 3, time: 1 });
  return {
    origin: random.chance(0.75) ? 0 : random.pick(all),
    ways,
    giveUpAfterMs: late === 'signal' ? random.exponential(2) : undefined,
    timeoutMs: late === 'time' ? random.int(1, 6) : undefined,
    asked: Array.from({ length: random.int(1, 5) }, () => [random.pick(all), random.int(0, WORKERS)] as const),
  };
}

function draw(random: Random): Plan {
  const contexts = Array.from({ length: random.int(2, 4) }, () =>
    Array.from({ length: random.int(1, 4) }, () => drawPass(random)),
  );
  return {
    contexts,
    lateMs: Array.from({ length: WORKERS }, (_, rank) => (rank > 0 && random.chance(0.4) ? random.int(1, 40) : 0)),
  };
}

let parameters: readonly Tensor[] = [];
const input = (): Tensor => tensor([1, -0.5], { dtype: 'float64', requiresGrad: true });
const makeParameters = (): Tensor[] =>
  Array.from({ length: WORKERS }, (_, i) => tensor([1 + i / 4, 2 - i / 8], { dtype: 'float64', requiresGrad: true }));

const parameterOf = rpcFunction('optimizer-drawn/parameter', (rank: number) => parameters[rank]!);
const visit = rpcFunction('optimizer-drawn/visit', async (way: Way, step: number, x: Tensor): Promise<Tensor> => {
  const y = x.mul(parameters[way.through[step]!]!);
  if (way.throwsAt === step)
    y.registerHook(() => {
      throw new RangeError('not today');
    });
  const to = way.through[step + 1];
  return to === undefined ? y : rpcAsync(`w${to}`, visit, [way, step + 1, y]);
});
const gradientOf = rpcFunction('optimizer-drawn/gradient', (id: bigint, rank: number) => {
  using gradients = getGradients(id);
  return gradients.get(parameters[rank]!)?.toArray() ?? null;
});
const askedThrough = rpcFunction('optimizer-drawn/through', (id: bigint, rank: number) =>
  rpcAsync(`w${rank}`, gradientOf, [id, rank]),
);
const pass = rpcFunction('optimizer-drawn/pass', (id: bigint, plan: Pass) => passHere(id, plan));

/** Whether it succeeded. */
async function passHere(id: bigint, { ways, giveUpAfterMs, timeoutMs }: Pass): Promise<boolean> {
  const ends = await Promise.all(ways.map((way) => rpcAsync(`w${way.through[0]}`, visit, [way, 0, input()])));
  const giveUp = new AbortController();
  if (giveUpAfterMs !== undefined) setTimeout(() => giveUp.abort(), giveUpAfterMs);
  const limits = { signal: giveUp.signal, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
  try {
    await backward(
      id,
      ends.map((end) => end.sum()),
      limits,
    );
    return true;
  } catch (error) {
    const isMeant =
      /not today/.test(String(error)) || ['cancelled', 'deadline-exceeded'].includes(rpcInfo(error)?.code ?? '');
    if (!isMeant) throw error;
    return false;
  }
}

/** The pass in one process: into `.grad`. */
function passAlone(own: readonly Tensor[], { ways }: Pass): void {
  for (const { through } of ways)
    through
      .reduce((x, rank) => x.mul(own[rank]!), input())
      .sum()
      .backward();
}

class Program {
  private readonly plan: Plan;
  private readonly own = makeParameters();
  private readonly optimizer = new optim.SGD(this.own.slice(1), { lr: 0.01, momentum: 0.5 });
  passes = 0;
  failed = 0;

  constructor(plan: Plan) {
    this.plan = plan;
    parameters = makeParameters();
  }

  async run(): Promise<void> {
    const rrefs = [1, 2, 3, 4].map((rank) => remote(`w${rank}`, parameterOf, [rank]));
    const optimizer = await DistributedOptimizer.create(optim.SGD, rrefs, { lr: 0.01, momentum: 0.5 });
    for (const passes of this.plan.contexts) await context((id) => this.step(id, passes, optimizer));
    optimizer.dispose();
    for (const rref of rrefs) rref.dispose();
  }

  private async step(id: bigint, passes: readonly Pass[], optimizer: DistributedOptimizer): Promise<void> {
    this.optimizer.zeroGrad();
    for (const one of passes) {
      this.passes++;
      const succeeded = await (one.origin === 0 ? passHere(id, one) : rpcAsync(`w${one.origin}`, pass, [id, one]));
      if (succeeded) passAlone(this.own, one);
      else this.failed++;
      for (const [rank, through] of one.asked) await this.expectGradient(id, rank, through);
    }
    const before = parameters.map((one) => one.toArray());
    const outcome = await optimizer.step(id).then(
      () => 'stepped',
      (error: unknown) => rpcInfo(error)?.code,
    );
    if (this.own.some(({ grad }) => grad !== null)) {
      this.optimizer.step();
      expect(outcome).toBe('stepped');
      parameters.forEach((one, rank) => expectClose(one.toArray(), this.own[rank]!.toArray()));
    } else expect(parameters.map((one) => one.toArray())).toEqual(before);
  }

  private async expectGradient(id: bigint, rank: number, through: number): Promise<void> {
    const found = await (through === 0
      ? rpcAsync(`w${rank}`, gradientOf, [id, rank])
      : rpcAsync(`w${through}`, askedThrough, [id, rank]));
    const expected = this.own[rank]!.grad?.toArray() ?? null;
    if (expected === null) expect(found).toBeNull();
    else expectClose(found, expected);
  }
}

function expectClose(found: unknown, expected: unknown): void {
  const [a, b] = [found as number[], expected as number[]];
  expect(Array.isArray(a), `expected ${String(b)}, found ${String(a)}`).toBe(true);
  a.forEach((value, i) => expect(value).toBeCloseTo(b[i]!, 10));
}

type Part = (call: { from: { id: number } }, ...rest: unknown[]) => unknown;

/**
 * Lets the aborts that others than the creator send wait on each worker, but for what their sender sends next: on a link nothing overtakes them.
 */
function slowAborts(lateMs: readonly number[]): () => void {
  const undo = lateMs.map((ms, rank) => {
    const session = (agents[rank] as ExtensionHost).session('dist-autograd') as AutogradSession;
    const { runner } = session;
    const held: { from: number; tell: () => void }[] = [];
    const flush = (from?: number): void => {
      for (const one of held.filter((each) => from === undefined || each.from === from)) {
        held.splice(held.indexOf(one), 1);
        one.tell();
      }
    };
    const onAbort = runner.onAbort.bind(runner);
    runner.onAbort = (from, payload) => {
      const tell = (): void => onAbort(from, payload);
      if (ms === 0 || from.id === 0) return tell();
      held.push({ from: from.id, tell });
      setTimeout(() => flush(from.id), ms);
    };
    const behind = (owner: object, name: string): (() => void) => {
      const parts = owner as Record<string, Part>;
      const part = parts[name]!.bind(owner);
      parts[name] = (call, ...rest) => {
        flush(call.from.id);
        return part(call, ...rest);
      };
      return () => delete parts[name];
    };
    const back = [behind(session, 'serve'), behind(runner, 'onDiscover'), behind(runner, 'onBackward')];
    return () => {
      flush();
      runner.onAbort = onAbort;
      for (const one of back) one();
    };
  });
  return () => undo.forEach((back) => back());
}

it(`have the values of one process: ${SEEDS} programs`, { timeout: 20_000 + 3_000 * SEEDS }, async () => {
  let [passes, failed] = [0, 0];
  for (let seed = 0; seed < SEEDS; seed++) {
    const plan = draw(new Random(`optimizer ${seed}`));
    const end = slowAborts(plan.lateMs);
    const program = new Program(plan);
    await at(0, () => program.run()).catch((error: unknown) => {
      throw new Error(`seed ${seed}: ${JSON.stringify(plan)}`, { cause: error });
    });
    end();
    passes += program.passes;
    failed += program.failed;
  }
  await expectClean(agents);
  expect(failed).toBeGreaterThan(passes / 10);
});
