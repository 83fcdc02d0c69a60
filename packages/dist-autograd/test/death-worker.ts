/** @file One of the processes of a group in which one dies, or two of four: `death-worker.ts <scenario>`. Prints what it sees, a line each. */
import { barrier, initRpc, rpcAsync, RpcError, rpcFunction, rpcInfo, rpcSync } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { add, customFunction, ones, rand, type Tensor } from '@backwire/tensor';
import { backward, context, distAutograd, distAutogradDebugInfo, getGradients } from '../src/index.ts';

const scenario = process.argv[2];
const rank = Number(process.env['RANK']);

const die = (): never => {
  process.kill(process.pid, 'SIGKILL');
  // The signal takes effect before anything else is done.
  for (;;);
};

/** Ends the process that runs it in the middle of a backward pass. */
const deadly = customFunction({ forward: (_ctx, x) => x.clone(), backward: die });
const dies = rpcFunction('death/dies', (x: Tensor) => deadly(x.mul(2)));
const through = rpcFunction('death/through', async (to: string, x: Tensor) => (await rpcAsync(to, dies, [x])).add(x));
const plain = rpcFunction('death/plain', async (x: Tensor) => rpcAsync('w2', add, [x, x]));
const plus = rpcFunction('death/plus', (a: Tensor, b: Tensor) => a.add(b));
/** Calls on to the next of four workers, `hops` times more before the last adds. */
const nested = rpcFunction('death/nested', async (at: number, a: Tensor, b: Tensor, hops: number): Promise<Tensor> => {
  const next = (at + 1) % 4;
  return hops > 0 ? rpcSync(next, nested, [next, a, b, hops - 1]) : rpcSync(next, plus, [a, b]);
});
/** Keeps the process that runs it busy in a backward pass, for long enough that another dies meanwhile. */
const busy = customFunction({
  forward: (_ctx, x) => x.clone(),
  backward: (_ctx, grad) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
    return [grad];
  },
});
/** Ends the process soon after it has sent gradients on. */
const dyingSoon = customFunction({
  forward: (_ctx, x) => x.clone(),
  backward: (_ctx, grad) => {
    setTimeout(die, 300);
    return [grad];
  },
});
const weight = ones([2], { requiresGrad: true });
const weighed = rpcFunction('death/weighed', (x: Tensor) => x.mul(weight));
const busyHere = rpcFunction('death/busy', (x: Tensor) => busy(x));
/** Its gradients go to w2, which is done with them at once, and to the creator, which is not. */
const forked = rpcFunction('death/forked', async (x: Tensor) => {
  const [done, held] = await Promise.all([rpcAsync('w2', weighed, [x]), rpcAsync('w0', busyHere, [x])]);
  return dyingSoon(done.add(held));
});
const gradientsAt = rpcFunction('death/gradients', (id: bigint) => getGradients(id).size);
const counters = rpcFunction('death/counters', () => Object.values(distAutogradDebugInfo()));
const kill = rpcFunction('death/kill', () => void setTimeout(die, 20));

const say = (what: string): void => console.log(what);
/** The code, the peer, and of the words who says it and what happened: the way in between depends on who hears of it first. */
const shown = (error: unknown): string => {
  if (!(error instanceof RpcError)) return `with no RpcError: ${String(error)}`;
  const words = error.message.replace(/^(Error on Node \d+: ).*(worker '\w+' died).*$/, '$1$2');
  return `${error.code} ${error.peer?.name}, ${words},`;
};

/** Before there is a pass: a worker that was called by this one, or the last of a chain of calls. */
const BEFORE = {
  'before-called': (x: Tensor) => rpcSync('w2', add, [x, x]),
  'before-chained': (x: Tensor) => rpcSync('w1', plain, [x]),
};
const isBefore = (name: string | undefined): name is keyof typeof BEFORE => name !== undefined && name in BEFORE;

/** As PyTorch's tests have it, each of four workers calls in a context of its own; then some die, and some of the others make their passes. */
interface OfFour {
  readonly call: (a: Tensor, b: Tensor) => Promise<Tensor>;
  readonly dying: readonly number[];
  readonly passing: readonly number[];
}
const next = (rank + 1) % 4;
const OF_FOUR: Readonly<Record<string, OfFour>> = {
  'two-of-four': { call: (a, b) => rpcSync(next, add, [a, b]), dying: [1, 3], passing: [0, 2] },
  'between-of-four': { call: (a, b) => rpcSync(next, nested, [next, a, b, 1]), dying: [2], passing: [0] },
};
/** What lets those go that make no pass: they hold their contexts until the others have seen theirs fail. */
let release = (): void => undefined;
const released = new Promise<void>((resolve) => (release = resolve));
const letGo = rpcFunction('death/let-go', () => release());

