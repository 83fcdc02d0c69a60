/** @file Traffic of every kind between one worker here and two of torch, for long: what it keeps in memory stays the same. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { backward, context, getGradients } from '@backwire/dist-autograd';
import { rpcClass, rpcFunction, rpcSync } from '@backwire/rpc';
import { remote } from '@backwire/rref';
import { add, ones, rpcName, scope, tensor, type Tensor } from '@backwire/tensor';
import { freePort } from '@backwire/testing';
import { createTorchAgent, py, type TorchAgent } from '../../src/index.ts';
import { Python } from '../../test/python.ts';
import type { Report } from '../report.ts';
import { checkFlat, look, type Look } from './memory.ts';

const FUNCTIONS = ['same', 'fails', 'squared', 'Counter'];
/** Looks at memory in one run. */
const LOOKS = 30;
/** Starting torch takes long on a machine that does much else. */
const JOIN_MS = 300_000;
/** A call is late after so long: the machine may stand still for others meanwhile. */
const CALL_MS = 300_000;
/** What was let go of last is told by then. */
const SETTLE_MS = 30_000;

rpcFunction('soak.same', (value: unknown) => value);
rpcFunction('soak.squared', (x: Tensor) => x.mul(x));
rpcFunction('soak.fails', (text: string): never => {
  throw new RangeError(text);
});
class Counter {
  static readonly [rpcName] = 'soak.Counter';
  count: number;
  constructor(start: number) {
    this.count = start;
  }
  add(n: number): number {
    return (this.count += n);
  }
}
rpcClass(Counter, { methods: ['add'] });

const program = readFileSync(new URL('traffic.py', import.meta.url), 'utf8');

export async function soak(minutes: number, report: Report): Promise<void> {
  if (!(minutes > 0)) throw new RangeError(`--minutes is a positive number, got ${minutes}`);
  const init = `tcp://127.0.0.1:${await freePort()}`;
  const stubs = FUNCTIONS.map((name) => `soak.${name}`);
  const started = ['py0', 'node', 'py1'].flatMap((name, rank) =>
    name === 'node' ? [] : [Python.start({ name, rank, size: 3, init, stubs, timeout: CALL_MS / 1_000 })],
  );
  const pythons = started.map(({ python }) => python) as [Python, Python];
  try {
    const place = {
      name: 'node',
      rank: 1,
      worldSize: 3,
      initMethod: init,
      initTimeoutMs: JOIN_MS,
      rpcTimeoutMs: CALL_MS,
    };
    const joins = createTorchAgent({ ...place, trustNetwork: true });
    await using node = (await Promise.all([joins, ...started.map(({ ready }) => ready)]))[0];
    await report.run(`${minutes} minutes of traffic`, () => traffic(node, pythons, minutes * 60_000));
    await report.run('all tables are empty', () => empty(node, pythons));
    await report.run('the group ends', async () => {
      const ends = pythons.map((python) => python.end());
      await node.shutdown({ timeoutMs: 30_000, onLeak: 'throw' });
      assert.deepEqual(await Promise.all(ends), [0, 0]);
    });
  } finally {
    await Promise.all(pythons.map((python) => python.kill()));
  }
}

