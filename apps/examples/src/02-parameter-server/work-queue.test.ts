/** @file The queue of an elastic run: nothing is lost when a worker goes, and nobody waits for ever. */
import { describe, expect, it } from 'vitest';
import { WorkQueue } from './work-queue.ts';

describe('WorkQueue', () => {
  it('hands items out in order and resolves the wave when all are done', async () => {
    const queue = new WorkQueue<number>();
    let over = false;
    const wave = queue.wave([1, 2, 3]).then(() => (over = true));
    expect(await Promise.all([queue.take('a'), queue.take('b')])).toEqual([1, 2]);
    expect(await queue.take('a')).toBe(3);
    const last = queue.take('a');
    expect(over).toBe(false);
    const idle = queue.take('b');
    await wave;
    queue.close();
    expect(await Promise.all([last, idle])).toEqual([undefined, undefined]);
    expect(await queue.take('c')).toBeUndefined();
  });

  it('gives what a worker had when it went to the next', async () => {
    const queue = new WorkQueue<number>();
    const wave = queue.wave([1, 2]);
    expect(await queue.take('a')).toBe(1);
    expect(await queue.take('b')).toBe(2);
    const waiting = queue.take('b');
    queue.leave('a');
    queue.leave('a');
    expect(await waiting).toBe(1);
    void queue.take('b');
    await wave;
  });

  it('answers a worker that goes while it waits', async () => {
    const queue = new WorkQueue<number>();
    const waiting = queue.take('a');
    queue.leave('a');
    expect(await waiting).toBeUndefined();
    const wave = queue.wave([7]);
    expect(await queue.take('b')).toBe(7);
    void queue.take('b');
    await wave;
    await queue.wave([]);
  });
});
