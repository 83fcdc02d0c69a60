/** @file Packages that a program may do without: bundlers take them in where they are installed, and go on where they are not. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import ts from 'typescript';
import { afterAll, expect, test } from 'vitest';
import { published, root, run } from './workspace.ts';

interface Manifest {
  readonly peerDependenciesMeta?: Readonly<Record<string, { optional?: boolean }>>;
}

const folder = mkdtempSync(join(tmpdir(), 'backwire-optional-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Whether a failure of the expression is caught where it stands: webpack knows by this alone that a package may be missing. */
function tried(node: ts.Node): boolean {
  for (let at = node; !ts.isFunctionLike(at) && !ts.isSourceFile(at); at = at.parent) {
    if (ts.isTryStatement(at.parent) && at.parent.tryBlock === at) return true;
  }
  return false;
}

/** The packages that a file imports, or requires, where a failure is not caught. */
function untried(file: string): string[] {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ES2022, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword && !tried(node)) {
      const [specifier] = node.arguments;
      if (specifier !== undefined && ts.isStringLiteral(specifier)) found.push(specifier.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

test.each(published)('%s: an optional package is imported in a `try`', (name) => {
  const at = join(root, 'packages', name);
  const { peerDependenciesMeta = {} } = JSON.parse(readFileSync(join(at, 'package.json'), 'utf8')) as Manifest;
  const optional = Object.keys(peerDependenciesMeta).filter((peer) => peerDependenciesMeta[peer]?.optional === true);
  const files = readdirSync(join(at, 'src'), { recursive: true, encoding: 'utf8' });
  const found = files
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .flatMap((file) => untried(join(at, 'src', file)).map((specifier) => `${file}: ${specifier}`))
    .filter((line) => optional.some((peer) => line.endsWith(`: ${peer}`)));
  expect(found).toEqual([]);
});

const PROGRAM = `
import { createAgent, rpcInfo } from 'backwire';
import { openTelemetry } from '@backwire/profiler';
const outcome = (promise) => promise.then(() => 'there', (error) => rpcInfo(error)?.message ?? error.message);
console.log(JSON.stringify([
  await outcome(openTelemetry()),
  await outcome(createAgent({ name: 'a', rank: 0, worldSize: 1, store: 'redis://127.0.0.1:1', initTimeoutMs: 300 })),
  await outcome(createAgent({ name: 'a', rank: 0, worldSize: 1, store: 'memory://m', transports: ['ws'] }).then((agent) => agent.shutdown())),
]));
`;

/** Runs the program as one file, where no package is found. */
async function bundled(external: string[] = []): Promise<unknown> {
  const outfile = join(mkdtempSync(join(folder, 'bundle-')), 'program.mjs');
  await build({
    stdin: { contents: PROGRAM, resolveDir: import.meta.dirname },
    outfile,
    bundle: true,
    external,
    platform: 'node',
    format: 'esm',
    conditions: ['@backwire/source'],
    // TensorFlow.js requires parts of Node, which esbuild's modules can do only so.
    banner: { js: "import { createRequire as of } from 'node:module'; const require = of(import.meta.url);" },
    logLevel: 'error',
  });
  const { stdout, stderr } = await run(process.execPath, [outfile], { timeoutMs: 30_000 });
  expect(stderr).toBe('');
  return JSON.parse(stdout);
}

test('a bundle has them inside', async () => {
  expect(await bundled()).toEqual(['there', expect.stringMatching(/^no Redis at .* in 300 ms/), 'there']);
});

test('a bundle without them says which package is wanted, and for what', async () => {
  expect(await bundled(['@opentelemetry/api', 'redis', 'ws'])).toEqual([
    "openTelemetry() needs the package '@opentelemetry/api': npm install @opentelemetry/api [failed-precondition]",
    "a store in Redis needs the package 'redis': npm install redis [failed-precondition]",
    "the transport 'ws' needs the package 'ws': npm install ws [failed-precondition]",
  ]);
});
