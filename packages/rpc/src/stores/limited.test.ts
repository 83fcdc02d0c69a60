/** @file Limits that hold while nothing but a promise waits for them. */
import { execFile } from 'node:child_process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { limited } from './limited.ts';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
/** Until the signal that only this knows aborts. */
const aborted = (signal: AbortSignal): Promise<unknown> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(signal.reason)));

it('a limit is kept although the collector runs meanwhile', async () => {
  const over = limited(100, [], aborted);
  const cancelled = limited(0, [AbortSignal.timeout(100)], aborted);
  for (let i = 0; i < 3; i++) {
    await sleep(10);
    gc();
  }
  expect(await over).toMatchObject({ name: 'TimeoutError', message: 'not done in 100 ms' });
  expect(await cancelled).toMatchObject({ name: 'TimeoutError' });
});

it('one that aborted before begins aborted, and nothing is left on signals that did not', async () => {
  const live = new AbortController();
  const reason = new Error('no more');
  expect(await limited(0, [live.signal, AbortSignal.abort(reason)], (signal) => Promise.resolve(signal.reason))).toBe(
    reason,
  );
  const seen: AbortSignal[] = [];
  await limited(0, [live.signal, undefined], (signal) => Promise.resolve(seen.push(signal)));
  live.abort();
  expect(seen[0]?.aborted).toBe(false);
});

it('what has arrived while the loop stood still is in time', async () => {
  const answered = new Promise<string>((resolve) => {
    const child = execFile(process.execPath, ['-e', 'setTimeout(() => console.log("here"), 100)']);
    child.stdout?.on('data', (text: string) => resolve(text.trim()));
  });
  const first = await limited(1_000, [], (signal) => {
    const until = Date.now() + 2_000;
    setImmediate(() => {
      while (Date.now() < until);
    });
    return Promise.race([answered, aborted(signal).then(() => 'late')]);
  });
  expect(first).toBe('here');
});
