/** @file The contract's programs run, unchanged but for the lines that must not compile, on real processes. */
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { createAgent, RpcError, type RpcAgent } from '@backwire/rpc';
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
  expect(await agents[0]?.run(() => programs.failures())).toBe('ok');
});

test('failures: without the peer the error is typed', async () => {
  agents.push(await createAgent({ name: 'w0', rank: 0, worldSize: 1, store: 'memory://alone' }));
  const failure = await agents[0]?.run(() => programs.failures().then(String, (error: unknown) => error));
  expect(failure instanceof RpcError ? failure.code : failure).toBe('local');
});
