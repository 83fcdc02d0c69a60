/** @file The contract's programs run, unchanged but for the lines that must not compile, on real processes. */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { distAutograd } from '@backwire/dist-autograd';
import { profiling } from '@backwire/profiler';
import { createAgent, RpcError, type RpcAgent } from '@backwire/rpc';
import { remote, rrefs } from '@backwire/rref';
import { randn, rand, tensor } from '@backwire/tensor';
import { freePort } from '@backwire/testing';
import { afterEach, beforeAll, expect, test } from 'vitest';
import type * as Programs from './programs.ts';

const here = import.meta.dirname;
const output = join(here, '../../test-output');
const runnable = join(output, 'programs.ts');
let programs: typeof Programs;

beforeAll(async () => {
  // The type test is `tsc`; running needs the same text without the statements that are there to be refused.
  const lines = readFileSync(join(here, 'programs.ts'), 'utf8').split('\n');
  const kept = lines.filter(
    (line, i) => !line.includes('@ts-expect-error') && !lines[i - 1]?.includes('@ts-expect-error'),
  );
  expect(lines.length - kept.length).toBe(10);
  mkdirSync(output, { recursive: true });
  writeFileSync(runnable, kept.join('\n'));
  programs = (await import(runnable)) as typeof Programs;
}, 60_000);

/** Starts one process a worker and answers what each printed; fails with all output when one fails. */
async function group(workers: readonly { program: string; name: string }[]): Promise<string[]> {
  const port = await freePort();
  const args = ['--import', 'tsx', '--conditions=@backwire/source', join(here, 'drive.ts')];
  const env = { ...process.env, MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port) };
  return Promise.all(
    workers.map(
      ({ program, name }, rank) =>
        new Promise<string>((done, fail) => {
          const child = spawn('node', [...args, runnable, program, name, String(rank), String(workers.length)], {
            env: { ...env, RANK: String(rank), WORLD_SIZE: String(workers.length) },
            timeout: 90_000,
            killSignal: 'SIGKILL',
          });
          let text = '';
          child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
          child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()));
          child.on('exit', (code, signal) =>
            code === 0
              ? done(stripVTControlCharacters(text))
              : fail(new Error(`${name} ended with ${code ?? signal}:\n${text}`)),
          );
        }),
    ),
  );
}

test('hello: calls, streams, one-way calls and waitAll between two processes', async () => {
  const [first] = await group([
    { program: 'hello', name: 'worker0' },
    { program: 'serve', name: 'worker1' },
  ]);
  expect(first).toContain('hello done');
}, 120_000);

test("a caller without the server's code calls by name", async () => {
  const [first] = await group([
    { program: 'stub', name: 'worker0' },
    { program: 'serve', name: 'worker1' },
  ]);
  expect(first).toContain('stub [0,0]');
}, 120_000);

test('a parameter server is trained from another process', async () => {
  const [, text = ''] = await group([
    { program: 'serve', name: 'ps' },
    { program: 'train', name: 'trainer' },
  ]);
  const first = Number(/first (\S+)/.exec(text)?.[1]);
  const last = Number(/last (\S+)/.exec(text)?.[1]);
  expect(first).toBeGreaterThan(0.5);
  expect(last).toBeLessThan(0.05);
}, 120_000);

test('three agents share one process', async () => {
  const sum = await programs.three();
  expect(Number.isFinite(sum)).toBe(true);
});

const agents: RpcAgent[] = [];
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});

test('failures: a call in time answers, one past its deadline says whether it ran', async () => {
  const start = (name: string, rank: number): Promise<RpcAgent> =>
    createAgent({ name, rank, worldSize: 2, store: 'memory://failures' });
  agents.push(...(await Promise.all([start('w0', 0), start('w1', 1)])));
  // Its time is 50 ms, which a busy machine may need for the first calls.
  const outcomes: unknown[] = [];
  const again = async (): Promise<unknown> => {
    outcomes.push(await agents[0]?.run(() => programs.failures()));
    return outcomes.at(-1);
  };
  await expect.poll(again).toBe('ok');
  for (const late of outcomes.slice(0, -1)) expect(['yes', 'no', 'maybe']).toContain(late);
});

test('failures: without the peer the error is typed', async () => {
  agents.push(await createAgent({ name: 'w0', rank: 0, worldSize: 1, store: 'memory://alone' }));
  const failure = await agents[0]?.run(() => programs.failures().then(String, (error: unknown) => error));
  expect(failure instanceof RpcError ? failure.code : failure).toBe('local');
});

