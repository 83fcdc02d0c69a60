/** @file Waiting for others: with a word to people when it takes long, and not for ever. */
import { within } from '@backwire/rpc/internal';
import { WAIT_NOTICE_MS } from './limits.ts';
import type { LaunchSettings } from './settings.ts';

/** Tells people once, when `work` takes its time, what this host waits for and how long it will. */
export async function afterAWhile<T>(
  { say, joinTimeoutMs }: LaunchSettings,
  what: () => string,
  work: Promise<T>,
): Promise<T> {
  const patience = `this host waits for ${joinTimeoutMs / 1000} s`;
  const timer = setTimeout(() => say(`backwire: ${what()}; ${patience}`), WAIT_NOTICE_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}

/** @throws when it takes longer. */
export function inTime(ms: number, work: Promise<void>): Promise<void> {
  return within(work, ms, () => {
    throw new Error(`no answer in ${ms / 1000} s`);
  });
}
