/** @file PyTorch's test of a parameter server that answers its trainers together, and of promises that do not travel. */
import { rpcAsync, rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { mseLoss, nn, rand, randint, rpcName, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { withGroup } from './group.ts';
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
  average(iteration: number, gradient: Tensor): Promise<Tensor> {
    if (iteration > this.iteration) {
      this.iteration = iteration;
      this.sent = [];
    }
    return new Promise((answer) => {
      this.sent.push({ gradient, answer });
      if (this.sent.length < this.trainers) return;
      const mean = this.sent
        .map((each) => each.gradient)
        .reduce((sum, each) => sum.add(each))
        .div(this.trainers);
      this.mean = mean;
      for (const each of this.sent) each.answer(mean);
    });
  }
  gradient(): Tensor | undefined {
    return this.mean;
  }
}
rpcClass(Server, { methods: ['average', 'gradient'] });

interface Step {
  readonly own: unknown;
  readonly mean: unknown;
  readonly held: unknown;
}

const shown = (t: Tensor): unknown => [t.shape, (t.layout === 'sparse_coo' ? t.toDense() : t).toArray()];

/** Trains a bag of embeddings of its own for ten steps: of each its gradient, the mean that it got, and the one that the server holds. */
const train = rpcFunction('upstream-server/train', async (server: RRef<Server>, sparse: boolean): Promise<Step[]> => {
  const model = new nn.EmbeddingBag(10, 10, { sparse });
  const steps: Step[] = [];
  for (let i = 0; i < 10; i++) {
    mseLoss(model.forward(randint(0, 10, [10, 10])), rand([10, 10])).backward();
    const own = model.weight.grad as Tensor;
    if ((own.layout === 'sparse_coo') !== sparse) throw new Error(`the gradient is ${own.layout}`);
    const mean = await server.rpcAsync().average(i, own);
    const held = (await server.rpcSync().gradient()) as Tensor;
    if (mean.layout !== held.layout) throw new Error(`${mean.layout} came for ${held.layout}`);
    steps.push({ own: shown(own), mean: shown(mean), held: shown(held) });
  }
  server.dispose();
  return steps;
});

function meanOf(gradients: readonly unknown[]): number[][] {
  const rows = gradients.map((each) => (each as [number[], number[][]])[1]);
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
          for (const { mean, held } of at) {
            expect(mean).toEqual(held);
            expect(mean).toEqual(at[0]!.mean);
            const got = (mean as [number[], number[][]])[1];
            for (const [r, row] of got.entries())
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
    ['rpcSync', (x: unknown) => rpcSync('w1', echo, [x])],
    ['rpcAsync', (x: unknown) => rpcAsync('w1', echo, [x])],
    ['remote', async (x: unknown) => remote('w1', echo, [x]).toHere()],
  ] as const)('of %s, alone or inside of one, nor is the promise of a call', (_, call) =>
    withGroup(2, async ([caller]) => {
      const ofCall = rpcAsync('w1', echo, [1]);
      await ofCall;
      const before = caller?.metrics()['calls_sent'];
      for (const argument of [Promise.resolve(1), { inside: [Promise.resolve(1)] }, ofCall]) {
        const error: unknown = await call(argument).catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(TypeError);
        expect((error as Error).message).toMatch(/Promise/);
      }
      expect(caller?.metrics()['calls_sent']).toBe(before);
      expect(await call(1)).toBe(1);
    }),
  );
});
