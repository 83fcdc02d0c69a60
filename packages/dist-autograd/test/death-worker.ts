/** @file One of the processes of a group in which one dies, or two of four: `death-worker.ts <scenario>`. Prints what it sees, a line each. */
import { initRpc, rpcAsync, RpcError, rpcFunction, rpcInfo, rpcSync } from '@backwire/rpc';
import { rrefs } from '@backwire/rref';
import { add, customFunction, ones, type Tensor } from '@backwire/tensor';
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
const onward = rpcFunction('death/onward', async (x: Tensor) => rpcAsync('w3', plus, [x, x]));
const throughTwo = rpcFunction('death/through-two', async (x: Tensor) => rpcAsync('w2', onward, [x]));
const plus = rpcFunction('death/plus', (a: Tensor, b: Tensor) => a.add(b));
const counters = rpcFunction('death/counters', () => Object.values(distAutogradDebugInfo()));
const kill = rpcFunction('death/kill', () => void setTimeout(die, 20));

const say = (what: string): void => console.log(what);
const shown = (error: unknown): string =>
  error instanceof RpcError ? `${error.code} ${error.peer?.name}` : `with no RpcError: ${String(error)}`;

/** Before there is a pass: a worker that was called by this one, the last of a chain of calls, or one in the middle, which called on. */
const BEFORE = {
  'before-called': (x: Tensor) => rpcSync('w2', add, [x, x]),
  'before-chained': (x: Tensor) => rpcSync('w1', plain, [x]),
  'before-between': (x: Tensor) => rpcSync('w1', throughTwo, [x]),
};
const isBefore = (name: string | undefined): name is keyof typeof BEFORE => name !== undefined && name in BEFORE;

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
  } else if (isBefore(scenario)) {
    await afterDeathOf('w2', () => BEFORE[scenario](x));
    await settle('w1');
    if (scenario === 'before-between') await settle('w3');
    await settle('w0');
  } else if (scenario === 'before-two') {
    await afterDeathOf(`w${rank + 1}`, () => rpcSync(`w${rank + 1}`, add, [x, x]));
    await settle(`w${rank}`);
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
    say(`${worker} ${String(await rpcSync(worker, sleep, []).catch((e: unknown) => rpcInfo(e)?.code))}`);
    const started = performance.now();
    const error: unknown = await backward(id, [root.sum()]).catch((e: unknown) => e);
    say(`failed ${shown(error)} ${performance.now() - started < 15_000 ? 'soon' : 'late'}`);
    say(`gradients ${getGradients(id).size}`);
  });
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
if (rank === 0 || (scenario === 'before-two' && rank === 2)) {
  await creator();
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
