/** @file Workers here come, go and die while workers of torch call them: every call ends, no joining blocks, and nothing is left. */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { rpcFunction, rpcInfo, rpcSync } from '@backwire/rpc';
import { freePort } from '@backwire/testing';
import type { Agent } from '../../src/agent.ts';
import { py } from '../../src/index.ts';
import { member } from '../../test/member.ts';
import { Python } from '../../test/python.ts';
import type { Report } from '../report.ts';
import { explain, fates, type Call, type Fates, type Life } from './lives.ts';

const JOINS = 200;
/** Workers that join and leave at the same time. */
const LANES = 4;
const KILLS = 20;
/** Threads that call, in each worker of torch. */
const CALLERS = 2;
const CALL_S = 5;
/** How long a joining, a leaving or an eviction may take: the token goes from one to the other meanwhile. */
const CHANGE_MS = 30_000;
/** What a call may take beyond its time limit on a busy machine. */
const SLACK_S = 3;
/** The clock here has whole milliseconds, that of Python parts of them. */
const TICK_MS = 1;

rpcFunction('churn.same', (value: unknown) => value);
const same = py<(value: number) => number>('model.same');
const program = readFileSync(new URL('callers.py', import.meta.url), 'utf8');

const FILE = new URL('results.json', import.meta.url);
/** Calls without an excuse that are told. */
const TOLD = 10;

/** What a run came to, in its file. */
interface Results {
  joins: number;
  slowestJoiningMs: number;
  kills: number;
  killedWhileJoining: number;
  /** Of the calls of each worker of torch. */
  calls: Record<string, Record<string, number>>;
}

/** Runs the suite; with `record`, its numbers are written to the file beside this. */
export async function churn(record: boolean, report: Report): Promise<void> {
  const init = `tcp://127.0.0.1:${await freePort()}`;
  const started = [0, 1].map((rank) => Python.start({ name: `py${rank}`, rank, init, stubs: ['churn.same'] }));
  const pythons = started.map(({ python }) => python);
  try {
    await Promise.all(started.map(({ ready }) => ready));
    await using anchor = await join('anchor', init);
    const lives: Life[] = [{ name: 'anchor', born: 0, here: 0, going: Infinity, gone: Infinity, how: 'left' }];
    for (const python of pythons) await python.run(`${program}\ncallers = Callers(${CALLERS}, ${CALL_S})`);
    const [longest, killed] = await Promise.all([comeAndGo(init, lives), die(anchor, init, lives)]);
    report.check(`${JOINS} workers joined and left, the slowest joining in ${longest.toFixed(0)} ms`, undefined);
    report.check(`${KILLS} workers were killed, ${killed} of them while they joined, and evicted`, undefined);
    const results: Results = {
      joins: JOINS,
      slowestJoiningMs: Math.round(longest),
      kills: KILLS,
      killedWhileJoining: killed,
      calls: {},
    };
    for (const [i, python] of pythons.entries())
      await report.run(
        `calls of py${i}: each ended in time, and failed only while its callee came or went`,
        async () => {
          const calls = await callsOf(python);
          const found = fates(calls, lives);
          const slowest = slowestOf(calls);
          results.calls[`py${i}`] = counted(found, slowest);
          console.log(`        ${JSON.stringify(results.calls[`py${i}`])}`);
          check(found, slowest, lives);
        },
      );
    if (record) writeFileSync(FILE, `${JSON.stringify(results, null, 2)}\n`);
    await report.run('the workers of torch take new connections', async () => {
      await using late = await join('late', init);
      for (const to of ['py0', 'py1']) assert.equal(await late.run(() => rpcSync(to, same, [7])), 7);
      await late.shutdown({ timeoutMs: CHANGE_MS });
    });
    await report.run('all tables are empty', () => empty(anchor, pythons));
    await report.run('the group ends', async () => {
      await anchor.shutdown({ timeoutMs: CHANGE_MS });
      assert.deepEqual(await Promise.all(pythons.map((python) => python.end())), [0, 0]);
    });
  } finally {
    await Promise.all(pythons.map((python) => python.kill()));
  }
}

function join(name: string, initMethod: string): Promise<Agent> {
  const options = { name, membership: 'dynamic', initMethod, trustNetwork: true, initTimeoutMs: CHANGE_MS } as const;
  // What it warns of is what is done here: connections to the dead.
  const quiet = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: console.error };
  return member({ ...options, logger: quiet });
}

