/** @file A launcher in want: of files that it may open. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { launch, type LaunchResult } from './index.ts';

const root = resolve(import.meta.dirname, '..');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'backwire-trouble-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function program(lines: string): string {
  const path = join(folder, 'program.sh');
  writeFileSync(path, `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
  return path;
}

describe('a launcher that may open no more files', { timeout: 60_000 }, () => {
  it.each([6, 12, 25])('says so of the worker that it could not start: with %i left', async (free) => {
    const command = [process.execPath, '--import', 'tsx', '--conditions=@backwire/source'];
    const argv = [...command, join(root, 'test/out-of-files.ts'), String(free), program('exec sleep 30')];
    const limited = ['-c', 'ulimit -n 256; exec "$@"', 'sh', ...argv];
    const { stdout } = await promisify(execFile)('/bin/sh', limited);
    const { ok, exitCode, report } = JSON.parse(stdout) as LaunchResult;
    expect([ok, exitCode]).toEqual([false, 1]);
    expect(report).toMatch(/first failure: \[rank\d+\] .*, could not be started: spawn .* EMFILE/);
  });
});

it('says so of arguments that are longer than the system takes', async () => {
  const { ok, exitCode, report } = await launch({ program: program(''), native: true, args: ['x'.repeat(200_000)] });
  expect([ok, exitCode]).toEqual([false, 1]);
  expect(report).toContain('could not be started: spawn E2BIG');
});
