/** @file Stock torch itself: as a client of our store, and as the launcher whose store ours is found through. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { resolveSecurity } from '../security/policy.ts';
import { embeddedStore } from './embedded.ts';
import { serveStore } from './embedded-server.ts';
import { torchClient } from './torch-client.ts';

/** A python with torch: BACKWIRE_TORCH_PYTHON, else the one on the path. Without it these tests are skipped. */
const python = process.env['BACKWIRE_TORCH_PYTHON'] ?? 'python3';
let torch: string | undefined;
try {
  torch = execFileSync(python, ['-c', 'import torch; print(torch.__version__)'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
    .toString()
    .trim();
} catch {
  torch = undefined;
}

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const open = resolveSecurity({ mode: 'none', iUnderstand: true });

async function runPython(args: string[], env: Record<string, string> = {}): Promise<string> {
  const child = spawn(python, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
  cleanups.push(() => child.kill('SIGKILL'));
  let output = '';
  let errors = '';
  child.stdout.on('data', (data: Buffer) => (output += data.toString()));
  child.stderr.on('data', (data: Buffer) => (errors += data.toString()));
  const [code] = (await once(child, 'close')) as [number];
  if (code !== 0) throw new Error(`python ended with ${code}: ${errors}`);
  return output;
}

describe.skipIf(torch === undefined)(
  `torch ${torch ?? '(skipped: no python with torch; set BACKWIRE_TORCH_PYTHON)'}`,
  { timeout: 120_000 },
  () => {
    test('its TCPStore client uses every operation of our server', async () => {
      const server = await serveStore({ security: open });
      const store = await embeddedStore({ endpoint: server.endpoint });
      cleanups.push(
        () => server.close(),
        () => store.close(),
      );
      await store.set('from-node', Buffer.from('hi'));
      const late = store.wait(['ready'], { timeoutMs: 60_000 }).then(() => store.set('late', Buffer.from('now')));
      const program = `
import datetime, torch.distributed as d
s = d.TCPStore('127.0.0.1', ${server.port}, None, False, timeout=datetime.timedelta(seconds=30))
print(s.get('from-node'))
s.set('k', 'v1'); s.append('k', '+'); print(s.get('k'))
print(s.add('n', 5), s.add('n', -2))
print(s.compare_set('c', 'x', 'y'), s.compare_set('c', '', 'y'), s.compare_set('c', 'y', 'z'))
print(s.num_keys(), s.delete_key('c'), s.delete_key('c'))
s.multi_set(['a', 'b'], ['1', '2']); print(s.multi_get(['a', 'b']))
print(s.check(['a', 'b']), s.check(['zzz']))
try:
  s.wait(['never'], datetime.timedelta(milliseconds=200))
except Exception as error:
  print(type(error).__name__)
d.PrefixStore('pfx', s).set('q', '1')
if hasattr(s, 'queue_push'):
  s.queue_push('qq', 'one'); s.queue_push('qq', 'two')
  assert (s.queue_len('qq'), s.queue_pop('qq'), s.queue_pop('qq')) == (2, b'one', b'two')
if hasattr(s, 'list_keys'):
  assert sorted(s.list_keys()) == ['a', 'b', 'from-node', 'k', 'n', 'pfx/q'], s.list_keys()
s.set('ready', ''); print(s.get('late'))
`;
      const output = await runPython(['-c', program]);
      await late;
      expect(output.trim().split('\n')).toEqual([
        "b'hi'",
        "b'v1+'",
        '5 3',
        "b'x' b'y' b'z'",
        '4 True False',
        "[b'1', b'2']",
        'True False',
        'DistStoreError',
        "b'now'",
      ]);
      expect(Buffer.from((await store.get('pfx/q')) ?? []).toString()).toBe('1');
    });

    test('our client uses every operation of its TCPStore server', async () => {
      // Barriers and lists of keys are newer than the rest.
      const program = `
import sys, datetime, torch.distributed as d
s = d.TCPStore('127.0.0.1', 0, None, True, timeout=datetime.timedelta(seconds=60))
print(s.port, hasattr(s, 'list_keys'), flush=True)
sys.stdin.read()
`;
      const child = spawn(python, ['-c', program], { stdio: ['pipe', 'pipe', 'inherit'] });
      cleanups.push(() => child.kill('SIGKILL'));
      const [line] = (await once(child.stdout, 'data')) as [Buffer];
      const [port, newer] = line.toString().trim().split(' ');
      await everyOperation(`tcp://127.0.0.1:${port}`, newer === 'True');
    });

    test('torchrun --no-python starts a group, again after a worker failed: rank 0 is found through its agent', async () => {
      const directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));
      cleanups.push(() => rmSync(directory, { recursive: true, force: true }));
      const url = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);
      const program = join(directory, 'worker.mjs');
      writeFileSync(
        program,
        `const { initRpc, rpcFunction, rpcSync, shutdown } = await import(${url('../index.ts')});
      const { RANK, TORCHELASTIC_RESTART_COUNT: restart } = process.env;
      const next = rpcFunction('torchrun/next', (x) => x + 1);
      await initRpc({ name: 'w' + RANK, initTimeoutMs: 60_000 });
      if (restart === '0' && RANK === '1') process.exit(3);
      if (restart === '0') await new Promise((resolve) => setTimeout(resolve, 60_000));
      const answer = await rpcSync('w' + (1 - RANK), next, [41]);
      console.log('rank ' + RANK + ' restart ' + restart + ' ' + answer);
      await shutdown();`,
      );
      const node = [process.execPath, '--import', 'tsx', '--conditions=@backwire/source', program];
      const rendezvous = [
        '--rdzv-backend=c10d',
        '--rdzv-endpoint=localhost:0',
        '--max-restarts=1',
        '--nnodes=1',
        '--nproc-per-node=2',
      ];
      const root = dirname(fileURLToPath(new URL('../../../../package.json', import.meta.url)));
      const before = process.cwd();
      process.chdir(root);
      try {
        const output = await runPython(['-m', 'torch.distributed.run', ...rendezvous, '--no-python', ...node], {
          OMP_NUM_THREADS: '1',
        });
        const lines = output.split('\n').filter((line) => line.startsWith('rank'));
        expect(lines.sort()).toEqual(['rank 0 restart 1 42', 'rank 1 restart 1 42']);
      } finally {
        process.chdir(before);
      }
    });
  },
);