async function traffic(node: TorchAgent, pythons: readonly [Python, Python], lastsMs: number): Promise<void> {
  const [py0, py1] = pythons;
  await py0.run(`${program}\ntraffic = Traffic({'node': soak, 'py1': model})`);
  await py1.run(`${program}\ntraffic = Traffic({'node': soak, 'py0': model})`);
  const own = new OwnTraffic(node);
  const looks: Look[][] = [[], [], []];
  for (let i = 0; i < LOOKS; i++) {
    await delay(lastsMs / LOOKS);
    // Where there is no traffic, memory stays the same.
    if (own.failure !== undefined) throw own.failure.error;
    for (const python of pythons) assert.equal(await python.run('traffic.failure'), 'None');
    const resident = await Promise.all(pythons.map((each) => each.run('resident()').then(Number)));
    const there = resident.map((bytes): Look => ({ held: bytes, pooled: 0, resident: bytes }));
    for (const [k, now] of [await look(), ...there].entries()) looks[k]?.push(now);
  }
  await own.stop();
  for (const python of pythons) assert.equal(await python.run('traffic.stop()'), 'None');
  const [p99, ...there] = [own.p99(), ...(await Promise.all(pythons.map((each) => each.run('traffic.p99()'))))];
  const rounds = await Promise.all(pythons.map((each) => each.run('traffic.rounds')));
  console.log(
    `        rounds: node ${own.rounds}, py0 and py1 ${rounds.join(', ')}; p99 ${[p99, ...there].join(', ')} µs`,
  );
  for (const [k, name] of ['node', 'py0', 'py1'].entries()) checkFlat(name, looks[k] ?? []);
}

/** No call, RRef or context is left, here or there. */
async function empty(node: TorchAgent, pythons: readonly Python[]): Promise<void> {
  const counted = /active_calls|num_/;
  const theirs = `(__import__('gc').collect(), sum(int(n) for n in rpc._rref_context_get_debug_info().values()))[1]`;
  for (const end = performance.now() + SETTLE_MS; ; await delay(100)) {
    const left = Object.entries(node.debugInfo()).filter(([name, value]) => counted.test(name) && value !== 0);
    const there = await Promise.all(pythons.map((python) => python.run(theirs)));
    if (left.length === 0 && there.every((count) => count === '0')) return;
    if (performance.now() > end) assert.fail(`left here: ${JSON.stringify(left)}; there: ${there.join(', ')}`);
  }
}

/** What this worker asks of both others, again and again. */
class OwnTraffic {
  rounds = 0;
  failure: { readonly error: unknown } | undefined;
  private readonly node: TorchAgent;
  private readonly spent: number[] = [];
  private readonly done: Promise<void>;
  private stopped = false;

  constructor(node: TorchAgent) {
    this.node = node;
    this.done = this.run();
    this.done.catch((error: unknown) => (this.failure = { error }));
  }

  stop(): Promise<void> {
    this.stopped = true;
    return this.done;
  }

  p99(): number {
    return Math.round([...this.spent].sort((a, b) => a - b)[Math.floor(this.spent.length * 0.99)] ?? NaN);
  }

  private async run(): Promise<void> {
    while (!this.stopped) {
      for (const to of ['py0', 'py1']) await scope(() => this.node.run(() => this.round(to)));
      this.rounds++;
      await delay(2);
    }
  }

  private async round(to: string): Promise<void> {
    const same = py<(value: unknown) => unknown>('model.same');
    const small = ones([4]);
    const start = performance.now();
    assert.deepEqual(((await rpcSync(to, same, [small])) as Tensor).toArray(), [1, 1, 1, 1]);
    if (this.spent.push(1_000 * (performance.now() - start)) > 10_000) this.spent.shift();
    const large = ones([64 * 1024]);
    assert.equal(((await rpcSync(to, same, [large])) as Tensor).sum().item(), 64 * 1024);
    assert.deepEqual(
      await rpcSync(to, same, [new Map([['a', [1, 2.5, 'three']]])]),
      new Map([['a', [1, 2.5, 'three']]]),
    );
    const sum = remote(to, add, [small, 1]);
    assert.equal((await sum.toHere()).sum().item(), 8);
    sum.dispose();
    const counter = remote(to, py<Counter>('model.Counter'), [3]);
    assert.equal(await counter.rpcSync().add(4), 7);
    counter.dispose();
    await assert.rejects(rpcSync(to, py('model.fails'), ['on purpose']), /on purpose/);
    await context(async (id) => {
      const x = tensor([1, 1], { requiresGrad: true });
      const y = await rpcSync(to, py<(x: Tensor) => Tensor>('model.squared'), [x]);
      await backward(id, [y.sum()]);
      assert.deepEqual(getGradients(id).get(x)?.toArray(), [2, 2]);
    });
  }
}
