/** @file The layers point down only, and lint says so when one does not. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ESLint } from 'eslint';
import { afterAll, expect, test } from 'vitest';
import { nx, root } from './workspace.ts';

const folder = mkdtempSync(join(tmpdir(), 'backwire-layers-'));
afterAll(() => rmSync(folder, { recursive: true }));

interface Graph {
  readonly graph: { readonly dependencies: Record<string, readonly { readonly target: string }[]> };
}

/** Which packages each one may import; see docs/architecture.md. */
const below: Record<string, readonly string[]> = {
  tensor: [],
  wire: ['tensor'],
  rpc: ['wire', 'tensor'],
  rref: ['rpc', 'wire', 'tensor'],
  'dist-autograd': ['rref', 'rpc', 'wire', 'tensor'],
  profiler: ['rpc', 'wire', 'tensor'],
  launch: ['rpc'],
  torch: ['dist-autograd', 'profiler', 'rref', 'rpc', 'wire', 'tensor'],
  backwire: ['tensor', 'wire', 'rpc', 'rref', 'dist-autograd', 'profiler', 'launch'],
};
const projectName = (name: string): string => (name === 'backwire' ? name : `@backwire/${name}`);

test('every arrow of the project graph points down', async () => {
  const file = join(folder, 'graph.json');
  const { code, stderr } = await nx(['graph', `--file=${file}`]);
  expect(code, stderr).toBe(0);
  const { dependencies } = (JSON.parse(readFileSync(file, 'utf8')) as Graph).graph;
  for (const name of Object.keys(below)) {
    const allowed = (below[name] ?? []).map(projectName);
    const targets = (dependencies[projectName(name)] ?? [])
      .map((edge) => edge.target)
      .filter((target) => !target.startsWith('npm:') && target !== '@backwire/testing');
    for (const target of targets) expect(allowed, `${name} imports ${target}`).toContain(target);
  }
  expect(dependencies['@backwire/rref']?.map((edge) => edge.target)).toContain('@backwire/rpc');
}, 120_000);

async function lint(file: string, source: string): Promise<(string | null)[]> {
  const eslint = new ESLint({ cwd: root });
  const [result] = await eslint.lintText(source, { filePath: join(root, file) });
  return (result?.messages ?? []).map((message) => message.ruleId);
}

test('an upward import fails lint', async () => {
  await nx(['show', 'projects']); // the boundary rule reads the project graph that Nx caches
  const rules = await lint('packages/tensor/src/index.ts', `export { initRpc } from '@backwire/rpc';\n`);
  expect(rules).toContain('@nx/enforce-module-boundaries');
  const down = await lint('packages/wire/src/index.ts', `export { tensor } from '@backwire/tensor';\n`);
  expect(down).not.toContain('@nx/enforce-module-boundaries');
}, 120_000);

test('shipped source may not import the testing package', async () => {
  const rules = await lint('packages/rpc/src/index.ts', `export * from '@backwire/testing';\n`);
  expect(rules).toContain('no-restricted-imports');
}, 120_000);

test('a protocol class, or another pure file, that reads the clock fails lint', async () => {
  for (const file of ['packages/rpc/src/protocol/session.ts', 'packages/launch/src/rendezvous.ts']) {
    const rules = await lint(file, `export const now = (): number => Date.now();\n`);
    expect(rules, file).toContain('no-restricted-globals');
  }
}, 120_000);

/** What these rules say of a file with this text. */
async function messages(file: string, source: string, rule: string): Promise<string[]> {
  const [result] = await new ESLint({ cwd: root }).lintText(source, { filePath: join(root, file) });
  return (result?.messages ?? []).filter(({ ruleId }) => ruleId === rule).map(({ message }) => message);
}

test('an import that closes a circle fails lint, of a type too, with the whole way', async () => {
  const file = 'packages/dist-autograd/src/protocol/ids.ts';
  const rule = 'backwire/no-import-circles';
  const way = `${file} → packages/dist-autograd/src/protocol/context.ts → ${file}`;
  for (const source of [
    `import type { Context } from './context.ts';\nexport type C = Context<never, never>;\n`,
    `export { Context } from './context.ts';\n`,
    `export type C = import('./context.ts').Context<never, never>;\n`,
  ])
    expect(await messages(file, source, rule)).toEqual([`This import closes a circle: ${way}.`]);
  expect(await messages(file, `export { MAX_PATH } from '../limits.ts';\n`, rule)).toEqual([]);
}, 120_000);

test('an import of a room above fails lint, by way of a file beside the rooms too', async () => {
  const file = 'packages/dist-autograd/src/protocol/order-key.ts';
  const rule = 'backwire/no-import-up';
  const above = 'packages/dist-autograd/src/engine/functions.ts';
  expect(await messages(file, `export type { Grads } from '../engine/functions.ts';\n`, rule)).toEqual([
    `This import leads up to ${above}; the order of rooms is in tools/imports/layout.ts.`,
  ]);
  const [byWay] = await messages(file, `export { getGradients } from '../api.ts';\n`, rule);
  expect(byWay).toContain('packages/dist-autograd/src/engine/');
  expect(byWay).toContain('by way of packages/dist-autograd/src/api.ts');
  const down = await messages(above, `export type { OrderKey } from '../protocol/order-key.ts';\n`, rule);
  expect(down).toEqual([]);
  const test = await messages(file.replace('.ts', '.test.ts'), `export * from '../engine/functions.ts';\n`, rule);
  expect(test).toEqual([]);
}, 120_000);
