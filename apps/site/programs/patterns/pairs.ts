/** @file The patterns of docs/patterns.md that are measured: each as it should not be done, and as it should. */
import {
  memory,
  newIdempotencyKey,
  nn,
  noGrad,
  ones,
  remote,
  rpcAsync,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  rpcStream,
  rpcSync,
  scope,
  stack,
  type RRef,
  type Tensor,
} from 'backwire';

/** One pattern. Both ways give what they cost in `unit`. */
export interface Pattern {
  readonly name: string;
  readonly unit: 'ms' | 'tries' | 'MiB' | 'lost updates';
  readonly one: () => Promise<number>;
  readonly other: () => Promise<number>;
}

const MIB = 2 ** 20;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

const next = rpcFunction('patterns/next', (n: number) => n + 1);
const sums = rpcFunction('patterns/sums', (x: Tensor) => x.sum(-1));
const grow = rpcFunction('patterns/grow', (x: Tensor) => x.add(1));
const growHeld = rpcFunction('patterns/growHeld', async (x: RRef<Tensor>) => (await x.localValue()).add(1));
const look = rpcFunction('patterns/look', (table: Tensor, row: number) => table.select(0, row));
const lookHeld = rpcFunction('patterns/lookHeld', async (table: RRef<Tensor>, row: number) =>
  (await table.localValue()).select(0, row),
);
const totalOfList = rpcFunction('patterns/totalOfList', (list: number[]) => list.reduce((a, b) => a + b, 0));
const totalOfTensor = rpcFunction('patterns/totalOfTensor', (list: Tensor) => list.sum().item());

/** A job that has something new every five milliseconds. */
const job = { done: 0 };
const start = rpcFunction('patterns/start', () => {
  job.done = 0;
  const timer = setInterval(() => ++job.done === 20 && clearInterval(timer), 5);
});
const progress = rpcFunction('patterns/progress', () => job.done);
const watch = rpcFunction('patterns/watch', async function* () {
  for (let i = 1; i <= 20; i++) {
    await sleep(5);
    yield i;
  }
});

function compute(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end;);
}
const blocking = rpcFunction('patterns/blocking', () => compute(100));
const yielding = rpcFunction('patterns/yielding', async () => {
  for (let i = 0; i < 50; i++) {
    compute(2);
    await new Promise((resolve) => setImmediate(resolve));
  }
});
/** How long a small call takes that is made just after `work` has begun. */
async function beside(work: typeof blocking | typeof yielding): Promise<number> {
  const long = rpcSync('worker1', work);
  await sleep(5);
  const cost = await timed(() => rpcSync('worker1', next, [1]));
  await long;
  return cost;
}

const large = ones([16 * MIB]);
const first = rpcFunction('patterns/first', (x: Tensor) => x.shape[0]);
async function behindLarge(ordered: boolean): Promise<number> {
  const long = rpcSync('worker1', first, [large]);
  const cost = await timed(() => rpcSync('worker1', next, [1], { ordered }));
  await long;
  return cost;
}

/** A worker that is not ready for 300 ms, and how often it is asked meanwhile. */
const outage = { until: 0, tries: 0 };
const failFor = rpcFunction('patterns/failFor', (ms: number) => {
  outage.until = performance.now() + ms;
  outage.tries = 0;
});
const tried = rpcFunction('patterns/tried', () => outage.tries);
const ready = rpcFunction('patterns/ready', () => {
  outage.tries++;
  if (performance.now() < outage.until) throw new Error('not yet');
});
async function triesOf(waitMs: (attempt: number) => number): Promise<number> {
  await rpcSync('worker1', failFor, [300]);
  await Promise.all(
    times(8, async () => {
      for (let attempt = 0; ; attempt++) {
        try {
          await rpcSync('worker1', ready);
          return;
        } catch (error) {
          if (rpcInfo(error)?.code !== 'remote-error') throw error;
          await sleep(waitMs(attempt));
        }
      }
    }),
  );
  return rpcSync('worker1', tried);
}

const shared = { value: 0, turn: Promise.resolve() };
const reset = rpcFunction('patterns/reset', () => void (shared.value = 0));
const value = rpcFunction('patterns/value', () => shared.value);
const careless = rpcFunction('patterns/careless', async () => {
  const read = shared.value;
  await sleep(1); // another call comes in here
  shared.value = read + 1;
});
const careful = rpcFunction('patterns/careful', () => {
  shared.turn = shared.turn.then(async () => {
    const read = shared.value;
    await sleep(0);
    shared.value = read + 1;
  });
  return shared.turn;
});
async function lost(update: typeof careless): Promise<number> {
  await rpcSync('worker1', reset);
  await Promise.all(times(50, () => rpcSync('worker1', update)));
  return 50 - (await rpcSync('worker1', value));
}

const model = new nn.Sequential(new nn.Linear(512, 512), new nn.ReLU(), new nn.Linear(512, 512));
const forward = rpcFunction('patterns/forward', (x: Tensor) => noGrad(() => model.forward(x)));
const waiting: { x: Tensor; answer: (y: Tensor) => void }[] = [];
const together = rpcFunction('patterns/together', (x: Tensor) => {
  if (waiting.length === 0) setImmediate(answerAll);
  return new Promise<Tensor>((answer) => waiting.push({ x, answer }));
});
function answerAll(): void {
  const all = waiting.splice(0);
  const y = noGrad(() => model.forward(stack(all.map(({ x }) => x))));
  for (const [i, { answer }] of all.entries()) answer(y.select(0, i));
}