async function amongFour({ call, dying, passing }: OfFour): Promise<void> {
  await context(async (id) => {
    const [a, b] = [0, 1].map(() => rand([3, 3], { requiresGrad: true })) as [Tensor, Tensor];
    const root = await call(a, b);
    await barrier();
    say(`before ${JSON.stringify(Object.values(distAutogradDebugInfo()))}`);
    await barrier();
    if (dying.includes(rank)) die();
    if (!passing.includes(rank)) return released;
    for (const each of dying) await untilDead(`w${each}`);
    await failingPass(id, root);
  });
  const waiting = [0, 1, 2, 3].filter((each) => !dying.includes(each) && !passing.includes(each));
  if (passing.includes(rank)) for (const each of waiting) await rpcSync(each, letGo);
  await settle(`w${rank}`);
}

async function creator(): Promise<void> {
  const x = ones([2], { requiresGrad: true });
  if (scenario === 'participant') {
    await context(async (id) => {
      const far = await rpcSync('w1', through, ['w2', x]);
      const near = await rpcSync('w1', add, [x, x]);
      const started = performance.now();
      const error: unknown = await backward(id, [far.add(near).sum()]).catch((e: unknown) => e);
      say(`failed ${shown(error)} ${performance.now() - started < 15_000 ? 'soon' : 'late'}`);
      say(`gradients ${getGradients(id).size}`);
      const again = await rpcSync('w1', add, [x, x]);
      await backward(id, [again.sum()]);
      say(`again ${JSON.stringify(getGradients(id).get(x)?.toArray())}`);
    });
    await settle('w1');
  } else if (scenario === 'between-committed') {
    await context(async (id) => {
      await failingPass(id, await rpcSync('w1', forked, [x]));
      let left = -1;
      for (let i = 0; i < 100 && left !== 0; i++) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        left = await rpcSync('w2', gradientsAt, [id]);
      }
      say(`w2 keeps ${left}`);
    });
    await settle('w2');
  } else if (isBefore(scenario)) {
    await afterDeathOf('w2', () => BEFORE[scenario](x));
    await settle('w1');
    await settle('w0');
  } else if (scenario === 'between') {
    // w1 brings w2 into the context and dies: only w2 knows that the creator has to tell it.
    await context(async () => {
      await rpcSync('w1', plain, [x]);
      say(`before ${JSON.stringify(await rpcSync('w2', counters))}`);
      void rpcAsync('w1', kill).catch(() => undefined);
      const gone = await rpcSync('w1', sleep, []).catch((e: unknown) => rpcInfo(e)?.code);
      say(`w1 ${String(gone)}`);
      await new Promise((resolve) => setTimeout(resolve, 500));
      say(`held ${JSON.stringify(await rpcSync('w2', counters))}`);
    });
    await settle('w2');
  } else {
    await context(async () => {
      await rpcSync('w1', plain, [x]);
      say('dying');
      die();
    });
  }
}

/** Makes a call, kills a worker, and finds that there is no pass any more. */
async function afterDeathOf(worker: string, call: () => Promise<Tensor>): Promise<void> {
  await context(async (id) => {
    const root = await call();
    void rpcAsync(worker, kill).catch(() => undefined);
    await untilDead(worker);
    await failingPass(id, root);
  });
}

/** Prints what becomes of a call of a worker that dies. */
async function untilDead(worker: string): Promise<void> {
  say(`${worker} ${String(await rpcSync(worker, sleep, []).catch((e: unknown) => rpcInfo(e)?.code))}`);
}

/** Prints how a pass fails, and what gradients it has left. */
async function failingPass(id: bigint, root: Tensor): Promise<void> {
  const started = performance.now();
  const error: unknown = await backward(id, [root.sum()]).catch((e: unknown) => e);
  say(`failed ${shown(error)} ${performance.now() - started < 15_000 ? 'soon' : 'late'}`);
  say(`gradients ${getGradients(id).size}`);
}

const sleep = rpcFunction('death/sleep', () => new Promise((resolve) => setTimeout(resolve, 30_000)));

/** Prints the counters of a worker once they are back to zero. */
async function settle(worker: string): Promise<void> {
  let seen: number[] = [];
  for (let i = 0; i < 100; i++) {
    seen = await rpcSync(worker, counters);
    if (seen.every((n) => n === 0)) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  say(`${worker} ${JSON.stringify(seen)}`);
}

await initRpc({ name: `w${rank}`, extensions: [rrefs(), distAutograd()] });
const ofFour = OF_FOUR[scenario ?? ''];
if (ofFour !== undefined || rank === 0) {
  await (ofFour === undefined ? creator() : amongFour(ofFour));
  process.exit(0);
}
// Those that stay until the creator is gone say when they have forgotten its context.
let had = false;
setInterval(() => {
  const [, contexts] = Object.values(distAutogradDebugInfo());
  if (had && contexts === 0) {
    say('forgotten');
    if (scenario === 'creator') process.exit(0);
  }
  had = contexts !== 0;
}, 20);
