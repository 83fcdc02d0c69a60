/** @file The benchmark as its own processes, twice, and its report. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parseFlags } from '../shared/flags.ts';
import { type Flags, flags, settingOf, variableOf } from './options.ts';
import { interpolated, METRICS, PERCENTILES, resultOf } from './report.ts';

const folder = mkdtempSync(join(tmpdir(), 'backwire-rl-benchmark-test-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const options = (...argv: string[]): Flags => parseFlags(argv, flags) as Flags;

function start(argv: readonly string[]): Promise<{ code: number | null; output: string }> {
  const main = join(import.meta.dirname, 'main.ts');
  const child = spawn(process.execPath, ['--import', 'tsx', '--conditions=@backwire/source', main, ...argv]);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((done) => child.on('close', (code) => done({ code, output })));
}

describe('flags', () => {
  it('have the values of the original', () => {
    expect(settingOf(options())).toEqual({
      worldSize: 10,
      batch: true,
      stateSize: [10, 20, 10],
      nlayers: 5,
      outFeatures: 10,
      episodes: 10,
      steps: 100,
    });
    expect(settingOf(options('--world_size=4', '--batch', 'No', '--state-size', '3-2'))).toMatchObject({
      worldSize: 4,
      batch: false,
      stateSize: [3, 2],
    });
  });

  it('may be a list once', () => {
    expect(variableOf(options())).toBeUndefined();
    expect(variableOf(options('--nlayers', '5,10'))).toEqual({ name: 'nlayers', values: ['5', '10'] });
    expect(() => variableOf(options('--nlayers', '5,10', '--batch', 'true,false'))).toThrow(
      'Only 1 x axis graph variable allowed',
    );
  });

  it.each([
    [['--world-size', '2'], '--world-size has to be a whole number from 3 to 256'],
    [['--batch', 'maybe'], "--batch has to be true or false, got 'maybe'"],
    [['--state-size', '10,x'], "--state-size has to be a whole number from 1 to 65536, got '10,x'"],
  ])('refuse %j', (argv, message) => {
    expect(() => settingOf(options(...argv))).toThrow(message);
  });
});

it('interpolates percentiles as numpy does', () => {
  // numpy.percentile([1, 2, 4, 8], [50, 75, 90, 95])
  expect([50, 75, 90, 95].map((percent) => interpolated([8, 1, 4, 2], percent))).toEqual([
    3,
    5,
    expect.closeTo(6.8, 9),
    expect.closeTo(7.4, 9),
  ]);
  const times = [0.0000014, 0.0000014];
  const measured = {
    'agent latency (seconds)': times,
    'agent throughput': [1],
    'observer latency (seconds)': times,
    'observer throughput': [1],
  };
  expect(resultOf(measured)['agent latency (seconds)'].p50).toBe(0.000001);
});

it('runs once for each value of the list and writes the report of the original', { timeout: 120_000 }, async () => {
  const file = join(folder, 'report.json');
  const small = ['--world-size', '4', '--state-size', '4-5', '--episodes', '2', '--steps', '20'];
  const { code, output } = await start([...small, '--batch', 'true,false', '--output-file-path', file]);
  expect(output).toContain('for batch size 2');
  expect(code, output).toBe(0);
  const report = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown> & {
    benchmark_results: (Record<string, Record<string, number>> & { batch: boolean })[];
  };
  expect(report).toMatchObject({ world_size: '4', nlayers: '5', state_size: '4-5', x_axis_name: 'batch' });
  expect(report).not.toHaveProperty('batch');
  expect(report.benchmark_results.map(({ batch }) => batch)).toEqual([true, false]);
  for (const result of report.benchmark_results) {
    for (const metric of METRICS) {
      const values = PERCENTILES.map((name) => result[metric]?.[name] ?? Number.NaN);
      expect(values).toEqual([...values].sort((a, b) => a - b));
      expect(values[0]).toBeGreaterThan(0);
    }
  }
  expect(readFileSync(join(folder, 'report.svg'), 'utf8').match(/<circle/g)).toHaveLength(4 * 4 * 2);
});

it('says in one line what is wrong', { timeout: 60_000 }, async () => {
  const { code, output } = await start(['--nlayers', '1,2', '--batch', 'true,false']);
  expect(code).toBe(2);
  expect(output).toBe('rl-benchmark: Only 1 x axis graph variable allowed, got --batch and --nlayers; see --help\n');
});
