/** @file `npm test`: format, lint, types, unused code and every test of every package, then the counts. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTotalTestSuites: number;
  readonly testResults: readonly {
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly unknown[];
  }[];
}

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const env = { ...process.env, NX_DAEMON: 'false', NX_TUI: 'false' };

/** Runs one step with its output on the terminal; answers whether it succeeded. */
function step(title: string, command: string, args: readonly string[]): boolean {
  console.log(`\n== ${title}`);
  const { status, error } = spawnSync(command, args, { cwd: root, env, stdio: 'inherit' });
  if (error !== undefined) console.error(error.message);
  return status === 0;
}

/** The folder each package and app, and the tools, write their test report to. */
function outputs(): string[] {
  const groups = ['packages', 'apps'].flatMap((group) =>
    readdirSync(join(root, group)).map((name) => join(group, name)),
  );
  return [...groups, 'tools'].map((folder) => join(root, folder, 'test-output'));
}

for (const folder of outputs()) rmSync(folder, { recursive: true, force: true });

const bin = (name: string): string => resolve(root, 'node_modules/.bin', name);
const steps: [string, boolean][] = [
  ['format', step('format', bin('prettier'), ['--check', '--log-level', 'warn', '.'])],
  [
    'lint and types',
    step('lint and types', bin('nx'), ['run-many', '-t', 'lint', 'typecheck', '--output-style=static']),
  ],
  ['unused code', step('unused exports, files and dependencies', bin('knip'), [])],
  ['tests', step('tests', bin('nx'), ['run-many', '-t', 'test', '--parallel=1', '--output-style=static'])],
];

let passed = 0;
let failed = 0;
let skipped = 0;
console.log('\n== counts');
for (const folder of outputs()) {
  const file = resolve(folder, 'results.json');
  if (!existsSync(file)) continue;
  const report = JSON.parse(readFileSync(file, 'utf8')) as Report;
  // A file that could not even be loaded holds no failed assertion, so it counts as one failure of its own.
  const broken = report.testResults.filter((r) => r.status === 'failed' && r.assertionResults.length === 0).length;
  passed += report.numPassedTests;
  failed += report.numFailedTests + broken;
  skipped += report.numPendingTests;
  console.log(`${folder.slice(root.length + 1, -'/test-output'.length).padEnd(24)} ${report.numPassedTests} passed`);
}
for (const [name, ok] of steps) {
  if (ok) continue;
  console.log(`${name}: failed`);
  if (name !== 'tests' || failed === 0) failed += 1;
}
console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