const note = rpcFunction('patterns/note', () => {});

/** What 100 results of 1 MiB hold at the end of a function that never yields. */
function held(step: (work: () => void) => void): Promise<number> {
  const x = ones([MIB / 4]);
  const before = memory().bytes;
  for (let i = 0; i < 100; i++) step(() => void x.add(i));
  const bytes = memory().bytes - before;
  x.dispose();
  return Promise.resolve(bytes / MIB);
}

export const patterns: readonly Pattern[] = [
  {
    name: 'awaiting in a loop',
    unit: 'ms',
    one: () =>
      timed(async () => {
        for (let i = 0; i < 500; i++) await rpcSync('worker1', next, [i]);
      }),
    other: () => timed(() => Promise.all(times(500, (i) => rpcSync('worker1', next, [i])))),
  },
  {
    name: 'many small calls',
    unit: 'ms',
    one: () => timed(() => Promise.all(times(256, () => rpcAsync('worker1', sums, [ones([64])])))),
    other: () => timed(() => rpcSync('worker1', sums, [stack(times(256, () => ones([64])))])),
  },
  {
    name: 'results that go back and forth',
    unit: 'ms',
    one: () =>
      timed(async () => {
        let x: Tensor = ones([MIB / 4]);
        for (let i = 0; i < 10; i++) x = await rpcSync('worker1', grow, [x]);
      }),
    other: () =>
      timed(async () => {
        let x = remote('worker1', grow, [ones([MIB / 4])]);
        for (let i = 1; i < 10; i++) x = remote('worker1', growHeld, [x]);
        await x.toHere();
      }),
  },
  {
    name: 'a large argument again and again',
    unit: 'ms',
    one: async () => {
      const table = ones([1024, 1024]);
      return timed(() => Promise.all(times(16, (row) => rpcSync('worker1', look, [table, row]))));
    },
    other: async () => {
      const table = ones([1024, 1024]);
      return timed(async () => {
        using there = remote('worker1', grow, [table]);
        await Promise.all(times(16, (row) => rpcSync('worker1', lookHeld, [there, row])));
      });
    },
  },
  {
    name: 'numbers in a list',
    unit: 'ms',
    one: async () => {
      const list = times(100_000, (i) => i / 3);
      return timed(() => rpcSync('worker1', totalOfList, [list]));
    },
    other: async () => {
      const list = ones([100_000]);
      return timed(() => rpcSync('worker1', totalOfTensor, [list]));
    },
  },
  {
    name: 'polling',
    unit: 'ms',
    // How long after the last of 20 steps, 5 ms apart, the caller knows of it, with what the steps themselves take.
    one: () =>
      timed(async () => {
        await rpcSync('worker1', start);
        while ((await rpcSync('worker1', progress)) < 20) await sleep(100);
      }),
    other: () =>
      timed(async () => {
        for await (const i of rpcStream('worker1', watch)) if (i === 20) break;
      }),
  },
  { name: 'blocking the event loop', unit: 'ms', one: () => beside(blocking), other: () => beside(yielding) },
  { name: 'a small call behind 64 MiB', unit: 'ms', one: () => behindLarge(true), other: () => behindLarge(false) },
  {
    name: 'retries without back-off',
    unit: 'tries',
    one: () => triesOf(() => 0),
    other: () => triesOf((attempt) => Math.min(20 * 2 ** attempt, 1_000) * (0.5 + Math.random() / 2)),
  },
  { name: 'reading, awaiting, writing', unit: 'lost updates', one: () => lost(careless), other: () => lost(careful) },
  {
    name: 'a key of idempotency for every call',
    unit: 'ms',
    one: () =>
      timed(() =>
        Promise.all(times(500, (i) => rpcSync('worker1', next, [i], { idempotencyKey: newIdempotencyKey() }))),
      ),
    other: () => timed(() => Promise.all(times(500, (i) => rpcSync('worker1', next, [i])))),
  },
  {
    name: 'answers that nobody reads',
    unit: 'ms',
    one: () => timed(() => Promise.all(times(500, () => rpcSync('worker1', note)))),
    other: () =>
      timed(async () => {
        for (let i = 0; i < 499; i++) rpcOneway('worker1', note);
        await rpcSync('worker1', note);
      }),
  },
  {
    name: 'a forward pass for every caller',
    unit: 'ms',
    one: () => timed(() => Promise.all(times(64, () => rpcSync('worker1', forward, [ones([512])])))),
    other: () => timed(() => Promise.all(times(64, () => rpcSync('worker1', together, [ones([512])])))),
  },
  {
    name: 'a signal for every call',
    unit: 'ms',
    one: () =>
      timed(() =>
        Promise.all(times(500, (i) => rpcSync('worker1', next, [i], { signal: new AbortController().signal }))),
      ),
    other: () =>
      timed(() => {
        const { signal } = new AbortController();
        return Promise.all(times(500, (i) => rpcSync('worker1', next, [i], { signal })));
      }),
  },
  {
    name: 'results that wait for the collector',
    unit: 'MiB',
    one: () => held((work) => work()),
    other: () => held((work) => scope(work)),
  },
];
