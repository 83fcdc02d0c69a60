/**
 * @file `npm run soak [-- --minutes 10] [--faults]`: mixed calls at full speed between two workers, with a sample of memory and handles now and then.
 * Fails when either worker grows.
 */
import { parseArgs } from 'node:util';
import { freePort, start, type Asked } from './processes.ts';
import { placesOf, soakWithFaults } from './soak-faults.ts';

/** What a worker has at one moment. */
interface Sample {
  readonly heapMiB: number;
  readonly externalMiB: number;
  readonly residentMiB: number;
  /** Open sockets, timers and requests. */
  readonly handles: number;
  /** Storages that tensors hold. */
  readonly storages: number;
}

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    faults: { type: 'boolean', default: false },
    store: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
});
const minutes = Number(values.minutes);
if (!(minutes > 0)) throw new RangeError(`--minutes must be positive, got ${values.minutes}`);
if (values.faults) process.exit((await soakWithFaults(minutes, placesOf(values.store), Number(values.seed))) ? 0 : 1);
/** Samples of the whole run. */
const SAMPLES = 20;
/** Of the samples, those that are not compared: pools, compilers and caches fill up. */
const WARM_UP = 5;
/** What a later part of the run may have over an earlier one: a collection that has not happened yet, not a leak that goes on. */
const SLACK = { heapMiB: 8, externalMiB: 48, residentMiB: 96, handles: 2, storages: 32 } satisfies Record<
  keyof Sample,
  number
>;

const env = {
  BACKWIRE_SECRET: 'only this soak knows',
  BENCH_STORE: `tcp://127.0.0.1:${await freePort()}`,
  BENCH_OPTIONS: JSON.stringify({ transports: ['unix'] }),
};
const workers = await Promise.all([1, 0].map((rank) => startWorker(rank)));
const [server, client] = workers as [Asked, Asked];
const samples: Record<'caller' | 'callee', Sample[]> = { caller: [], callee: [] };
let failed = false;
try {
  console.log('minute  who     calls/s  heap  external  resident (MiB)  handles  storages');
  for (let i = 0; i < SAMPLES; i++) {
    const blockMs = (minutes * 60_000) / SAMPLES;
    const { calls, ms } = (await client.ask('soak', blockMs)) as { calls: number; ms: number };
    for (const [who, asked] of [
      ['caller', client],
      ['callee', server],
    ] as const) {
      const sample = (await asked.ask('sample')) as Sample;
      samples[who].push(sample);
      const rate = who === 'caller' ? String(Math.round(calls / (ms / 1_000))) : '';
      const cells = [
        (((i + 1) * minutes) / SAMPLES).toFixed(1).padStart(6),
        who,
        rate.padStart(8),
        sample.heapMiB.toFixed(1).padStart(5),
        sample.externalMiB.toFixed(1).padStart(9),
        sample.residentMiB.toFixed(0).padStart(9),
        String(sample.handles).padStart(15),
        String(sample.storages).padStart(9),
      ];
      console.log(cells.join('  '));
    }
  }
  for (const [who, taken] of Object.entries(samples)) failed = grew(who, taken) || failed;
} finally {
  await client.close();
  await server.close();
}
console.log(failed ? 'FAILED: it grows' : 'flat');
process.exitCode = failed ? 1 : 0;

function startWorker(rank: number): Promise<Asked> {
  return start(new URL('./rpc/soak-worker.ts', import.meta.url), { ...env, BENCH_RANK: String(rank) }, ['--expose-gc']);
}

/** Compares the least of the last third with the least of the first after the warm-up: noise goes up, never down. */
function grew(who: string, taken: readonly Sample[]): boolean {
  const counted = taken.slice(WARM_UP);
  const third = Math.floor(counted.length / 3);
  let grown = false;
  for (const [what, slack] of Object.entries(SLACK) as [keyof Sample, number][]) {
    const least = (part: readonly Sample[]): number => Math.min(...part.map((sample) => sample[what]));
    const [before, after] = [least(counted.slice(0, third)), least(counted.slice(-third))];
    if (after - before <= slack) continue;
    console.log(`${who}: ${what} grew from ${before.toFixed(1)} to ${after.toFixed(1)}`);
    grown = true;
  }
  return grown;
}
