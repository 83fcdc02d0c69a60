/** @file The layers point down only, and lint says so when one does not. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ESLint } from 'eslint';
import { afterAll, expect, test } from 'vitest';
import { nx, published, root } from './workspace.ts';

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
  backwire: ['tensor', 'wire', 'rpc', 'rref', 'dist-autograd', 'profiler', 'launch'],
};
const projectName = (name: string): string => (name === 'backwire' ? name : `@backwire/${name}`);

test('every arrow of the project graph points down', async () => {
  const file = join(folder, 'graph.json');
  const { code, stderr } = await nx(['graph', `--file=${file}`]);
  expect(code, stderr).toBe(0);
  const { dependencies } = (JSON.parse(readFileSync(file, 'utf8')) as Graph).graph;
  for (const name of published) {
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

test('a protocol class that reads the clock fails lint', async () => {
  const rules = await lint('packages/rpc/src/protocol/session.ts', `export const now = (): number => Date.now();\n`);
  expect(rules).toContain('no-restricted-globals');
}, 120_000);
