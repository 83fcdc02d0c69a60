/** @file Two releases in a clean clone: what they publish, tag and write, and what cannot be published. */
import { appendFileSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { packageName, published, run } from '../workspace.ts';
import { FIX } from './rehearsal.ts';
import { versionsOf } from './tarballs.ts';

const { registry, env, clone, said, seconds } = inject('rehearsal');
const names = published.map(packageName);
const [fixed, umbrella] = [packageName(FIX.package), 'backwire'];
console.log(
  Object.entries(seconds)
    .map(([step, s]) => `${step}: ${s} s`)
    .join('\n'),
);

const git = async (...args: string[]): Promise<string> => (await run('git', args, { cwd: clone })).stdout.trim();
const changelog = (name: string): string => readFileSync(join(clone, 'packages', name, 'CHANGELOG.md'), 'utf8');

test('a dry run in a clone without tags says what a release would do', () => {
  for (const name of names) expect(said.dryRun).toContain(`${name}@0.1.1`);
  expect(said.dryRun).toContain('no changes were made');
});

test('the first release publishes every package but the private ones', async () => {
  for (const name of names) expect(await versionsOf(registry, name), name).toContain('0.1.1');
  const response = await fetch(`${registry}@backwire%2ftesting`);
  expect(response.status).toBe(404);
});

test('a fix of one package releases it and what depends on it, and nothing else', async () => {
  for (const name of names)
    expect(await versionsOf(registry, name), name).toEqual(
      name === fixed || name === umbrella ? ['0.1.1', '0.1.2'] : ['0.1.1'],
    );
});

test('releases are tagged, and committed once each', async () => {
  const tags = (await git('tag', '--list')).split('\n');
  expect(tags.sort()).toEqual([...names.map((name) => `${name}@0.1.1`), `${fixed}@0.1.2`, `${umbrella}@0.1.2`].sort());
  const subjects = (await git('log', '--format=%s', '-3')).split('\n');
  expect(subjects).toEqual([
    'chore(release): publish',
    `fix(${FIX.package}): what is rehearsed`,
    'chore(release): publish',
  ]);
  expect(await git('status', '--porcelain')).toBe('');
});

test('every package has a changelog, which names the fix where it was made', () => {
  for (const name of published) expect(changelog(name), name).toMatch(/^## 0\.1\.1 \(/m);
  expect(changelog(FIX.package)).toMatch(
    /## 0\.1\.2 \([\d-]+\)\n\n### 🩹 Fixes\n\n- \*\*profiler:\*\* what is rehearsed/,
  );
  expect(changelog('backwire')).toContain(`Updated ${fixed} to 0.1.2`);
  expect(changelog('tensor')).not.toContain('0.1.2');
});

test('what was not built, or has changed since, is neither packed nor published', async () => {
  const folder = join(clone, 'packages/wire');
  const npm = async (...args: string[]) => run('npm', args, { cwd: folder, env: { ...process.env, ...env } });
  appendFileSync(join(folder, 'src/index.ts'), '\n');
  const changed = await npm('publish');
  expect(changed.code).not.toBe(0);
  expect(changed.stderr).toContain(
    '@backwire/wire cannot be packed: its sources have changed since it was built. Run `npx nx build @backwire/wire`.',
  );
  rmSync(join(folder, 'dist'), { recursive: true });
  for (const command of ['publish', 'pack']) {
    const { code, stderr } = await npm(command);
    expect(code).not.toBe(0);
    expect(stderr).toContain('@backwire/wire cannot be packed: it was not built. Run `npx nx build @backwire/wire`.');
  }
  expect(existsSync(join(folder, 'backwire-wire-0.1.1.tgz'))).toBe(false);
});
