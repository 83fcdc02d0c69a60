/** @file Exports that nobody imports, files that nobody uses and dependencies that nobody needs fail the check that `npm test` runs. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { root, run, type Finished } from './workspace.ts';

const folder = mkdtempSync(join(tmpdir(), 'backwire-unused-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs the check, as it is set up here, over a workspace of these files. */
function check(files: Readonly<Record<string, string>>): Promise<Finished> {
  rmSync(folder, { recursive: true });
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  cpSync(join(root, 'knip.json'), join(folder, 'knip.json'));
  const args = ['--directory', folder, '--reporter', 'compact', '--no-config-hints'];
  return run(join(root, 'node_modules/.bin/knip'), args);
}

const entry = (name: string): object => ({ '@backwire/source': `./src/${name}.ts`, default: `./dist/${name}.js` });
const launch = (dependencies: object = {}): string =>
  JSON.stringify({
    name: '@backwire/launch',
    type: 'module',
    exports: { '.': entry('index'), './internal': entry('internal') },
    dependencies,
  });
const good = {
  'package.json': JSON.stringify({ name: 'root', private: true, workspaces: ['packages/*'] }),
  'packages/launch/package.json': launch(),
  'packages/launch/src/index.ts': `export { shown } from './used.ts';\n`,
  'packages/launch/src/internal.ts': `export { shared } from './used.ts';\n`,
  'packages/launch/src/used.ts': 'export const shown = 1;\nexport const shared = 2;\n',
  'packages/profiler/package.json': JSON.stringify({
    name: '@backwire/profiler',
    type: 'module',
    exports: { '.': entry('index') },
    dependencies: { '@backwire/launch': '*' },
  }),
  'packages/profiler/src/index.ts': `import { shown } from '@backwire/launch';\nimport { shared } from '@backwire/launch/internal';\nexport const sum = shown + shared;\n`,
};

test('what a package shows to everybody, and what siblings import, is used', async () => {
  const { code, stdout, stderr } = await check(good);
  expect(code, stdout + stderr).toBe(0);
}, 60_000);

test.each([
  [
    'an export that nobody imports',
    { 'packages/launch/src/used.ts': `${good['packages/launch/src/used.ts']}export const spare = 3;\n` },
    'spare',
  ],
  [
    'an export for siblings that none imports',
    { 'packages/launch/src/internal.ts': `export { shared, shown as spare } from './used.ts';\n` },
    'spare',
  ],
  ['a file that nobody uses', { 'packages/launch/src/alone.ts': 'export const alone = 1;\n' }, 'alone.ts'],
  ['a dependency that nobody imports', { 'packages/launch/package.json': launch({ nanoid: '*' }) }, 'nanoid'],
])(
  '%s fails',
  async (_, files, word) => {
    const { code, stdout, stderr } = await check({ ...good, ...files });
    expect(code, stdout + stderr).toBe(1);
    expect(stdout).toContain(word);
  },
  60_000,
);
