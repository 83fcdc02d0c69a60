/** @file A release versions each package by its own commits. */
import { appendFileSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { published, root, run } from './workspace.ts';

const folder = mkdtempSync(join(tmpdir(), 'backwire-release-'));
const clone = join(folder, 'clone');
afterAll(() => rmSync(folder, { recursive: true }));

const projectName = (name: string): string => (name === 'backwire' ? name : `@backwire/${name}`);

async function git(...args: string[]): Promise<void> {
  const identity = ['-c', 'user.name=Release Test', '-c', 'user.email=release@example.org'];
  const { code, stderr } = await run('git', [...identity, ...args], { cwd: clone });
  if (code !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`);
}

/** What `nx release` says, and would do, in the clone; nothing is written or published. */
async function dryRun(): Promise<string> {
  const nx = join(root, 'node_modules/.bin/nx');
  const env = { ...process.env, NX_DAEMON: 'false', NX_TUI: 'false', NX_WORKSPACE_ROOT_PATH: clone, NO_COLOR: '1' };
  const { code, stdout, stderr } = await run(nx, ['release', '--dry-run', '--skip-publish'], { cwd: clone, env });
  expect(code, stdout + stderr).toBe(0);
  return stdout + stderr;
}

beforeAll(async () => {
  const cloned = await run('git', ['clone', '--quiet', root, clone], { cwd: folder });
  expect(cloned.code, cloned.stderr).toBe(0);
  symlinkSync(join(root, 'node_modules'), join(clone, 'node_modules'));
  for (const name of published) await git('tag', `${projectName(name)}@0.1.0`);
  appendFileSync(join(clone, 'packages/profiler/README.md'), '\nA change.\n');
  await git('commit', '-qam', 'feat(profiler): change only the profiler');
}, 120_000);

test('only the changed package and those that depend on it get a version', async () => {
  const output = await dryRun();
  const bumped = published.filter(
    (name) => output.includes(`"version": "0.1.1"`) && output.includes(`${projectName(name)}@0.1.1`),
  );
  expect(bumped).toContain('profiler');
  expect(bumped).toContain('backwire'); // the umbrella re-exports it
  expect(bumped).not.toContain('tensor');
  expect(bumped).not.toContain('rref');
}, 180_000);

test('the private testing package is never released', async () => {
  expect(await dryRun()).not.toContain('@backwire/testing@');
}, 180_000);
