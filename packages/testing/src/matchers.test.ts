import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { freePorts } from './free-port.ts';
import { eventually, noLeaks } from './leaks.ts';
import { matchers, type TensorLike } from './matchers.ts';

expect.extend(matchers);

const tensor = (values: number[], shape: number[]): TensorLike => ({
  shape,
  dataSync: () => Float32Array.from(values),
});

describe('toBeAllclose', () => {
  it('compares tensors with tensors and lists', () => {
    expect(tensor([1, 2, 3, 4], [2, 2])).toBeAllclose([
      [1, 2],
      [3, 4.00001],
    ]);
    expect(tensor([1, 2], [2])).toBeAllclose(tensor([1, 2], [2]));
    expect(tensor([1, 2], [2])).not.toBeAllclose([1, 2.1]);
    expect(tensor([Number.NaN], [1])).toBeAllclose([Number.NaN]);
    expect(tensor([Number.NaN], [1])).not.toBeAllclose([Number.NaN], { equalNan: false });
    expect(tensor([Infinity], [1])).toBeAllclose([Infinity]);
    expect(tensor([Infinity], [1])).not.toBeAllclose([1e30], { rtol: 1 });
  });

  it('names the shape or the worst value', () => {
    expect(() => expect(tensor([1, 2], [2])).toBeAllclose([[1, 2]])).toThrow('shape [2] is not [1,2]');
    expect(() =>
      expect(tensor([1, 2, 3, 9], [2, 2])).toBeAllclose([
        [1, 2.5],
        [3, 4],
      ]),
    ).toThrow('2 of 4 values differ; at [1,1] 9 is not close to 4');
    expect(() => expect([[1], [1, 2]]).toBeAllclose([1])).toThrow('ragged');
  });
});

describe('toSettleWithin', () => {
  it('takes either way of settling and no other', async () => {
    await expect(Promise.resolve(1)).toSettleWithin(1_000);
    await expect(Promise.reject(new Error('no'))).toSettleWithin(1_000);
    await expect(new Promise(() => undefined)).not.toSettleWithin(20);
  });
});

describe('noLeaks', () => {
  it('passes what cleans up and names what does not', async () => {
    expect(await noLeaks(() => 7)).toBe(7);
    const server = createServer();
    const leak = noLeaks(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)), {
      timeoutMs: 50,
    });
    await expect(leak).rejects.toThrow('1 TCPServerWrap');
    server.close();
  });
});

describe('eventually', () => {
  it('gives what it found or says what it waited for', async () => {
    let calls = 0;
    expect(await eventually('third', () => (++calls === 3 ? 'three' : undefined))).toBe('three');
    await expect(eventually('pigs fly', () => false, 30)).rejects.toThrow('pigs fly: not so within 30 ms');
  });
});

describe('freePorts', () => {
  it('gives different ports that can be listened on, and that nobody gets by chance', async () => {
    const ports = await freePorts(5);
    expect(new Set(ports).size).toBe(5);
    // Ports from there on are given to whoever connects.
    expect(Math.max(...ports)).toBeLessThan(32_768);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(ports[0], '127.0.0.1', resolve));
    server.close();
  });
});
