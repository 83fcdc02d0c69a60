/** @file The parts the examples share: data files, random numbers, text tables and charts. */
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { chartSvg, ticks } from './chart.ts';
import { readIdx } from './idx.ts';
import { batchOf, defaultDataFolder, PIXELS, readDigits, shard } from './mnist.ts';
import { progress } from './progress.ts';
import { generator, permutation } from './random.ts';
import { bytesText, grouped, percentile, textTable, timeText } from './table.ts';
import { atWork, type Span } from './timeline.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'backwire-examples-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('readIdx', () => {
  const write = (header: readonly number[], length: number): string => {
    const file = join(folder, 'data');
    const bytes = Buffer.alloc(4 * header.length + length, 7);
    header.forEach((value, i) => bytes.writeUInt32BE(value, 4 * i));
    writeFileSync(file, bytes);
    return file;
  };

  it('reads dimensions and bytes', () => {
    const { dims, bytes } = readIdx(write([0x802, 2, 3], 6), [2, 3]);
    expect(dims).toEqual([2, 3]);
    expect([...bytes]).toEqual([7, 7, 7, 7, 7, 7]);
  });

  it.each([
    ['a wrong magic number', [0x803, 2, 3], 6, 'has the magic number 0x00000803, not 0x00000802'],
    ['a wrong shape', [0x802, 2, 4], 8, 'has the shape 2 x 4, not 2 x 3'],
    ['a file cut off', [0x802, 2, 3], 5, 'is truncated: 18 bytes are expected, it has 17'],
    ['a header cut off', [0x802], 0, 'is truncated: its header needs 12 bytes, it has 4'],
    ['a file too long', [0x802, 2, 3], 9, '3 too many'],
  ])('names the file for %s', (_, header, length, message) => {
    const file = write(header, length);
    expect(() => readIdx(file, [2, 3])).toThrow(message);
    expect(() => readIdx(file, [2, 3])).toThrow(file);
  });

  it('says that a file does not exist', () => {
    expect(() => readIdx(join(folder, 'none'), [1])).toThrow(`the data file '${join(folder, 'none')}' does not exist`);
  });
});

