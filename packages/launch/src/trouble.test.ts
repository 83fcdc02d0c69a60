/** @file A launcher in want: of files that it may open, of a disk that is fast, of a clock that nobody sets. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
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

describe('the logs of a group that has ended', { timeout: 60_000 }, () => {
  it('are complete', async () => {
    const [processes, bytes] = [8, 5_000_000];
    for (const runId of ['a', 'b', 'c']) {
      const { ok } = await launch({
        program: program(`head -c ${bytes} /dev/zero; echo last >&2`),
        native: true,
        processes,
        redirects: () => ({ stdout: true, stderr: true }),
        logDir: folder,
        runId,
      });
      expect(ok).toBe(true);
      for (let rank = 0; rank < processes; rank++) {
        const logs = join(folder, runId, 'attempt_0', String(rank));
        expect([rank, readFileSync(join(logs, 'stdout.log')).byteLength]).toEqual([rank, bytes]);
        expect([rank, readFileSync(join(logs, 'stderr.log'), 'utf8')]).toEqual([rank, 'last\n']);
      }
    }
  });
});

it('tells who ended first, and how long each ran, by a clock that nobody sets', async () => {
  let at = Date.now();
  vi.spyOn(Date, 'now').mockImplementation(() => (at -= 3_600_000));
  try {
    const late = program('if [ "$RANK" = 0 ]; then sleep 0.5; fi');
    const { ok, exits } = await launch({ program: late, native: true, processes: 2 });
    expect([ok, exits.map(({ rank }) => rank)]).toEqual([true, [1, 0]]);
    for (const { ranMs } of exits) expect(ranMs).toBeGreaterThanOrEqual(0);
    expect(exits[1]?.ranMs).toBeGreaterThanOrEqual(490);
  } finally {
    vi.restoreAllMocks();
  }
});
