/**
 * @file A job of many workers for tests that look at it from outside: every worker calls the others, some calls fail, and lines on
 * standard input make references and contexts come and go.
 */
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  distAutograd,
  getWorkerInfo,
  getWorkerInfos,
  initRpc,
  randn,
  remote,
  rpcAsync,
  rpcFunction,
  rrefs,
  type RRef,
  type Tensor,
} from '../src/index.ts';

const score = rpcFunction('job/score', async (x: Tensor, ms: number) => {
  await sleep(ms);
  return x.matmul(x);
});
const flaky = rpcFunction('job/flaky', (): Promise<Tensor> => {
  throw new TypeError('this happens now and then');
});
const table = rpcFunction('job/table', (rows: number) => randn([rows, 16]));
const stuck = rpcFunction('job/stuck', () => sleep(600_000));

const rank = Number(process.env['RANK']);
const agent = await initRpc({ name: `worker${rank}`, extensions: [rrefs({ creationSites: true })] });
console.log(`ready ${process.pid}`);

let going = true;
const held: RRef<Tensor>[] = [];
void keepCalling(randn([8, 8]));
void keepLearning();

/** Calls all others in turn, a few at once, and one that fails now and then. */
async function keepCalling(x: Tensor): Promise<void> {
  for (let n = 0; going; n++) {
    const others = getWorkerInfos().filter(({ name }) => name !== getWorkerInfo().name);
    const calls = others.map(({ name }, i) => rpcAsync(name, score, [x, (n * 3 + i * 7) % 20]));
    if (n % 40 === 20 && others[0] !== undefined) calls.push(rpcAsync(others[0].name, flaky));
    await Promise.allSettled(calls);
    await sleep(30);
  }
}

/** Differentiates through a call, with time to see the context. */
async function keepLearning(): Promise<void> {
  const x = randn([8, 8], { requiresGrad: true });
  while (going && rank < 2) {
    await distAutograd
      .context(async (id) => {
        const y = await rpcAsync(`worker${3 - rank}`, score, [x, 5]);
        await distAutograd.backward(id, [y.sum()]);
        await sleep(1_500);
      })
      .catch(() => undefined);
    await sleep(700 + 600 * rank);
  }
}

createInterface({ input: process.stdin }).on('line', (line) => {
  switch (line) {
    case 'hold':
      held.push(remote('worker2', table, [32]));
      break;
    case 'drop':
      for (const reference of held.splice(0)) reference.dispose();
      break;
    case 'stick':
      rpcAsync('worker1', stuck, [], { timeoutMs: 300_000 }).catch(() => undefined);
      break;
    case 'end':
      going = false;
      void agent.shutdown({ timeoutMs: 10_000, graceful: false }).then(() => process.exit(0));
      break;
    default:
      console.log(`what is '${line}'?`);
  }
  console.log(`did ${line}`);
});
