/** @file Waiting for a server: as long as it answers others, or this process stood still, nothing is lost. */
import { expect, test } from 'vitest';
import { Patience } from './patience.ts';

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const aborted = (signal: AbortSignal): Promise<string> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve((signal.reason as Error).message)));

test('a server that answers nothing is given up when the time is over', async () => {
  const patience = new Patience(100);
  patience.heard();
  await sleep(150);
  const began = performance.now();
  expect(await patience.limit([], aborted)).toBe('not done in 100 ms');
  expect(performance.now() - began).toBeGreaterThan(95);
});

test('a request behind others that are answered has until nothing is answered for so long', async () => {
  const patience = new Patience(200);
  const began = performance.now();
  const given = patience.limit([], aborted);
  let heardAt = 0;
  for (let i = 0; i < 10; i++) {
    await sleep(50);
    heardAt = performance.now();
    patience.heard();
  }
  expect(await given).toBe('not done in 200 ms');
  expect(performance.now() - heardAt).toBeGreaterThan(195);
  expect(performance.now() - began).toBeGreaterThan(695);
});

test('one that is never answered while others are is given up all the same', async () => {
  const patience = new Patience(20);
  const began = performance.now();
  const hearing = setInterval(() => patience.heard(), 5);
  expect(await patience.limit([], aborted)).toBe('not done in 20 ms');
  clearInterval(hearing);
  expect(performance.now() - began).toBeGreaterThan(12 * 20 - 5);
});

test('a process that stood still reads first what came meanwhile', async () => {
  const patience = new Patience(100);
  // What came takes some turns of the loop to read.
  const answered = new Promise<string>((resolve) => {
    setImmediate(() => {
      const until = performance.now() + 600;
      while (performance.now() < until);
      setTimeout(() => resolve('answered'), 50);
    });
  });
  expect(await patience.limit([], (signal) => Promise.race([answered, aborted(signal)]))).toBe('answered');
});
