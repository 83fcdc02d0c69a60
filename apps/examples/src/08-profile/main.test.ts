/** @file The example as two real processes. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { launched } from '../shared/launched.ts';

interface TraceEvent {
  readonly ph: string;
  readonly name: string;
  readonly pid: number;
}

it('prints a table of both workers and writes a trace with arrows between them', { timeout: 60_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'backwire-profile-'));
  try {
    const out = join(folder, 'trace.json');
    const { exitCode, output, report } = await launched(join(import.meta.dirname, 'main.ts'), {
      processes: 2,
      args: ['--out', out],
    });
    expect(report).toBeUndefined();
    expect(exitCode).toBe(0);
    for (const label of ['forward', 'backward', 'step'])
      expect(output).toMatch(new RegExp(`\\[rank0\\]: ${label} +0 `));
    const { traceEvents } = JSON.parse(readFileSync(out, 'utf8')) as { traceEvents: TraceEvent[] };
    expect(traceEvents.some(({ ph, name, pid }) => ph === 'X' && pid === 1 && name === 'aten::mm')).toBe(true);
    const ends = (ph: string, pid: number): number =>
      traceEvents.filter((event) => event.ph === ph && event.pid === pid).length;
    // Forward, the backward pass, and the step of the optimizer at least.
    expect(ends('s', 0)).toBeGreaterThanOrEqual(3);
    expect(ends('f', 1)).toBe(ends('s', 0));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
