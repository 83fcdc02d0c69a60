/** @file Every public function of the distributed packages with one bad argument among valid ones: a result, or an error of ours that says so. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Random } from '@backwire/testing';
import { createAgent, rpcInfo, rpcSync, add, ones, TensorError, type RpcAgent } from '../src/index.ts';
import { SUBJECTS, type Subject } from './bad-arguments/calls.ts';
import { TRAINING } from './bad-arguments/training.ts';
import { BAD, OF_THE_ENGINE, OWN } from './bad-arguments/values.ts';

let agents: RpcAgent[] = [];
beforeAll(async () => {
  agents = await Promise.all(
    [0, 1].map((rank) =>
      createAgent({ name: `w${rank}`, rank, worldSize: 2, store: 'memory://bad-arguments', rpcTimeoutMs: 5_000 }),
    ),
  );
});
afterAll(() => Promise.all(agents.map((agent) => agent.shutdown({ graceful: false }))));

/** What ends later is said to hang: the longest time given is two seconds. */
const LONGEST_MS = 6_000;

function inTime<T>(promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('nothing came of it')), LONGEST_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** What is wrong with how a call ended; undefined where nothing is. */
async function wrongWith(run: Subject['run'], args: readonly unknown[]): Promise<string | undefined> {
  try {
    await inTime((async () => run(...args))());
  } catch (error) {
    if (error === OWN || (error as Error | undefined)?.message === OWN.message) return undefined;
    const ours =
      error instanceof TypeError ||
      error instanceof RangeError ||
      error instanceof TensorError ||
      rpcInfo(error) !== undefined;
    if (!ours) return `threw ${String(error)}`;
    if (OF_THE_ENGINE.test((error as Error).message)) return `threw what the engine says: ${(error as Error).message}`;
  }
  return undefined;
}

/** The valid arguments with one of them, or one of its options, replaced. */
function replaced(args: unknown[], i: number, option: string | undefined, bad: unknown): unknown[] {
  const value = option === undefined ? bad : { ...(args[i] as object), [option]: bad };
  return args.map((one, k) => (k === i ? value : one));
}

function optionsIn(value: unknown): string[] {
  const plain = typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
  return plain ? Object.keys(value) : [];
}

/** All workers are meant where none are named: nobody else comes. */
function waitsForOthers({ name, args }: Subject, i: number, option: string | undefined, bad: unknown): boolean {
  if (name !== 'allGather' && name !== 'barrier') return false;
  const isOptions = i === args().length - 1;
  return isOptions && (option === undefined || (option === 'workers' && (bad === undefined || bad === null)));
}

const random = new Random(20_261_128);
/** How many of the bad values are tried in each place. */
const DRAWS = 14;

describe('a bad argument', () => {
  it.each([...SUBJECTS, ...TRAINING])('of $name is refused by name, or taken as its types allow', async (subject) => {
    const { run, args } = subject;
    const [here] = agents as [RpcAgent];
    const wrong: string[] = [];
    await here.run(async () => {
      await run(...args());
      for (const [i, valid] of args().entries())
        for (const option of [undefined, ...optionsIn(valid)])
          for (const [shown, make] of random.shuffle([...BAD]).slice(0, DRAWS)) {
            const bad = make();
            if (waitsForOthers(subject, i, option, bad)) continue;
            const found = await wrongWith(run, replaced(args(), i, option, bad));
            if (found !== undefined) wrong.push(`${shown} as ${option ?? `argument ${i + 1}`}: ${found}`);
          }
      // Both still serve.
      expect((await rpcSync('w1', add, [ones([1]), 1])).item()).toBe(2);
    });
    expect(wrong).toEqual([]);
  });
});
