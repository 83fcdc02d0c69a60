/** @file A member of a group that does what it is told, a line at a time, and prints what its group tells it. */
import { createInterface } from 'node:readline';
import { full, type Tensor } from '@backwire/tensor';
import {
  barrier,
  getWorkerInfos,
  initRpc,
  rpcAsync,
  rpcFunction,
  rpcInfo,
  shutdown,
  type RpcOptions,
} from '../src/index.ts';

/** What a test may ask; the answer is a line '#<id> <JSON>'. */
export type Order =
  | { readonly do: 'call'; readonly to: string; readonly timeoutMs?: number }
  | { readonly do: 'barrier'; readonly timeoutMs?: number; readonly workers?: readonly string[] }
  /** A call with a tensor of so many bytes, */
  | { readonly do: 'give'; readonly to: string; readonly bytes: number }
  /** one whose answer has one, */
  | { readonly do: 'take'; readonly to: string; readonly bytes: number }
  /** and one with a text, which travels in one piece. */
  | { readonly do: 'text'; readonly to: string; readonly bytes: number }
  /** Calls to `to` out of turn, one after the other, while `ms` pass: the longest of them, in milliseconds. */
  | { readonly do: 'probe'; readonly to: string; readonly ms: number }
  /** Calls to `to` that nobody waits for, until `ms` have passed. */
  | { readonly do: 'flood'; readonly to: string; readonly ms: number }
  /** How many calls of floods ran here, from a time of `Date` on. */
  | { readonly do: 'count'; readonly since: number }
  /** The main loop stands still. */
  | { readonly do: 'block'; readonly ms: number }
  | { readonly do: 'names' }
  /** Links that were made again. */
  | { readonly do: 'reconnects' }
  /** Bytes that have come from others. */
  | { readonly do: 'received' }
  | { readonly do: 'fenced' }
  | { readonly do: 'debug'; readonly key: string }
  | { readonly do: 'shutdown'; readonly timeoutMs?: number };

const runs: number[] = [];
const echo = rpcFunction('member/echo', (x: number) => x);
const note = rpcFunction('member/note', () => void runs.push(Date.now()));
const size = rpcFunction('member/size', (x: Tensor | string) => (typeof x === 'string' ? x.length : x.shape[0]));
const make = rpcFunction('member/make', (count: number) => full([count], 3, { dtype: 'uint8' }));

const nothing = (): void => undefined;
const options = JSON.parse(process.argv[2] ?? '{}') as Partial<RpcOptions>;
const rank = Number(process.env['RANK']);
const agent = await initRpc({
  name: `w${rank}`,
  rank,
  initTimeoutMs: 60_000,
  logger: { debug: nothing, info: nothing, warn: nothing, error: nothing },
  ...options,
});
let fenced = false;
agent.on('fenced', () => {
  fenced = true;
  console.log('! fenced');
});
for (const event of ['peer-down', 'peer-left', 'peer-joined'] as const)
  agent.on(event, ({ name }) => console.log(`! ${event} ${name}`));
console.log('up');

async function follow(order: Order): Promise<unknown> {
  switch (order.do) {
    case 'call':
      return rpcAsync(order.to, echo, [7], { timeoutMs: order.timeoutMs ?? 60_000 });
    case 'barrier':
      await barrier({ timeoutMs: order.timeoutMs ?? 0, ...(order.workers ? { workers: order.workers } : {}) });
      return 'met';
    case 'give':
      return rpcAsync(order.to, size, [full([order.bytes], 3, { dtype: 'uint8' })], { timeoutMs: 0 });
    case 'take':
      return (await rpcAsync(order.to, make, [order.bytes], { timeoutMs: 0 })).shape[0];
    case 'text':
      return rpcAsync(order.to, size, ['x'.repeat(order.bytes)], { timeoutMs: 0 });
    case 'probe': {
      const end = performance.now() + order.ms;
      let longest = 0;
      while (performance.now() < end) {
        const began = performance.now();
        await rpcAsync(order.to, echo, [1], { ordered: false, timeoutMs: 0 });
        longest = Math.max(longest, performance.now() - began);
      }
      return Math.round(longest);
    }
    case 'flood': {
      const end = performance.now() + order.ms;
      const sent: Promise<unknown>[] = [];
      while (performance.now() < end) {
        sent.push(rpcAsync(order.to, note, [], { timeoutMs: 0 }).catch(nothing));
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      return sent.length;
    }
    case 'count':
      return runs.filter((at) => at >= order.since).length;
    case 'block':
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.ms);
      return 'over';
    case 'names':
      return getWorkerInfos()
        .map(({ name }) => name)
        .sort();
    case 'reconnects':
      return agent.metrics().reconnects;
    case 'received':
      return agent.metrics().bytes_received;
    case 'fenced':
      return fenced;
    case 'debug':
      return agent.debugInfo()[order.key];
    case 'shutdown':
      await shutdown({ timeoutMs: order.timeoutMs ?? 0 });
      process.nextTick(() => process.exit(0));
      return 'bye';
  }
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, ...order } = JSON.parse(line) as Order & { id: number };
  const began = performance.now();
  const say = (answer: unknown): void => console.log(`#${id} ${JSON.stringify(answer)}`);
  const took = (): number => Math.round(performance.now() - began);
  follow(order).then(
    (value) => say({ value: value ?? null, ms: took() }),
    (error: unknown) => say({ code: rpcInfo(error)?.code ?? String(error), ms: took(), text: String(error) }),
  );
});
