/** @file How a TypeScript program is run: by tsx where it is installed, whatever Node can do itself. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { programCommand } from './program.ts';
import { describeFailure } from './report.ts';
import type { WorkerExit } from './worker-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'backwire-program-'));
const own = Object.getOwnPropertyDescriptor(process.features, 'typescript');
beforeAll(() => {
  for (const file of ['a.ts', 'a.tsx', 'a.mjs']) writeFileSync(join(folder, file), '');
});
afterEach(() => {
  if (own === undefined) Reflect.deleteProperty(process.features, 'typescript');
  else Object.defineProperty(process.features, 'typescript', own);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Makes this Node one that strips types, or not. */
function strips(value: 'strip' | false): void {
  Object.defineProperty(process.features, 'typescript', { value, configurable: true });
}

test.each(['strip', false] as const)('tsx runs TypeScript where it is installed; Node can: %s', (value) => {
  strips(value);
  for (const file of ['a.ts', 'a.tsx']) {
    const { args, stripsTypes } = programCommand(join(folder, file), ['x'], { execArgv: [] });
    expect(args).toEqual(['--import', expect.stringMatching(/^file:.*\/tsx\//), join(folder, file), 'x']);
    expect(stripsTypes).toBeUndefined();
  }
});

test.each(['bun', 'deno'])('%s runs TypeScript by itself', (name) => {
  const { versions } = process;
  Object.defineProperty(process, 'versions', { value: { ...versions, [name]: '9.0.0' }, configurable: true });
  try {
    for (const file of ['a.ts', 'a.tsx']) {
      const { args, stripsTypes } = programCommand(join(folder, file), ['x'], { execArgv: ['--flag'] });
      expect(args).toEqual(['--flag', join(folder, file), 'x']);
      expect(stripsTypes).toBeUndefined();
    }
  } finally {
    Object.defineProperty(process, 'versions', { value: versions, configurable: true });
  }
});

test('flags that already load tsx are enough, and JavaScript needs none', () => {
  strips('strip');
  const given = programCommand(join(folder, 'a.ts'), [], { execArgv: ['--import', 'tsx'] });
  expect(given.args).toEqual(['--import', 'tsx', join(folder, 'a.ts')]);
  expect(programCommand(join(folder, 'a.mjs'), [], { execArgv: [] }).args).toEqual([join(folder, 'a.mjs')]);
});

test('a program that is TypeScript itself, by a loader among its flags, has its workers run as it does', () => {
  strips(false);
  const [argv, execArgv] = [process.argv, process.execArgv];
  const run = (program: string, flags: string[]): readonly string[] => {
    process.argv = [argv[0] ?? '', program];
    process.execArgv = flags;
    return programCommand(join(folder, 'a.ts'), []).args;
  };
  try {
    expect(run('/main.ts', ['--import', './loader.mjs'])).toEqual(['--import', './loader.mjs', join(folder, 'a.ts')]);
    // A loader of JavaScript may be for something else, and TypeScript without one is run by Node.
    for (const [program, flags] of [
      ['/main.js', ['--import', './loader.mjs']],
      ['/main.ts', []],
    ] as const)
      expect(run(program, [...flags])).toEqual([
        ...flags,
        '--import',
        expect.stringMatching(/\/tsx\//),
        join(folder, 'a.ts'),
      ]);
  } finally {
    process.argv = argv;
    process.execArgv = execArgv;
  }
});

test('of the flags of this process, workers have neither those for it alone nor their values', () => {
  const { execArgv } = process;
  const dropped = ['--test', '--test-reporter', 'spec', '--test-name-pattern', '/a b/', '--test-concurrency', '2'];
  dropped.push('--debug-port', '9555', '--inspect-publish-uid', 'http', '--inspect=0', '--test-reporter=dot');
  dropped.push('--test-only', '--watch-path', 'src', '--eval', '1 + 1', '--input-type', 'module');
  const kept = ['--conditions', 'a', '--max-old-space-size=100'];
  try {
    process.execArgv = ['--no-warnings', ...dropped, ...kept];
    const { args } = programCommand(join(folder, 'a.mjs'), ['x']);
    expect(args).toEqual(['--no-warnings', ...kept, join(folder, 'a.mjs'), 'x']);
  } finally {
    process.execArgv = execArgv;
  }
});

test('what flags of this process load is found from here, wherever the workers run', () => {
  const { execArgv } = process;
  try {
    process.execArgv = ['--import', 'tsx', '--require=./package.json', '-r', 'node:fs', '--import', 'no-such-package'];
    const { args, cwd } = programCommand('a.ts', [], { cwd: folder });
    expect(cwd).toBe(folder);
    expect(args).toEqual([
      ...['--import', import.meta.resolve('tsx'), `--require=${join(process.cwd(), 'package.json')}`],
      ...['-r', 'node:fs', '--import', 'no-such-package', join(folder, 'a.ts')],
    ]);
  } finally {
    process.execArgv = execArgv;
  }
});

const exit = (...stderr: string[]): WorkerExit => ({
  rank: 0,
  localRank: 0,
  label: 'rank0',
  pid: 1,
  code: 1,
  signal: null,
  startError: undefined,
  at: 0,
  ranMs: 10,
  stderr,
});

test.each([
  ['SyntaxError [ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX]: TypeScript enum is not supported in strip-only mode', true],
  ["Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/a/model.js' imported from /a/train.ts", true],
  ['SyntaxError: Unexpected identifier', true],
  ['RangeError: the learning rate has to be positive', false],
])('a failure of stripped TypeScript names tsx where that may help: %s', (line, helps) => {
  const first = exit('    at train.ts:3:1', line);
  const text = (stripsTypes?: true): string =>
    describeFailure({
      command: { program: 'train.ts', ...(stripsTypes && { stripsTypes }) },
      first,
      exits: [first],
      restarts: 0,
    });
  expect(text(true).includes('npm install --save-dev tsx')).toBe(helps);
  expect(text()).not.toContain('tsx');
});
