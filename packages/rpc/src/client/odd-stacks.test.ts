/** @file Programs may make of stacks what they like: what notes where calls were made is loaded, and fails for none of it. */
import { afterEach, expect, it, vi } from 'vitest';

const { prepareStackTrace } = Error;
afterEach(() => {
  Error.prepareStackTrace = prepareStackTrace;
});

it.each<[string, (error: Error, frames: NodeJS.CallSite[]) => unknown]>([
  ['frames', (_, frames) => frames],
  ['an object', (_, frames) => ({ frames })],
  ['null', () => null],
  ['nothing', () => undefined],
])('stacks that are %s do not pass for those of an engine that forgets tail calls', async (_, prepare) => {
  vi.resetModules();
  Error.prepareStackTrace = prepare;
  const { forgetsTailCalls } = await import('../base/program-lines.ts');
  expect(forgetsTailCalls).toBe(false);
});
