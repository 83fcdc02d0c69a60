/** @file `DistAutogradTest`: passes that fail, and ranks that leave without waiting for the others. */
import assert from 'node:assert/strict';
import { backward, context } from '@backwire/dist-autograd';
import { rpcSync } from '@backwire/rpc';
import { add, type Tensor } from '@backwire/tensor';
import { state } from '../state.ts';
import { workerName, type Rank } from '../rank.ts';
import { equal, fails, inAutograd, joining, type Bodies } from './body.ts';
import { done, grown, mine, Ring } from './ring.ts';
import { untilDown } from './rpc-groups.ts';

const LEAVE_MS = 20_000;

async function withErrors(rank: Rank): Promise<void> {
  await rank.openPg();
  const [t1, t2] = [grown(), grown()];
  await context(async (id) => {
    const ring = new Ring(rank);
    const loss = (await ring.call('sync', add, [t1, t2], mine('_python_udf_with_backward_error'))).sum();
    for (let i = 0; i < 100; i++) {
      if (i < 50) await fails(backward(id, [loss], { retainGraph: true }), /Simulate error on backward pass/);
      else if (i > 50) await backward(id, [loss], { retainGraph: true });
      else {
        await rank.meet();
        state().failsInBackward = false;
        await rank.meet();
      }
    }
    await rank.meet();
    state().failsInBackward = true;
  });
}

/** Joins, and leaves without waiting for the others. */
const abruptly =
  (timeoutMs: number, work: (rank: Rank) => Promise<unknown>) =>
  async (rank: Rank): Promise<void> => {
    const agent = await rank.init({ rpcTimeoutMs: timeoutMs });
    await agent.run(() => work(rank));
    await agent.shutdown({ graceful: false, timeoutMs: LEAVE_MS });
  };

async function nodeFailure(rank: Rank): Promise<void> {
  await rank.openPg();
  await context(async (id) => {
    const sum = await rpcSync(rank.next(), add, [grown(), grown()]);
    await rank.meet();
    if (rank.rank % 2 === 1) return;
    for (let other = 1; other < rank.size; other += 2) await untilDown(workerName(other));
    await assert.rejects(backward(id, [sum.sum()]));
  });
}

/** The key under which rank 0 says that its pass has failed. */
const FAILED = 'test_backward_node_failure_python_udf_rank0_done';

async function nestedFailure(rank: Rank): Promise<void> {
  await rank.openPg();
  await context(async (id) => {
    const next = (rank.rank + 1) % rank.size;
    const nested = inAutograd<(...args: unknown[]) => Tensor>('my_py_nested_call');
    const sum = await rpcSync(workerName(next), nested, [grown(), grown(), next, rank.size, 1]);
    await rank.meet();
    if (rank.rank === 2) return;
    if (rank.rank !== 0) return rank.hear(FAILED, 10_000);
    await untilDown(workerName(2));
    await assert.rejects(backward(id, [sum.sum()]));
    await rank.tell(FAILED);
  });
}

async function cleanedMeanwhile(rank: Rank): Promise<void> {
  await rank.openPg();
  await context(async (id) => {
    for (let other = 0; other < rank.size; other++)
      if (other !== rank.rank)
        await rpcSync(workerName(other), done, [id, (other - rank.rank + rank.size) % rank.size]);
    await rank.meet();
    equal(state().known.size, rank.size - 1);
    let grownOn = grown();
    for (let i = 0; i < 100; i++) grownOn = await rpcSync(rank.next(), add, [grownOn, grownOn]);
    equal(rank.agent.autograd.find(id).sends.size, 100);
    await fails(backward(100n, [grownOn.sum()]), /Could not find autograd context with id: 100/);
    await rank.meet();
  });
}

export const autogradFailures: Bodies = joining({
  test_backward_node_failure: abruptly(5_000, nodeFailure),
  test_backward_node_failure_python_udf: abruptly(5_000, nestedFailure),
  test_clean_context_during_backward: abruptly(60_000, cleanedMeanwhile),
  test_multiple_backward_with_errors: abruptly(60_000, withErrors),
});