/** Workers of this process join, call, and leave; the longest joining, in milliseconds. */
async function comeAndGo(init: string, lives: Life[]): Promise<number> {
  let longest = 0;
  const lane = async (number: number): Promise<void> => {
    for (let i = 0; i < JOINS / LANES; i++) {
      const name = `w${number}`;
      const [born, start] = [Date.now(), performance.now()];
      await using agent = await join(name, init);
      const here = Date.now() + TICK_MS;
      longest = Math.max(longest, performance.now() - start);
      for (const to of ['py0', 'py1']) assert.equal(await agent.run(() => rpcSync(to, same, [i])), i);
      const going = Date.now();
      await agent.shutdown({ timeoutMs: CHANGE_MS });
      lives.push({ name, born, here, going, gone: Date.now() + TICK_MS, how: 'left' });
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, number) => lane(number)));
  return longest;
}

/** Processes that join and are killed, every second one before it has joined; how many those were. */
async function die(anchor: Agent, init: string, lives: Life[]): Promise<number> {
  let early = 0;
  for (let i = 0; i < KILLS; i++) {
    const name = `k${i}`;
    const born = Date.now();
    const child = fork(new URL('worker.ts', import.meta.url), [name, init]);
    const exit = once(child, 'exit');
    let here = Infinity;
    child.on('message', (word) => {
      if (word === 'joined') here = Date.now() + TICK_MS;
    });
    await once(child, 'message');
    if (i % 2 === 0) await Promise.race([once(child, 'message'), exit]);
    else await delay(20 * i);
    const going = Date.now();
    const joined = here !== Infinity;
    if (!joined) early++;
    child.kill('SIGKILL');
    await exit;
    try {
      await anchor.evict(name, { timeoutMs: CHANGE_MS });
    } catch (error) {
      // It was killed before it was anything to the others.
      if (joined || rpcInfo(error)?.code !== 'not-found') throw error;
    }
    lives.push({ name, born, here, going, gone: Date.now() + TICK_MS, how: 'killed' });
  }
  return early;
}

/** What the threads of a worker of torch noted, once all of them have ended. */
async function callsOf(python: Python): Promise<Call[]> {
  assert.equal(await python.run('callers.stop()'), 'True', 'a call has not ended');
  const text = JSON.parse(await python.run('json.dumps(callers.calls)')) as string;
  const rows = JSON.parse(text) as [callee: string, start: number, end: number, error: string | null][];
  return rows.map(([callee, start, end, error]) => ({ callee, start, end, error }));
}

function slowestOf(calls: readonly Call[]): number {
  return calls.reduce((most, { start, end }) => Math.max(most, end - start), 0);
}

function counted({ unexplained, ...counts }: Fates, slowest: number): Record<string, number> {
  return { ...counts, unexplained: unexplained.length, slowestMs: Math.round(slowest) };
}

function check({ answered, unexplained }: Fates, slowest: number, lives: readonly Life[]): void {
  for (const call of unexplained.slice(0, TOLD)) console.log(`        ${explain(call, lives)}`);
  assert.equal(unexplained.length, 0, `${unexplained.length} calls failed while their callee was there`);
  assert.ok(slowest <= 1_000 * (CALL_S + SLACK_S), `a call took ${slowest} ms`);
  assert.ok(answered > JOINS, `only ${answered} calls were answered`);
}

/** Nobody is in the group but those who began it, and nothing is open. */
async function empty(anchor: Agent, pythons: readonly Python[]): Promise<void> {
  assert.deepEqual(anchor.members.names(), ['anchor', 'py0', 'py1']);
  for (const [name, value] of Object.entries(anchor.debugInfo()))
    if (/active_calls|num_(pending|forks|owner|autograd)/.test(name)) assert.equal(value, 0, name);
  for (const python of pythons) {
    const agent = 'rpc.api._get_current_rpc_agent()';
    assert.equal(await python.run(`len(${agent}.get_worker_infos())`), '3');
    assert.equal(await python.run(`int(${agent}.get_debug_info()['agent.client_active_calls'])`), '0');
    assert.equal(await python.run(`sum(int(v) for v in rpc._rref_context_get_debug_info().values())`), '0');
  }
}
