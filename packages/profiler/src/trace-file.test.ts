/** @file Traces as text in pieces. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { mergeChromeTraces, writeChromeTrace, type ChromeTrace } from './index.ts';
import { MIN_PIECE_CHARS } from './limits.ts';
import { traceText } from './trace-file.ts';

const bar = (name: string, ts: number): object => ({ ph: 'X', name, cat: 'op', ts, dur: 1, pid: 0, args: {}, tid: 0 });

describe('the text of a trace', () => {
  it.each([
    { traceEvents: [] },
    { traceEvents: [bar('a', 1)], displayTimeUnit: 'ms' },
    { traceEvents: [bar('"\n\u2028', 1), bar('b', 2)], otherData: undefined },
    mergeChromeTraces([{ traceEvents: [bar('a', 1), bar('b', 2)] }]),
  ] as ChromeTrace[])('is that of JSON.stringify: %j', (trace) => {
    expect([...traceText(trace)].join('')).toBe(JSON.stringify(trace));
  });

  it('comes in pieces that are never much longer than one event, however long the whole is', () => {
    const traceEvents = Array.from({ length: 3_000 }, (_, i) => bar('x'.repeat(4_000), i));
    const pieces = [...traceText({ traceEvents })];
    expect(pieces.length).toBeGreaterThan(8);
    for (const piece of pieces) expect(piece.length).toBeLessThan(MIN_PIECE_CHARS + 5_000);
    expect(JSON.parse(pieces.join(''))).toEqual({ traceEvents });
  });

  it('is what a file gets', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'backwire-trace-'));
    try {
      const path = join(folder, 'trace.json');
      const trace = mergeChromeTraces([{ traceEvents: Array.from({ length: 40_000 }, (_, i) => bar('é', i)) }]);
      await writeChromeTrace(pathToFileURL(path), { traceEvents: [] });
      expect(readFileSync(path, 'utf8')).toBe('{"traceEvents":[]}');
      await writeChromeTrace(path, trace);
      expect(readFileSync(path, 'utf8')).toBe(JSON.stringify(trace));
      await expect(writeChromeTrace(join(path, 'x'), trace)).rejects.toMatchObject({ code: 'ENOTDIR' });
      // What is no trace leaves the file as it is.
      for (const [given, what] of [
        [{ toChromeTrace: () => trace }, 'a profile: give its toChromeTrace()'],
        [JSON.stringify(trace), "'{"],
        [undefined, 'undefined'],
      ] as const)
        await expect(writeChromeTrace(path, given as never)).rejects.toThrow(
          `as toChromeTrace() makes it; got ${what}`,
        );
      expect(readFileSync(path, 'utf8')).toBe(JSON.stringify(trace));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
