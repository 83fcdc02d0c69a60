/** @file Where the sockets of Unix listeners lie, and what becomes of their folders. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, statSync, utimesSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { unixTransport } from './unix.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

test('a unix socket lives in a private directory that goes with it', async () => {
  const listener = await unixTransport().listen({}, () => undefined);
  const path = listener.endpoint.slice('unix://'.length);
  expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
  const socket = connect(path);
  await once(socket, 'connect');
  socket.destroy();
  await listener.close();
  expect(existsSync(dirname(path))).toBe(false);
});

test('a unix socket path that is too long is refused in words', async () => {
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = `/tmp/${'x'.repeat(120)}`;
  try {
    await expect(unixTransport().listen({}, () => undefined)).rejects.toMatchObject({ code: 'invalid-argument' });
  } finally {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  }
});

test('a listener sweeps away what killed processes left, and nothing else', async () => {
  const parent = mkdtempSync(join(tmpdir(), 'backwire-test-'));
  cleanups.push(() => rmSync(parent, { recursive: true, force: true }));
  const env = { ...process.env, TMPDIR: parent };
  const run = (body: string): ReturnType<typeof spawn> =>
    spawn(
      process.execPath,
      [
        '--import',
        'tsx',
        '--conditions=@backwire/source',
        '--input-type=module',
        '-e',
        `const { unixTransport } = await import(${JSON.stringify(new URL('./unix.ts', import.meta.url).href)}); ${body}`,
      ],
      { cwd: fileURLToPath(new URL('../../../../', import.meta.url)), env, stdio: ['ignore', 'pipe', 'inherit'] },
    );
  const listening = `const l = await unixTransport().listen({}, () => {}); console.log(l.endpoint);`;
  const line = async (child: ReturnType<typeof spawn>): Promise<string> => {
    const [data] = (await once(child.stdout as NodeJS.EventEmitter, 'data')) as [Buffer];
    return dirname(data.toString().trim().slice('unix://'.length));
  };
  const killed = run(listening);
  const alive = run(listening);
  cleanups.push(() => alive.kill('SIGKILL'));
  const [dead, live] = [await line(killed), await line(alive)];
  killed.kill('SIGKILL');
  await once(killed, 'exit');
  const long = new Date(Date.now() - 3_600_000);
  for (const directory of [dead, live]) utimesSync(directory, long, long);
  const sweeper = run(`${listening} setInterval(() => {}, 1000);`);
  cleanups.push(() => sweeper.kill('SIGKILL'));
  const own = await line(sweeper);
  await expect.poll(() => existsSync(dead), { timeout: 20_000 }).toBe(false);
  expect([existsSync(live), existsSync(own)]).toEqual([true, true]);
});
