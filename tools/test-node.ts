/** @file `npm run test:node -- 26`: what `npm test` runs, on another version of Node, which is taken from npm. */
import { spawnSync } from 'node:child_process';
import { delimiter, resolve } from 'node:path';
import { nodeOf } from '@backwire/testing';

const major = Number(process.argv[2]);
if (!Number.isInteger(major)) {
  console.error('which version? usage: npm run test:node -- 26');
  process.exit(2);
}
const root = resolve(import.meta.dirname, '..');
const { executable, folder } = await nodeOf(major, resolve(root, 'node_modules/.cache/nodes'));
const { status } = spawnSync(executable, ['--import', 'tsx', resolve(import.meta.dirname, 'test.ts')], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}` },
});
process.exitCode = status ?? 1;
