/** @file PyTorch's test of a parameter server that answers its trainers together, and of promises that do not travel. */
import { rpcAsync, rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { errorMatching } from '@backwire/testing';
import { mseLoss, nn, rand, randint, rpcName, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { callsSent, onAll, withGroup } from './group.ts';
import { createRRef, remote, type RRef } from '../src/index.ts';

/**
 * What its trainers have sent, in this iteration and before, goes to all of them as a mean once the last has sent. As PyTorch's, it adds in
 * place to the first tensor that came, and has static methods that are given the reference through which they are called.
 */
class Server {
  static readonly [rpcName] = 'upstream-server/Server';
  private readonly trainers: number;
  private iteration = 0;
  private total: Tensor | undefined;
  private mean: Tensor | undefined;
  private waiting: ((mean: Tensor) => void)[] = [];
  constructor(trainers: number) {
    this.trainers = trainers;
  }
  static async average(server: RRef<Server>, iteration: number, gradient: Tensor): Promise<Tensor> {
    const self = await server.localValue();
    if (iteration > self.iteration) {
      self.iteration = iteration;
      self.waiting = [];
    }
    return new Promise((answer) => {
      self.waiting.push(answer);
      if (self.total === undefined) self.total = gradient;
      else self.total.add_(gradient);
      if (self.waiting.length < self.trainers) return;
      self.mean = self.total.div(self.trainers);
      for (const each of self.waiting) each(self.total.div(self.trainers));
    });
  }
  static async gradient(server: RRef<Server>): Promise<Tensor | undefined> {
    return (await server.localValue()).mean;
  }
}
rpcClass(Server, { methods: [], statics: ['average', 'gradient'] });
/** The static methods, which a proxy has as well. */
type Served = RRef<Server & Pick<typeof Server, 'average' | 'gradient'>>;

/** What is compared of a gradient: of a sparse one its sums, as the entries of what is added up are ever more. */
interface Shown {
  readonly layout: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly values: readonly (readonly number[])[];
}
function shown(t: Tensor): Shown {
  const { layout, dtype, shape } = t;
  return { layout, dtype, shape, values: t.toDense().toArray() as number[][] };
}
interface Step {
  readonly own: Shown;
  /** The same when the server had answered. */
  readonly kept: Shown;
  readonly mean: Shown;
  readonly held: Shown;
}

/** Trains a bag of embeddings of its own for ten steps: of each its gradient, which goes on growing, the mean that it got, and the one that the server holds. */
const train = rpcFunction('upstream-server/train', async (server: Served, sparse: boolean): Promise<Step[]> => {
  const model = new nn.EmbeddingBag(10, 10, { sparse });
  const steps: Step[] = [];
  for (let i = 0; i < 10; i++) {
    mseLoss(model.forward(randint(0, 10, [10, 10])), rand([10, 10])).backward();
    const gradient = model.weight.grad as Tensor;
    const own = shown(gradient);
    const mean = await server.rpcAsync().average(server, i, gradient);
    const held = (await server.rpcSync().gradient(server)) as Tensor;
    steps.push({ own, kept: shown(gradient), mean: shown(mean), held: shown(held) });
  }
  server.dispose();
  return steps;
});

/** The sum of what was sent, by the number of trainers. */
function meanOf(sent: readonly Shown[], trainers: number): number[][] {
  const rows = sent.map(({ values }) => values);
  return rows[0]!.map((row, i) => row.map((_, j) => rows.reduce((sum, of) => sum + of[i]![j]!, 0) / trainers));
}

describe.each([
  ['dense', false],
  ['sparse', true],
] as const)('a server of %s gradients', (_, sparse) => {
  it('gives all its trainers the mean, which is what it holds then; each worker serves the others', () =>
    withGroup(4, async (agents) => {
      const serve = async (rank: number): Promise<void> => {
        const server = createRRef(new Server(3)) as Served;
        const trainers = [1, 2, 3].map((more) => rpcAsync((rank + more) % 4, train, [server, sparse]));
        const steps = await Promise.all(trainers);
        server.dispose();
        for (let i = 0; i < 10; i++) {
          const at = steps.map((of) => of[i] as Step);
          const sent = steps.flatMap((of) => of.slice(0, i + 1).map(({ own }) => own));
          const expected = meanOf(sent, 3);
          for (const { own, kept, mean, held } of at) {
            expect(kept).toEqual(own);
            const { layout, dtype, shape } = own;
            expect({ layout, dtype, shape }).toEqual({
              layout: sparse ? 'sparse_coo' : 'strided',
              dtype: 'float32',
              shape: [10, 10],
            });
            expect(held).toMatchObject({ layout, dtype, shape });
            expect(mean).toEqual(held);
            expect(mean).toEqual(at[0]!.mean);
            for (const [r, row] of mean.values.entries())
              for (const [c, value] of row.entries()) expect(value).toBeCloseTo(expected[r]![c]!, 5);
          }
        }
      };
      await Promise.all(agents.map((agent, rank) => agent.run(() => serve(rank))));
    }));
});

const echo = rpcFunction('upstream-server/echo', (x: unknown) => x);

describe('a promise is no argument', () => {
  it.each([
    ['rpcSync', (to: string, x: unknown) => rpcSync(to, echo, [x])],
    ['rpcAsync', (to: string, x: unknown) => rpcAsync(to, echo, [x])],
    ['remote', async (to: string, x: unknown) => remote(to, echo, [x]).toHere()],
  ] as const)('of %s, alone or inside of one, nor is the promise of a call', (way, call) =>
    onAll(4, async (at, self) => {
      const ofCall = rpcAsync(at('w1'), echo, [1]);
      await ofCall;
      const before = callsSent(self);
      for (const [argument, place] of [
        [Promise.resolve(1), '$[0]'],
        [{ inside: [Promise.resolve(1)] }, '$[0].inside[0]'],
        [ofCall, '$[0]'],
      ] as const) {
        const message = `cannot send an instance of class Promise at ${place}: await it`;
        const refusal = errorMatching(TypeError, { message });
        if (way === 'remote') expect(() => remote(at('w1'), echo, [argument])).toThrow(refusal);
        await expect(call(at('w1'), argument)).rejects.toThrow(refusal);
      }
      expect(callsSent(self)).toBe(before);
      expect(await call(at('w1'), 1)).toBe(1);
      expect(callsSent(self)).toBeGreaterThan(before);
    }),
  );
});
