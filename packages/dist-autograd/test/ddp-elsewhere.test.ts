/** Replicas on workers that a pass only comes through: their groups are told of it when it fails before or after it has come to them. */
import { setTimeout as wait } from 'node:timers/promises';
import { processGroup, rpcClass, rpcInfo } from '@backwire/rpc';
import { remote, type RRef } from '@backwire/rref';
import { nn, rpcName, type Tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { expectClean, useAgents } from './agents.ts';
import { Slope } from './replica-models.ts';
import { backward, context } from '../src/index.ts';

/** Two trainers, w0 and w1, and for each a worker that has a part of its model: w2 and w3. */
const { agents, at } = useAgents('ddp-elsewhere', 4);
const TIMED = { timeoutMs: 4_000 };

class Part {
  static readonly [rpcName] = 'ddp-elsewhere/Part';
  private readonly replica: nn.DistributedDataParallel<Slope>;
  constructor(workers: readonly string[], brokenAfterMs = 0) {
    this.replica = new nn.DistributedDataParallel(new Slope(), { group: processGroup({ workers }) });
    if (brokenAfterMs > 0)
      this.replica.registerCommHook(null, async () => {
        await wait(brokenAfterMs);
        throw new RangeError('none today');
      });
  }
  forward(slope: number): Tensor {
    return this.replica.forward(slope);
  }
}
rpcClass(Part, { methods: ['forward'] });

/** Runs both trainers, each with its part of a model over {w2, w3}: what they come to, or their errors. */
async function train(fn: (rank: number, id: bigint, part: RRef<Part>) => Promise<void>): Promise<unknown[]> {
  const found = [0, 1].map((rank) =>
    at(rank, async () => {
      const part = remote(`w${2 + rank}`, Part, [['w2', 'w3']]);
      await context((id) => fn(rank, id, part)).finally(() => part.dispose());
      return undefined;
    }).catch((error: unknown) => error),
  );
  return Promise.all(found);
}

function expectTold(error: unknown, why: RegExp): void {
  expect(String(error)).toMatch(/worker 'w2' makes no further pass with replica \d+ of its group: /);
  expect(String(error)).toMatch(why);
  expect(rpcInfo(error)?.code).toBe('failed-precondition');
}

describe('a replica on a worker that a pass comes through', () => {
  it('is given up when the pass cannot begin', async () => {
    const [own, told] = await train(async (rank, id, part) => {
      const out = await part.rpcSync().forward(1);
      await backward(id, [rank === 0 ? out.detach() : out], TIMED);
    });
    expect(String(own)).toMatch(/requires_grad not set on root 0/);
    expectTold(told, /requires_grad not set on root 0/);
    await expectClean(agents);
  });

  it('is given up when the pass fails before it comes there', async () => {
    const [own, told] = await train(async (rank, id, part) => {
      const loss = (await part.rpcSync().forward(1)).mul(2);
      if (rank === 0)
        loss.registerHook(() => {
          throw new RangeError('none at all');
        });
      await backward(id, [loss.sum()], TIMED);
    });
    expect(String(own)).toBe('RangeError: Error on Node 0: none at all');
    expectTold(told, /none at all/);
    await expectClean(agents);
  });

  it('is given up when the pass fails elsewhere after its gradients were combined there', async () => {
    const [own, told] = await train(async (rank, id, part) => {
      const out = await part.rpcSync().forward(1);
      if (rank === 1) {
        await backward(id, [out], TIMED);
        await wait(400);
        await backward(id, [await part.rpcSync().forward(1)], TIMED);
        return;
      }
      const other = remote('w1', Part, [['w1'], 200]);
      const loss = out.add(await other.rpcSync().forward(1));
      await backward(id, [loss], TIMED).finally(() => other.dispose());
    });
    expect(String(own)).toMatch(/RangeError: Error on Node 0: Error on Node 1: none today/);
    expectTold(told, /none today/);
    await expectClean(agents);
  });

  it('keeps nobody for longer than a pass may take who has run it in a context whose passes do not come there', async () => {
    const began = performance.now();
    const [none, told] = await train(async (rank, id, part) => {
      const out = await part.rpcSync().forward(1);
      const elsewhere = new Slope().forward(1);
      await backward(id, [rank === 0 ? elsewhere : out], { timeoutMs: 600 });
    });
    expect(none).toBeUndefined();
    expect(String(told)).toMatch(
      /RPC ran for more than set timeout \(600 ms\) and will now be marked with an error: the backward pass waits for worker 'w3'/,
    );
    expect(rpcInfo(told)?.code).toBe('deadline-exceeded');
    expect(performance.now() - began).toBeLessThan(5_000);
    await expectClean(agents);
  });

  it('goes on after passes of both that failed nowhere', async () => {
    const found = await train(async (_rank, id, part) => {
      for (let i = 0; i < 3; i++) await backward(id, [await part.rpcSync().forward(1)], TIMED);
    });
    expect(found).toEqual([undefined, undefined]);
    await expectClean(agents);
  });
});
