/** @file `npm test`: format, lint, types, unused code and every test of every package, then the counts. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTotalTestSuites: number;
  readonly testResults: readonly {
    readonly status: string;
    readonly name: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages: readonly string[];
    }[];
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

/** The first lines of a text, so that the end of the output says what failed even where only that is kept. */
const head = (text: string): string => text.split('\n').slice(0, 3).join('\n    ').slice(0, 600);

/** Says which tests failed, which files have failed as a whole, and what went wrong outside of any test; answers how many of the last two. */
function failures(folder: string, report: Report): number {
  let others = 0;
  for (const { status, name, message, assertionResults } of report.testResults) {
    // Where the process of a file died, its tests are neither passed nor failed.
    const unended = assertionResults.filter((test) => test.status === 'pending').length;
    if (unended > 0) console.log(`  ${relative(root, name)}: ${unended} tests never ended`);
    if (status !== 'failed') continue;
    const tests = assertionResults.filter((test) => test.status === 'failed');
    for (const test of tests)
      console.log(`  ${relative(root, name)}: ${test.fullName}\n    ${head(test.failureMessages[0] ?? '')}`);
    // A file that could not be loaded, or whose hook failed, holds no failed test, so it counts as one failure of its own.
    if (tests.length === 0) {
      others += 1;
      console.log(`  ${relative(root, name)}\n    ${head(message)}`);
    }
  }
  const strays = resolve(folder, 'strays.json');
  if (!existsSync(strays)) return others;
  for (const text of JSON.parse(readFileSync(strays, 'utf8')) as string[]) {
    others += 1;
    console.log(`  outside of any test\n    ${head(text)}`);
  }
  return others;
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
  passed += report.numPassedTests;
  skipped += report.numPendingTests;
  console.log(`${folder.slice(root.length + 1, -'/test-output'.length).padEnd(24)} ${report.numPassedTests} passed`);
  failed += report.numFailedTests + failures(folder, report);
}
for (const [name, ok] of steps) {
  if (ok) continue;
  console.log(`${name}: failed`);
  if (name !== 'tests' || failed === 0) failed += 1;
}
console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
