/** @file A worker for tests with real processes: rank 0 follows the scenario named in its arguments, the others serve. */
import { tensor, type Tensor } from '@backwire/tensor';
import {
  getWorkerInfos,
  initRpc,
  rpcAsync,
  rpcFunction,
  rpcInfo,
  rpcSync,
  shutdown,
  type RpcAgent,
} from '../src/index.ts';

const scale = rpcFunction('worker/scale', (x: Tensor, by: number) => x.mul(by));
const echo = rpcFunction('worker/echo', (x: unknown) => x);
const pid = rpcFunction('worker/pid', () => process.pid);
const hang = rpcFunction('worker/hang', () => new Promise<void>(() => undefined));
const block = rpcFunction('worker/block', (ms: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
});

const scenarios: Record<string, (agent: RpcAgent) => Promise<void>> = {
  /** Tensors of all sizes to every worker and back. */
  async echo() {
    for (const { name } of getWorkerInfos()) {
      for (const size of [1, 1_000, 100_000, 3_000_000]) {
        const y = await rpcAsync(name, scale, [tensor(new Float32Array(size).fill(1.5), { shape: [size] }), 2]);
        const data = y.dataSync();
        if (y.size !== size || data[0] !== 3 || data[size - 1] !== 3) throw new Error(`wrong answer for ${size}`);
      }
      const value = { text: 'é', list: [1, 2n, null, undefined], map: new Map([['a', new Date(5)]]) };
      const back = (await rpcSync(name, echo, [value])) as typeof value;
      if (back.text !== 'é' || back.list[1] !== 2n || back.map.get('a')?.getTime() !== 5)
        throw new Error('wrong value');
    }
    console.log('echo done');
  },

  /** Worker 1 is killed by the test; what waits for it fails. */
  async killed(agent) {
    agent.on('peer-down', (peer) => console.log(`down ${peer.name}`));
    await rpcSync('w1', echo, [1]);
    const waiting = [rpcAsync('w1', hang), rpcAsync('w1', hang), rpcAsync('w2', echo, ['alive'])];
    console.log(`kill ${await rpcSync('w1', pid)}`);
    const outcomes = await Promise.allSettled(waiting);
    console.log(`outcomes ${JSON.stringify(outcomes.map(outcomeOf))}`);
    const late = await rpcSync('w1', echo, [1]).catch((error: unknown) => error);
    console.log(`late ${rpcInfo(late)?.code ?? 'none'}`);
    console.log(`others ${String(await rpcSync('w2', echo, ['still here']))}`);
  },

  /** Worker 1 is killed and worker 2 is stopped by the test; each call that waits for one of them ends in a line. */
  async signalled(agent) {
    agent.on('peer-suspect', (peer) => console.log(`suspect ${peer.name}`));
    const ends = ['w1', 'w2'].map(async (name) => {
      const info = rpcInfo(await rpcAsync(name, hang, [], { timeoutMs: 0 }).catch((error: unknown) => error));
      console.log(`failed ${name} ${info?.code ?? 'none'} ${info?.executed ?? ''} ${info?.peer?.name ?? ''}`);
    });
    for (const name of ['w1', 'w2']) await rpcSync(name, pid);
    console.log('ready');
    await Promise.all(ends);
    console.log(`others ${String(await rpcSync('w3', echo, ['still here']))}`);
  },

  /** Worker 1 is killed and started again by the test. */
  async reborn(agent) {
    const first = await rpcSync('w1', pid);
    const down = new Promise<void>((resolve) => void agent.on('peer-down', () => resolve()));
    const joined = new Promise<void>((resolve) => void agent.on('peer-joined', () => resolve()));
    console.log(`kill ${first}`);
    const hanging = rpcSync('w1', hang).catch(() => undefined);
    await down;
    console.log('down w1');
    await hanging;
    await joined;
    console.log('joined w1');
    console.log(`reborn ${(await rpcSync('w1', pid)) === first ? 'no' : 'yes'}`);
  },

  /** Worker 0 is killed by the test. */
  async headless() {
    await new Promise(() => undefined);
  },

  /** Worker 1 computes for longer than silence is allowed, and is still alive. */
  async busy() {
    const answer = rpcAsync('w1', block, [6_500], { timeoutMs: 30_000 });
    await answer;
    console.log('busy survived');
  },
};

const followers: Record<string, (agent: RpcAgent) => Promise<void>> = {
  /** Worker 0, which hosts the store, is killed by the test; the others go on. */
  async headless() {
    if (rank !== 1) return;
    const waiting = rpcSync('w0', hang);
    await rpcSync('w0', echo, [1]);
    await rpcSync('w2', echo, [1]);
    console.log('kill me');
    const info = rpcInfo(await waiting.catch((error: unknown) => error));
    console.log(`w0 ${info?.code ?? 'no failure'} ${info?.peer?.name ?? ''}`);
    console.log(`w2 ${String(await rpcSync('w2', echo, ['still here']))}`);
  },
};

/** A tenth of the defaults, so that a test need not wait for them. */
const SHORT = {
  pingMs: 200,
  suspectMs: 600,
  deadMs: 1_500,
  busyDeadMs: 6_000,
  reconnectGraceMs: 1_000,
  leaseMs: 1_000,
};

function outcomeOf(outcome: PromiseSettledResult<unknown>): unknown {
  if (outcome.status === 'fulfilled') return outcome.value ?? null;
  const info = rpcInfo(outcome.reason);
  return { code: info?.code, peer: info?.peer?.name, executed: info?.executed };
}

const rank = Number(process.env['RANK']);
const [scenario = 'echo', transport] = process.argv.slice(2);
const agent = await initRpc({
  name: `w${rank}`,
  rank,
  worldSize: Number(process.env['WORLD_SIZE']),
  ...(transport === undefined ? {} : { transports: [transport] }),
  initTimeoutMs: 20_000,
  ...(scenario === 'signalled' ? { liveness: SHORT } : {}),
  ...(scenario === 'busy' ? { liveness: { pingMs: 500, suspectMs: 1_500, deadMs: 4_000 } } : {}),
});
console.log('up');
if (rank === 0) await scenarios[scenario]?.(agent);
else await followers[scenario]?.(agent);
await shutdown({ timeoutMs: 20_000 });
console.log('bye');