test('the client of torch stores uses every operation of our server', async () => {
  const server = await serveStore({ security: open });
  cleanups.push(() => server.close());
  await everyOperation(server.endpoint, true);
});

/** All operations that a client sends: VALIDATE and PING when it connects, PING behind whatever has no answer. */
async function everyOperation(endpoint: string, newer: boolean): Promise<void> {
  const one = await torchClient(endpoint);
  const two = await torchClient(endpoint);
  cleanups.push(
    () => one.close(),
    () => two.close(),
  );
  const bytes = (value: string): Uint8Array => Buffer.from(value);
  const text = (value: Uint8Array | undefined): string | undefined =>
    value === undefined ? undefined : Buffer.from(value).toString();
  const before = await one.countKeys();
  await one.set('k', bytes('v1'));
  await two.append('k', bytes('+'));
  expect(text(await one.waitFor('k'))).toBe('v1+');
  expect([await one.add('n', 5n), await two.add('n', -2n)]).toEqual([5n, 3n]);
  expect(text(await one.compareAndSet('c', bytes('x'), bytes('y')))).toBe('x');
  expect(text(await one.compareAndSet('c', bytes(''), bytes('y')))).toBe('y');
  expect(text(await two.compareAndSet('c', bytes('y'), bytes('z')))).toBe('z');
  expect([await one.check(['k', 'n']), await one.check(['k', 'never'])]).toEqual([true, false]);
  expect((await two.countKeys()) - before).toBe(3);
  expect([await one.delete('c'), await one.delete('c')]).toEqual([true, false]);
  await one.multiSet(
    new Map([
      ['a', bytes('1')],
      ['b', bytes('')],
    ]),
  );
  expect((await two.multiGet(['b', 'a', 'n'])).map(text)).toEqual(['', '1', '3']);
  expect(await one.wait(['a', 'never'], 100)).toBe(false);
  const waiting = one.wait(['late', 'a'], 60_000);
  await two.set('late', bytes('now'));
  expect(await waiting).toBe(true);
  expect(await one.pop('q')).toBeUndefined();
  await one.push('q', bytes('first'));
  await two.push('q', bytes('second'));
  expect(await one.queueLength('q')).toBe(2);
  expect([text(await one.pop('q')), text(await two.pop('q'))]).toEqual(['first', 'second']);
  if (newer) {
    const keys = (await one.listKeys()).filter((key) => ['k', 'n', 'a', 'b', 'late'].includes(key));
    expect(keys.sort()).toEqual(['a', 'b', 'k', 'late', 'n']);
    let passed = false;
    const first = one.barrier('meet', 2).then(() => (passed = true));
    await two.check(['k']);
    expect(passed).toBe(false);
    await Promise.all([first, two.barrier('meet', 2)]);
  }
}

test('the client of torch stores: waiting, cancelling, a server that goes', async () => {
  const server = await serveStore({ security: open });
  cleanups.push(() => server.close());
  const one = await torchClient(server.endpoint);
  const two = await torchClient(server.endpoint);
  expect(one.localHost).toBe('127.0.0.1');
  const waiting = two.waitFor('k');
  await one.set('k', new Uint8Array(0));
  expect(await waiting).toEqual(new Uint8Array(0));
  await one.set('k', Buffer.from('value'));
  expect(Buffer.from(await two.waitFor('k')).toString()).toBe('value');
  const controller = new AbortController();
  const three = await torchClient(server.endpoint, { signal: controller.signal });
  const cancelled = expect(three.waitFor('never')).rejects.toMatchObject({ code: 'cancelled', executed: 'maybe' });
  controller.abort();
  await cancelled;
  const gone = expect(two.waitFor('never')).rejects.toMatchObject({
    code: 'unavailable',
    executed: 'maybe',
    retryable: false,
  });
  await server.close();
  await gone;
  await expect(two.set('k', new Uint8Array(0))).rejects.toMatchObject({ code: 'unavailable', executed: 'no' });
  one.close();
  await expect(one.set('k', new Uint8Array(0))).rejects.toMatchObject({
    code: expect.stringMatching(/unavailable|failed-precondition/) as string,
  });
});
