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

/** A python with torch: BACKWIRE_TEST_PYTHON, else the one on the path. Without it these tests are skipped. */
const python = process.env['BACKWIRE_TEST_PYTHON'] ?? 'python3';
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
  `torch ${torch ?? '(skipped: no python with torch; set BACKWIRE_TEST_PYTHON)'}`,
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

    test('under torchrun, Node workers find the store of rank 0 through the agent, again after a restart', async () => {
      const directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));
      cleanups.push(() => rmSync(directory, { recursive: true, force: true }));
      const url = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);
      const program = join(directory, 'worker.mjs');
      writeFileSync(
        program,
        `const { openStore } = await import(${url('./open.ts')});
      const { env } = process;
      const { store } = await openStore(undefined, { group: 'g', timeoutMs: 60_000 });
      const count = await store.add('count', 1n);
      await store.set('rank/' + env.RANK, Buffer.from('here'));
      await store.wait(['rank/0', 'rank/1'], { timeoutMs: 60_000 });
      if (env.TORCHELASTIC_RESTART_COUNT === '0' && env.RANK === '1') process.exit(3);
      await new Promise((resolve) => setTimeout(resolve, env.TORCHELASTIC_RESTART_COUNT === '0' ? 60_000 : 0));
      console.log('rank ' + env.RANK + ' restart ' + env.TORCHELASTIC_RESTART_COUNT + ' ' + (count <= 2n));
      await store.close();`,
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
        expect(lines.sort()).toEqual(['rank 0 restart 1 true', 'rank 1 restart 1 true']);
      } finally {
        process.chdir(before);
      }
    });
  },
);

test('the small client of torch stores, against our server', async () => {
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
  const cancelled = expect(three.waitFor('never')).rejects.toMatchObject({ code: 'cancelled' });
  controller.abort();
  await cancelled;
  const gone = expect(two.waitFor('never')).rejects.toMatchObject({ code: 'unavailable' });
  await server.close();
  await gone;
  one.close();
  await expect(one.set('k', new Uint8Array(0))).rejects.toMatchObject({
    code: expect.stringMatching(/unavailable|failed-precondition/) as string,
  });
});
