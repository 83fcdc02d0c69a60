/** @file What a call costs between torch and a worker here, both ways, beside the same call from Python to Python, over TCP, in turns. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { tensor, zeros, type Tensor } from '@backwire/tensor';
import { freePort } from '@backwire/testing';
import type { Agent } from '../../src/agent.ts';
import { member } from '../../test/member.ts';
import { py } from '../../src/py.ts';
import { Python } from '../../test/python.ts';
import type { Report } from '../report.ts';

const ROUNDS = 7;
/** 64 MiB of float32. */
const LARGE = 16 * 1024 * 1024;

interface Row {
  readonly name: string;
  /** What the ratio to Python–Python has to be at most. */
  readonly most: number;
  readonly peer: 'call' | 'echo';
  /** The median of so many, in microseconds. */
  readonly time: (times: number) => Promise<number>;
}

const TIMES = { call: 300, echo: 3 };
/** What is compiled as it runs is measured when it is: torch's own code is from the start. */
const WARM_UP = { call: 4_000, echo: 3 };

rpcFunction('bench.same', (value: unknown) => value);
const same = py<(value: Tensor) => Tensor>('model.same');
const sameHere = py<(value: Tensor) => Tensor>('bench.same');

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

export async function bench(only: string, report: Report): Promise<void> {
  const init = `tcp://127.0.0.1:${await freePort()}`;
  // Shared memory is Python's alone: what is compared goes over TCP.
  const settings = { size: 4, init, stubs: ['bench.same'], transports: ['uv'], channels: ['basic'] };
  const pythons = [0, 1].map((rank) => Python.start({ ...settings, name: `py${rank}`, rank }));
  const second = fork(new URL('./worker.ts', import.meta.url), [init]);
  const ended = once(second, 'exit');
  try {
    const place = { name: 'node', rank: 2, worldSize: 4, initMethod: init, initTimeoutMs: 60_000 };
    const ready = Promise.all(pythons.map((python) => python.ready));
    // Why a worker of Python ended says more than that it did.
    const joins = member({ ...place, trustNetwork: true }).catch(async (error: unknown) => {
      await ready;
      throw error;
    });
    await using node = (await Promise.all([joins, ready]))[0];
    await compare(node, (pythons[0] as (typeof pythons)[0]).python, only, report);
    const ends = pythons.map(({ python }) => python.end());
    await Promise.all([node.shutdown({ timeoutMs: 20_000 }), ...ends]);
  } finally {
    // What has ended by itself is ended; whatever failed, nothing else stays behind.
    second.kill('SIGKILL');
    await Promise.all([ended, ...pythons.map(({ python }) => python.kill())]);
  }
}

/** Measures all rows in turns with the same from `py0` to the other worker of Python. */
async function compare(node: Agent, py0: Python, only: string, report: Report): Promise<void> {
  await py0.run(PROGRAM);
  const [small, large] = [tensor([1, 2, 3, 4]), zeros([LARGE])];
  const inPython = async (times: number, to: string, name: string, n: number): Promise<number> =>
    Number(await py0.run(`timed(${times}, '${to}', ${name}, ${n})`));
  const here = (times: number, to: string, fn: typeof same, value: Tensor): Promise<number> =>
    timed(times, () => node.run(() => rpcSync(to, fn, [value])));
  const peers = {
    call: (times: number) => inPython(times, 'py1', 'model.same', 4),
    echo: (times: number) => inPython(times, 'py1', 'model.same', LARGE),
  };
  const all: Row[] = [
    { name: 'Node → Python, 4 floats', most: 0.8, peer: 'call', time: (n) => here(n, 'py0', same, small) },
    { name: 'Python → Node, 4 floats', most: 0.9, peer: 'call', time: (n) => inPython(n, 'node', 'bench.same', 4) },
    { name: 'Node → Node, 4 floats', most: 0.3, peer: 'call', time: (n) => here(n, 'second', sameHere, small) },
    { name: 'Node → Python, 64 MiB and back', most: 1, peer: 'echo', time: (n) => here(n, 'py0', same, large) },
    {
      name: 'Python → Node, 64 MiB and back',
      most: 1,
      peer: 'echo',
      time: (n) => inPython(n, 'node', 'bench.same', LARGE),
    },
  ];
  const rows = all.filter(({ name }) => name.includes(only));
  for (const { peer, time } of rows) await time(WARM_UP[peer]);
  for (const peer of ['call', 'echo'] as const) await peers[peer](WARM_UP[peer]);
  const measured: { ours: number; peer: number }[][] = rows.map(() => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, { peer, time }] of rows.entries()) {
      const there = await peers[peer](TIMES[peer]);
      measured[i]?.push({ ours: await time(TIMES[peer]), peer: there });
    }
  }
  for (const [i, { name, most, peer }] of rows.entries()) {
    const rounds = measured[i] ?? [];
    const ratio = median(rounds.map((each) => each.ours / each.peer));
    const text = `${name}: ${micro(rounds.map(({ ours }) => ours))} µs, Python → Python ${micro(rounds.map((each) => each.peer))} µs (${peer}), ratio ${ratio.toFixed(2)}, goal ≤ ${most}`;
    report.check(text, ratio <= most ? undefined : 'above its goal');
  }
}

const micro = (values: readonly number[]): string => median(values).toFixed(0);
