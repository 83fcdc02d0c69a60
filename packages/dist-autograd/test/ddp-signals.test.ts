/** @file What a communication hook gives as signal of a call of its own: it holds while nothing else does, and is left as it was. */
import { getEventListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { barrier } from '@backwire/rpc';
import { context } from '../src/index.ts';
import { expectClean, useAgents } from './agents.ts';
import { passOver, replicasAt, type Replica } from './replica-models.ts';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;
const { agents, at } = useAgents('ddp-signals', 2);

/** Replicas whose hook meets the other's by a call with the signal that `signalOf` gives, or never does. */
function replicas(signalOf: (rank: number) => AbortSignal | undefined): Map<number, Replica> {
  const made = replicasAt(agents, [0, 1]);
  for (const [rank, replica] of made)
    replica.registerCommHook(null, (_, bucket) => {
      const signal = signalOf(rank);
      if (signal === undefined) return new Promise(() => undefined);
      return barrier({ workers: ['w0', 'w1'], signal }).then(() => bucket.buffer());
    });
  return made;
}

const pass = (rank: number, all: Map<number, Replica>): Promise<unknown> =>
  at(rank, () => context((id) => passOver(id, [[all.get(rank)!, rank + 1]], { timeoutMs: 8_000 }))).catch(String);

it('a time limit that only the call has ends it although the collector runs meanwhile', async () => {
  const all = replicas((rank) => (rank === 0 ? AbortSignal.timeout(500) : undefined));
  const began = performance.now();
  const both = Promise.all([pass(0, all), pass(1, all)]);
  for (let i = 0; i < 8; i++) {
    await sleep(40);
    gc();
  }
  const [first, second] = await both;
  expect(performance.now() - began).toBeLessThan(4_000);
  expect(first).toMatch(/cancelled: the time of its signal, an AbortSignal\.timeout\(\), was up/);
  expect(second).toMatch(/makes no further pass with replica/);
  await expectClean(agents);
});

it('one that lasts for many passes has no listener more after them', async () => {
  const { signal } = new AbortController();
  const all = replicas(() => signal);
  for (let i = 0; i < 5; i++) expect(await Promise.all([pass(0, all), pass(1, all)])).toEqual([[1], [2]]);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
  await expectClean(agents);
});
