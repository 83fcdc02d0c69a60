/** @file PyTorch's test of a parameter server that answers its trainers together, and of promises that do not travel. */
import { rpcAsync, rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { errorMatching, shown } from '@backwire/testing';
import { mseLoss, nn, rand, randint, rpcName, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { callsSent, onAll, withGroup } from './group.ts';
import { createRRef, remote, type RRef } from '../src/index.ts';

/** The mean of what its trainers send in one iteration goes to all of them once the last has sent. */
class Server {
  static readonly [rpcName] = 'upstream-server/Server';
  private readonly trainers: number;
  private iteration = 0;
  private mean: Tensor | undefined;
  private sent: { gradient: Tensor; answer: (mean: Tensor) => void }[] = [];
  constructor(trainers: number) {
    this.trainers = trainers;
  }
  /** As PyTorch's, a method of the class, which gets the RRef of its server. */
  static async average(server: RRef<Server>, iteration: number, gradient: Tensor): Promise<Tensor> {
    const self = await server.localValue();
    if (iteration > self.iteration) {
      self.iteration = iteration;
      self.sent = [];
    }
    return new Promise((answer) => {
      self.sent.push({ gradient, answer });
      if (self.sent.length < self.trainers) return;
      const mean = self.sent
        .map((each) => each.gradient)
        .reduce((sum, each) => sum.add(each))
        .div(self.trainers);
      self.mean = mean;
      for (const each of self.sent) each.answer(mean);
    });
  }
  static async gradientOf(server: RRef<Server>): Promise<Tensor | undefined> {
    return (await server.localValue()).mean;
  }
}
rpcClass(Server, { methods: [], statics: ['average', 'gradientOf'] });

interface Shown {
  readonly layout: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly values: readonly (readonly number[])[];
}
interface Step {
  readonly own: Shown;
  readonly mean: Shown;
  readonly held: Shown;
}

/** Trains a bag of embeddings of its own for ten steps: of each its gradient, the mean that it got, and the one that the server holds. */
const train = rpcFunction('upstream-server/train', async (server: RRef<Server>, sparse: boolean): Promise<Step[]> => {
  const model = new nn.EmbeddingBag(10, 10, { sparse });
  const typed = server as unknown as RRef<Server & Omit<typeof Server, 'prototype'>>;
  const steps: Step[] = [];
  for (let i = 0; i < 10; i++) {
    mseLoss(model.forward(randint(0, 10, [10, 10])), rand([10, 10])).backward();
    const own = model.weight.grad as Tensor;
    const mean = await typed.rpcAsync().average(server, i, own);
    const held = (await typed.rpcSync().gradientOf(server)) as Tensor;
    const [of, got, there] = [own, mean, held].map((each) => shown(each) as Shown);
    steps.push({ own: of!, mean: got!, held: there! });
  }
  server.dispose();
  return steps;
});

function meanOf(gradients: readonly Shown[]): number[][] {
  const rows = gradients.map(({ values }) => values);
  return rows[0]!.map((row, i) => row.map((_, j) => rows.reduce((sum, of) => sum + of[i]![j]!, 0) / rows.length));
}

describe.each([
  ['dense', false],
  ['sparse', true],
] as const)('a server of %s gradients', (_, sparse) => {
  it('gives all its trainers the mean, which is what it holds then; each worker serves the others', () =>
    withGroup(4, async (agents) => {
      const serve = async (rank: number): Promise<void> => {
        const server = createRRef(new Server(3));
        const trainers = [1, 2, 3].map((more) => rpcAsync((rank + more) % 4, train, [server, sparse]));
        const steps = await Promise.all(trainers);
        server.dispose();
        for (let i = 0; i < 10; i++) {
          const at = steps.map((of) => of[i] as Step);
          const expected = meanOf(at.map(({ own }) => own));
          for (const { own, mean, held } of at) {
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
