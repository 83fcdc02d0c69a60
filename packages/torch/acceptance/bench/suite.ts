/** @file What a call costs between torch and a worker here, both ways, beside the same call from Python to Python, over TCP, in turns. */
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { tensor, zeros, type Tensor } from '@backwire/tensor';
import { freePort, TestCluster } from '@backwire/testing';
import { createTorchAgent } from '../../src/join.ts';
import { py } from '../../src/py.ts';
import { Python } from '../../test/python.ts';
import type { Report } from '../report.ts';

const ROUNDS = 7;
const CALLS = 300;
const ECHOES = 3;
/** 64 MiB of float32. */
const LARGE = 16 * 1024 * 1024;

interface Row {
  readonly name: string;
  /** What the ratio to Python–Python has to be at most. */
  readonly most: number;
  readonly peer: 'call' | 'echo';
  time(): Promise<number>;
}

rpcFunction('bench.same', (value: unknown) => value);
const same = py<(value: Tensor) => Tensor>('model.same');

/** The median of how long one takes, in microseconds. */
async function timed(times: number, call: () => Promise<Tensor>): Promise<number> {
  const spent: number[] = [];
  for (let i = 0; i < times; i++) {
    const start = performance.now();
    const answer = await call();
    spent.push(1_000 * (performance.now() - start));
    answer.dispose();
  }
  return median(spent);
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

const PROGRAM = `
def timed(times, to, function, n):
    value, spent = torch.zeros(n), []
    for _ in range(times):
        start = time.perf_counter()
        rpc.rpc_sync(to, function, (value,))
        spent.append(time.perf_counter() - start)
    return int(sorted(spent)[len(spent) // 2] * 1e6)
`;

export async function bench(report: Report): Promise<void> {
  const init = `tcp://127.0.0.1:${await freePort()}`;
  // Shared memory is Python's alone: what is compared goes over TCP.
  const settings = { size: 4, init, stubs: ['bench.same'], transports: ['uv'], channels: ['basic'] };
  const pythons = [0, 1].map((rank) => Python.start({ ...settings, name: `py${rank}`, rank }));
  const second = new TestCluster({ program: new URL('./worker.ts', import.meta.url), worldSize: 1, args: [init] });
  const node = await createTorchAgent({ name: 'node', rank: 2, worldSize: 4, initMethod: init, trustNetwork: true });
  await Promise.all(pythons.map(({ ready }) => ready));
  const [py0, py1] = pythons.map(({ python }) => python) as [Python, Python];
  await py0.run(PROGRAM);
  const [small, large] = [tensor([1, 2, 3, 4]), zeros([LARGE])];
  const inPython = async (times: number, to: string, name: string, n: number): Promise<number> =>
    Number(await py0.run(`timed(${times}, '${to}', ${name}, ${n})`));
  const here = (times: number, to: string, value: Tensor): Promise<number> =>
    timed(times, () => node.run(() => rpcSync(to, same, [value])));
  const peers = {
    call: () => inPython(CALLS, 'py1', 'model.same', 4),
    echo: () => inPython(ECHOES, 'py1', 'model.same', LARGE),
  };
  const rows: Row[] = [
    { name: 'Node → Python, 4 floats', most: 0.8, peer: 'call', time: () => here(CALLS, 'py0', small) },
    { name: 'Python → Node, 4 floats', most: 0.9, peer: 'call', time: () => inPython(CALLS, 'node', 'bench.same', 4) },
    {
      name: 'Node → Node, 4 floats',
      most: 0.3,
      peer: 'call',
      time: () =>
        timed(CALLS, () => node.run(() => rpcSync('second', py<(value: Tensor) => Tensor>('bench.same'), [small]))),
    },
    { name: 'Node → Python, 64 MiB and back', most: 1, peer: 'echo', time: () => here(ECHOES, 'py0', large) },
    {
      name: 'Python → Node, 64 MiB and back',
      most: 1,
      peer: 'echo',
      time: () => inPython(ECHOES, 'node', 'bench.same', LARGE),
    },
  ];
  // The first round warms up.
  const measured: { ours: number; peer: number }[][] = rows.map(() => []);
  for (let round = 0; round <= ROUNDS; round++) {
    const peer = { call: await peers.call(), echo: await peers.echo() };
    for (const [i, row] of rows.entries()) {
      const ours = await row.time();
      if (round > 0) measured[i]?.push({ ours, peer: peer[row.peer] });
    }
  }
  for (const [i, { name, most, peer }] of rows.entries()) {
    const rounds = measured[i] ?? [];
    const ratio = median(rounds.map((each) => each.ours / each.peer));
    const text = `${name}: ${micro(rounds.map(({ ours }) => ours))} µs, Python → Python ${micro(rounds.map((each) => each.peer))} µs (${peer}), ratio ${ratio.toFixed(2)}, goal ≤ ${most}`;
    report.check(text, ratio <= most ? undefined : 'above its goal');
  }
  const ends = [py0, py1].map((each) => each.end());
  await Promise.all([node.shutdown({ timeoutMs: 20_000 }), ...ends]);
  await second.dispose();
}

const micro = (values: readonly number[]): string => median(values).toFixed(0);