let groups = 0;
/** Workers of one group, in this process, over real sockets. The first one is answered. */
async function workers(...names: readonly string[]): Promise<RpcAgent> {
  const store = `memory://programs-${++groups}`;
  const started = await Promise.all(
    names.map((name, rank) =>
      createAgent({
        name,
        rank,
        worldSize: names.length,
        store,
        transports: ['tcp'],
        extensions: [rrefs(), distAutograd(), profiling()],
      }),
    ),
  );
  agents.push(...started);
  return started[0] as RpcAgent;
}

test('hybrid: a module on one worker inside a module here, and a worker that refuses what does not fit its layer', async () => {
  const trainer = await workers('trainer', 'ps', 'w1');
  const ids = tensor([1, 999, 5, 0], { dtype: 'int64' });
  const offsets = tensor([0, 2], { dtype: 'int64' });
  // The program's head makes two columns, and the layer on w1 takes four: its error comes back with its class and its place.
  const failure = await trainer.run(() => programs.hybrid(ids, offsets).then(String, (error: unknown) => error));
  expect(failure).toMatchObject({ remoteName: 'ShapeError', peer: { name: 'w1' }, code: 'remote-error' });
  expect(String((failure as Error).message)).toContain('(2x2 and 4x4)');
  // An id outside the table is refused by the worker that has the table, before that.
  const outside = tensor([1000], { dtype: 'int64' });
  const refused = trainer.run(() => programs.hybrid(outside, tensor([0], { dtype: 'int64' })));
  await expect(refused).rejects.toThrow(/1000/);
});

test('Agent: four questions are answered by one batch, and three wait', async () => {
  const first = await workers('observer', 'agent');
  await first.run(async () => {
    const agent = remote('agent', programs.Agent);
    const states = [[0, 1, 0], [5, 1, 0], [0, 0, 9], [0, 2, 1]]; // prettier-ignore
    let answered = 0;
    const ask = (state: readonly number[]): Promise<number> =>
      agent
        .rpcAsync()
        .selectAction(tensor(state))
        .finally(() => answered++);
    const early = states.slice(0, 3).map(ask);
    await agent.typeName();
    expect(answered).toBe(0);
    expect(await Promise.all([...early, ask(states[3] ?? [])])).toEqual([1, 0, 2, 1]);
    agent.dispose();
  });
});

test('ddp: every worker sends its gradients to the server, and gets back what that answers', async () => {
  const first = await workers('w0', 'w1');
  const received: (readonly [batch: number, bucket: number])[] = [];
  const { averageGradient } = programs.GradientServer.prototype;
  programs.GradientServer.prototype.averageGradient = function (batch, bucket, gradient) {
    received.push([batch, bucket]);
    return averageGradient.call(this, batch, bucket, gradient);
  };
  try {
    const trained = agents.map((agent) =>
      agent.run(async () => {
        using server = remote(first.name, programs.GradientServer);
        await programs.ddp(server, rand([6, 4]), tensor([0, 1, 1, 0, 1, 0], { dtype: 'int64' }));
      }),
    );
    await Promise.all(trained);
  } finally {
    programs.GradientServer.prototype.averageGradient = averageGradient;
  }
  expect(received).toEqual([[0, 0], [0, 0]]); // prettier-ignore
});

test('traced: a call under a profile shows on both sides, in the table and in the trace', async () => {
  const first = await workers('w0', 'w1');
  const folder = mkdtempSync(join(tmpdir(), 'backwire-traced-'));
  const back = process.cwd();
  process.chdir(folder);
  try {
    const text = await first.run(() => programs.traced());
    expect(text).toMatch(/^2 /);
    for (const name of ['step', 'rpc_async#hello/scale(w0 -> w1)', '#remote_op: aten::mul'])
      expect(text).toContain(name);
    const { traceEvents } = JSON.parse(readFileSync(join(folder, 'trace.json'), 'utf8')) as {
      traceEvents: { name: string; pid: number }[];
    };
    expect(new Set(traceEvents.map(({ pid }) => pid))).toEqual(new Set([0, 1]));
  } finally {
    process.chdir(back);
    rmSync(folder, { recursive: true, force: true });
  }
});

test('the module of a parameter server: forward, references to its parameters, gradients of a context', async () => {
  const trainer = await workers('trainer', 'ps');
  async function* batch(): AsyncGenerator<{ x: ReturnType<typeof randn>; y: ReturnType<typeof tensor> }> {
    yield await Promise.resolve({ x: randn([2, 784]), y: tensor([0, 1], { dtype: 'int64' }) });
  }
  expect(await trainer.run(() => programs.train(batch() as Parameters<typeof programs.train>[0]))).toBeGreaterThan(0);
});
