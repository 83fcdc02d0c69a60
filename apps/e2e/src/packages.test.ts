/** @file The packed packages, installed together outside the workspace, run by plain Node. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '@backwire/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { nx, published, root, run } from './workspace.ts';

const folder = mkdtempSync(join(tmpdir(), 'backwire-packed-'));
afterAll(() => rmSync(folder, { recursive: true }));

const program = `
import { initRpc, rpcFunction, rpcSync, shutdown, tensor } from 'backwire';
const double = rpcFunction('double', (x) => x.mul(2));
const rank = Number(process.env.RANK);
await initRpc({ name: 'worker' + rank, rank, worldSize: 2 });
if (rank === 0) {
  const y = await rpcSync('worker1', double, [tensor([1, 2, 3])]);
  console.log('doubled', JSON.stringify(y.toArray()));
}
await shutdown();
`;

beforeAll(async () => {
  const built = await nx(['run-many', '-t', 'build', '--projects=packages/*', '--output-style=static']);
  expect(built.code, built.stdout).toBe(0);
  for (const name of published) {
    const packed = await run('npm', ['pack', '--pack-destination', folder], { cwd: join(root, 'packages', name) });
    expect(packed.code, packed.stderr).toBe(0);
  }
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'outside', private: true, type: 'module' }));
  writeFileSync(join(folder, 'main.mjs'), program);
  const archives = readdirSync(folder).filter((file) => file.endsWith('.tgz'));
  expect(archives).toHaveLength(published.length);
  const installed = await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', ...archives], {
    cwd: folder,
  });
  expect(installed.code, installed.stderr).toBe(0);
}, 600_000);

test.each(published)('publint finds nothing in %s', async (name) => {
  const checked = await run(join(root, 'node_modules/.bin/publint'), ['--strict', join('packages', name)]);
  expect(checked.code, checked.stdout).toBe(0);
});

test('two plain Node processes call each other', async () => {
  const port = await freePort();
  const start = (rank: number): Promise<string> =>
    new Promise((done, fail) => {
      const child = spawn('node', ['main.mjs'], {
        cwd: folder,
        env: { ...process.env, RANK: String(rank), MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port) },
        timeout: 60_000,
        killSignal: 'SIGKILL',
      });
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
      child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
      child.on('exit', (code) =>
        code === 0 ? done(output) : fail(new Error(`rank ${rank} exited ${code}\n${output}`)),
      );
    });
  const [first] = await Promise.all([start(0), start(1)]);
  expect(first).toContain('doubled [2,4,6]');
}, 120_000);

test('the backwire command starts the same program', async () => {
  const started = await run('npx', ['backwire', 'run', '--standalone', '--nproc-per-node', '2', 'main.mjs'], {
    cwd: folder,
    timeoutMs: 90_000,
  });
  expect(started.code, started.stdout + started.stderr).toBe(0);
  expect(started.stdout).toContain('doubled [2,4,6]');
}, 120_000);
