/** @file PyTorch's own tests, one rank of each played here: runs them, and keeps what came of them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { freePort } from '@backwire/testing';
import type { Report } from '../report.ts';
import type { Body } from './bodies/body.ts';
import { bodyOf, hangsInTorch, notPortable } from './bodies/index.ts';
import { Driver, type Outcome } from './driver.ts';
import { Rank } from './rank.ts';
import './functions/index.ts';

const CLASSES = [
  'RpcTest',
  'DistAutogradTest',
  'DistOptimizerTest',
  'RemoteModuleTest',
  'ThreeWorkersRemoteModuleTest',
  'TensorPipeAgentRpcTest',
] as const;

/** What one test may take, in seconds. */
const TEST_S = 25;
/** How often a test is run whose ranks of torch hang at times, whoever else takes part. */
const TRIES = 6;
/** What leaving may take, in milliseconds. */
const LEAVE_MS = 20_000;
/** What this rank has left when the others have ended, in milliseconds. */
const GRACE_MS = 1_500;

export interface UpstreamOptions {
  readonly python: string;
  readonly ranks: readonly number[];
  /** Only tests whose 'Class.test' holds this text. */
  readonly only: string;
  /** Whether the outcomes are written to the file beside this. */
  readonly record: boolean;
}

interface Entry {
  /** What the rank that is played here does and asserts. */
  node: string;
  /** By rank that is played here: 'pass', 'skip', or what failed. */
  ranks: Record<string, string>;
}
type Results = Record<string, Record<string, Entry>>;

const FILE = fileURLToPath(new URL('results.json', import.meta.url));

/** Runs the suite: a line a test and rank. */
export async function upstream(options: UpstreamOptions, report: Report): Promise<void> {
  const driver = Driver.start(options.python);
  const results: Results = {};
  try {
    for (const rank of options.ranks)
      for (const name of CLASSES) {
        const { tests, size } = await driver.list(name);
        if (rank >= size) continue;
        for (const test of tests) {
          if (!`${name}.${test}`.includes(options.only)) continue;
          const entry = ((results[name] ??= {})[test] ??= { node: '', ranks: {} });
          const unfit = notPortable(test);
          if (unfit !== undefined) {
            results[name][test] = { node: `not portable: ${unfit}`, ranks: {} };
            continue;
          }
          const place = { name, test, rank, size };
          const hangs = hangsInTorch(test);
          let found = await one(driver, place);
          for (let tries = 1; hangs !== undefined && found.hung && tries < TRIES; tries++)
            found = await one(driver, place);
          report.check(`${name}.${test}, rank ${rank} here`, found.text, found.details);
          const { does } = bodyOf(name, test);
          entry.node = hangs === undefined ? does : `${does}; run again where torch hangs: ${hangs}`;
          entry.ranks[rank] = found.text ?? found.word;
        }
        if (options.record) record(results);
      }
  } finally {
    driver.end();
  }
}

/** Puts outcomes into the file, beside those of other tests and ranks. */
function record(results: Results): void {
  const known = JSON.parse(readFileSync(FILE, 'utf8')) as Results;
  for (const [name, tests] of Object.entries(results))
    for (const [test, { node, ranks }] of Object.entries(tests)) {
      const before = known[name]?.[test]?.ranks ?? {};
      (known[name] ??= {})[test] = { node, ranks: { ...before, ...ranks } };
    }
  writeFileSync(FILE, `${JSON.stringify(known, null, 2)}\n`);
}

interface Place {
  readonly name: string;
  readonly test: string;
  readonly rank: number;
  readonly size: number;
}

interface Found {
  readonly word: 'pass' | 'skip';
  /** What failed, in a line. */
  readonly text?: string;
  readonly details?: string;
  /** Whether nothing failed but that ranks of torch did not end. */
  readonly hung: boolean;
}

async function one(driver: Driver, { name, test, rank, size }: Place): Promise<Found> {
  const places = { rpc: `tcp://127.0.0.1:${await freePort()}`, group: `tcp://127.0.0.1:${await freePort()}` };
  const body = bodyOf(name, test);
  const apart = body.storeApart === true;
  const asked = { class: name, test, without: rank, rpc: `${places.rpc}/`, group: `${places.group}/`, apart };
  const here = new Rank(rank, size, { ...places, apart });
  const others = driver.run({ ...asked, seconds: TEST_S });
  const own = play(here, body).then(
    () => undefined,
    (error: unknown) => error as Error,
  );
  const outcomes = await others;
  // The others are gone: what still waits for them here waits in vain.
  const failure = await Promise.race([own, after(GRACE_MS)]);
  await Promise.race([here.close().catch(() => undefined), after(GRACE_MS)]);
  return verdict(outcomes, failure);
}

async function play(here: Rank, body: Body): Promise<void> {
  if (body.own === true) {
    await body.run(here);
    return;
  }
  const agent = await here.init();
  await agent.run(() => body.run(here));
  await agent.shutdown({ timeoutMs: LEAVE_MS });
}

function verdict(outcomes: Readonly<Record<string, Outcome>>, failure: Error | undefined): Found {
  // What torch skips here, its ranks do not even join for.
  if (Object.values(outcomes).every(({ result }) => result === 'skip')) return { word: 'skip', hung: false };
  const failed = Object.entries(outcomes).filter(([, { result }]) => result === 'fail');
  // Who failed first did so by itself; the others, because it was gone.
  const [rank, first] = failed.find(([, { text }]) => text !== 'no end in time') ?? failed[0] ?? [];
  const own = failure === undefined ? undefined : `here: ${failure.message}`;
  if (first === undefined && own === undefined) return { word: 'pass', hung: false };
  const lines = first?.text?.trimEnd().split('\n') ?? [];
  const text = [own, first === undefined ? undefined : `rank ${rank}: ${lines.at(-1) ?? ''}`];
  const details = failed.map(([each, { text: why = '', said = '' }]) => `--- rank ${each}\n${why}\n${said}`).join('\n');
  return {
    word: 'pass',
    hung: failed.length > 0 && failed.every(([, { text: why }]) => why === 'no end in time'),
    text: text
      .filter((each) => each !== undefined)
      .join('; ')
      .slice(0, 300),
    details: `${failure?.stack ?? ''}\n${details}`,
  };
}

function after(ms: number): Promise<Error> {
  return new Promise((resolve) => setTimeout(() => resolve(new Error('this rank did not end')), ms));
}