describe('the digits', () => {
  it('are all there: 60,000 and 10,000, every class', () => {
    for (const [set, count] of [
      ['train', 60_000],
      ['test', 10_000],
    ] as const) {
      const { images, labels } = readDigits(set);
      expect(images.length).toBe(count * PIXELS);
      expect(labels.length).toBe(count);
      expect(new Set(labels)).toEqual(new Set([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
    }
  });

  it('are shared out without loss or overlap', () => {
    const { count, images, labels } = readDigits('test');
    const parts = [0, 1, 2].map((index) => shard({ count, images, labels }, index, 3));
    expect(parts.map((part) => part.count)).toEqual([3333, 3333, 3334]);
    expect(parts[1]?.labels[5]).toBe(labels[3333 + 5]);
    const [start, end] = [6666 * PIXELS, 6667 * PIXELS];
    expect([...(parts[2]?.images.subarray(0, PIXELS) ?? [])]).toEqual([...images.subarray(start, end)]);
    expect(shard({ count, images, labels }, 1, 2, 5).count).toBe(3);
  });

  it('become batches of mean 0 and deviation 1', () => {
    const digits = readDigits('train');
    const { x, y, count } = batchOf(
      digits,
      Uint32Array.from({ length: 2_000 }, (_, i) => i * 30),
    );
    const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
    const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
    expect(count).toBe(2_000);
    expect(mean).toBeCloseTo(0, 1);
    expect(Math.sqrt(variance)).toBeCloseTo(1, 1);
    expect(y[1]).toBe(BigInt(digits.labels[30] ?? -1));
  });

  it('become one batch after the other in the same memory', () => {
    const digits = readDigits('test');
    const room = new Float32Array(3 * PIXELS);
    for (const rows of [[5, 900, 17], [42]]) {
      const { x, y } = batchOf(digits, Uint32Array.from(rows), room);
      const fresh = batchOf(digits, Uint32Array.from(rows));
      expect(x.buffer).toBe(room.buffer);
      expect([...x]).toEqual([...fresh.x]);
      expect(y).toEqual(fresh.y);
    }
  });

  it('are not read from a truncated file', () => {
    const source = defaultDataFolder();
    for (const file of ['t10k-images-idx3-ubyte', 't10k-labels-idx1-ubyte']) {
      writeFileSync(join(folder, file), readFileSync(join(source, file)));
    }
    truncateSync(join(folder, 't10k-labels-idx1-ubyte'), 10_007);
    expect(() => readDigits('test', folder)).toThrow(
      /t10k-labels-idx1-ubyte' is truncated: 10008 bytes are expected, it has 10007/,
    );
  });

  it('are not read from a file with a label that is no digit', () => {
    const source = defaultDataFolder();
    for (const file of ['t10k-images-idx3-ubyte', 't10k-labels-idx1-ubyte']) {
      const bytes = readFileSync(join(source, file));
      if (file.includes('labels')) bytes[8 + 123] = 200;
      writeFileSync(join(folder, file), bytes);
    }
    expect(() => readDigits('test', folder)).toThrow(
      `the data file '${join(folder, 't10k-labels-idx1-ubyte')}' calls image 123 a 200: labels are 0 to 9`,
    );
  });
});

describe('random numbers', () => {
  it('are the same for the same seeds only', () => {
    const take = (...seeds: number[]) => Array.from({ length: 8 }, generator(...seeds));
    expect(take(1, 2)).toEqual(take(1, 2));
    expect(take(1, 2)).not.toEqual(take(2, 1));
    expect(take(0).every((value) => value >= 0 && value < 1)).toBe(true);
  });

  it('are spread evenly', () => {
    const random = generator(3);
    const mean = Array.from({ length: 20_000 }, random).reduce((sum, value) => sum + value, 0) / 20_000;
    expect(mean).toBeCloseTo(0.5, 1);
  });

  it('permute', () => {
    const order = permutation(1_000, generator(5));
    expect([...order].sort((a, b) => a - b)).toEqual(Array.from({ length: 1_000 }, (_, i) => i));
    expect([...order.subarray(0, 5)]).not.toEqual([0, 1, 2, 3, 4]);
  });
});

describe('text', () => {
  it('lays tables out', () => {
    expect(
      textTable(
        ['a', 'value'],
        [
          ['long name', '1'],
          ['b', '22'],
        ],
      ),
    ).toBe(['a          value', '────────────────', 'long name      1', 'b             22'].join('\n'));
  });

  it('writes numbers for people', () => {
    expect([
      grouped(1_234_567.4),
      grouped(12),
      bytesText(1_536),
      bytesText(12),
      timeText(1.5),
      timeText(2_500),
    ]).toEqual(['1,234,567', '12', '1.5 KiB', '12 B', '1.50 ms', '2.50 s']);
  });

  it('finds percentiles by nearest rank', () => {
    const values = Array.from({ length: 100 }, (_, i) => 100 - i);
    expect([percentile(values, 0.5), percentile(values, 0.99), percentile([3], 0.99), percentile([], 0.5)]).toEqual([
      50,
      99,
      3,
      NaN,
    ]);
  });
});

describe('charts', () => {
  it('have round ticks that cover the range', () => {
    expect(ticks(0, 2.3)).toEqual([0, 0.5, 1, 1.5, 2, 2.5]);
    expect(ticks(0.93, 1)).toEqual([0.92, 0.94, 0.96, 0.98, 1]);
    expect(ticks(3, 3)).toEqual([3]);
  });

  it('draw every series with axes, labels and a legend', () => {
    const svg = chartSvg([
      {
        title: 'A & B',
        xLabel: 'epoch',
        yLabel: 'loss',
        series: [
          {
            name: 'one',
            points: [
              [0, 2],
              [1, 1],
            ],
          },
          {
            name: 'two',
            points: [
              [0, NaN],
              [1, 3],
            ],
            marks: true,
          },
        ],
      },
    ]);
    expect(svg).toContain('A &amp; B');
    expect(svg.match(/<path d="M[\d.]+ [\d.]+L/g)).toHaveLength(1);
    expect(svg.match(/<circle/g)).toHaveLength(1);
    for (const text of ['epoch', 'loss', 'one', 'two']) expect(svg).toContain(`>${text}</text>`);
    expect(svg).not.toContain('NaN');
  });
});

describe('progress', () => {
  const sink = (isTTY: boolean) => {
    const stream = Object.assign(new PassThrough(), { isTTY, columns: 100, rows: 20 });
    let text = '';
    stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
    return { stream: stream as unknown as NodeJS.WriteStream, text: () => text };
  };

  it('is bars with lines among them on a terminal, and nothing after the stop', async () => {
    const { stream, text } = sink(true);
    const signals = process.listenerCount('SIGTERM');
    const bars = progress(['trainer0', 'trainer1'], stream);
    expect(process.listenerCount('SIGTERM')).toBe(signals);
    bars.update('trainer0', { done: 5, total: 10, value: 0.25 });
    bars.say('a line');
    bars.stop();
    await new Promise((done) => setTimeout(done, 50));
    const shown = text();
    expect(shown).toContain('a line');
    expect(shown.slice(shown.indexOf('a line'))).toMatch(/trainer0 █+░+ 50% \| 5\/10 batches \| loss 0\.2500/);
    bars.stop();
    await new Promise((done) => setTimeout(done, 200));
    expect(text()).toBe(shown);
  });

  it('is a line per tenth of the way elsewhere', () => {
    const { stream, text } = sink(false);
    const lines = progress(['t'], stream);
    for (let done = 1; done <= 40; done++) lines.update('t', { done, total: 40, value: 1 / done });
    lines.say('end');
    lines.stop();
    expect(text().split('\n')).toHaveLength(12);
    expect(text()).toContain('t: 20 of 40 batches, loss 0.0500\n');
  });
});

describe('how many rows of a timeline are at work at once', () => {
  const span = (start: number, end: number): Span => ({ label: '', kind: 'forward', group: 0, start, end });

  it('is one where each begins after the one before, and less where there are gaps', () => {
    expect(atWork([[span(0, 2)], [span(2, 6)]])).toBe(1);
    expect(atWork([[span(0, 1)], [span(3, 4)]])).toBe(0.5);
  });

  it('is more where rows overlap; spans of one row count once where they overlap', () => {
    expect(atWork([[span(0, 4)], [span(0, 4)], [span(2, 4)]])).toBe(2.5);
    expect(atWork([[span(1, 4), span(0, 3), span(1, 2)], []])).toBe(1);
  });

  it('is none without spans', () => {
    expect(atWork([])).toBe(0);
    expect(atWork([[], []])).toBe(0);
  });
});
