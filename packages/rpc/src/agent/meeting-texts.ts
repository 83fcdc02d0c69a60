/** @file What is said of a meeting that waits: who is missing, and what they have not done. */
import { RpcError } from '../base/errors.ts';
import { workersText } from '../server/silence.ts';

/** Somebody who is waited for, and the meeting at which they wait themselves. */
export interface Missing {
  readonly name: string;
  readonly waitsAt: string | undefined;
}

/** How a call ends whose other side is gone, or on its way out. */
export const GONE: ReadonlySet<string> = new Set(['peer-died', 'not-found', 'unavailable', 'draining']);

/** What programs call to come to a meeting. */
export function functionOf(meeting: string): string {
  const [kind = '', , line] = meeting.split('/');
  const name = FUNCTIONS[kind] ?? `the collective '${meeting}'`;
  const [number = ''] = line?.split(/[.-]/) ?? [];
  if (number === '') return name;
  return number.startsWith('g')
    ? `${name} of process group ${number.slice(1)}`
    : `${name} of the group of replica ${number}`;
}
const FUNCTIONS: Readonly<Record<string, string>> = {
  barrier: 'barrier()',
  gather: 'allGather()',
  reduce: 'allReduce()',
  broadcast: 'broadcast()',
  shutdown: 'shutdown()',
};

/** What those who are not there have not done. */
export function stillTo(meeting: string, one: boolean): string {
  const whose = one ? 'its' : 'their';
  const has = one ? 'has' : 'have';
  if (meeting === 'shutdown/quiet') return `whose calls are not over: ${whose} own output says which`;
  if (meeting === 'shutdown/done') return `which ${has} not let go of ${whose} references`;
  return `which ${has} not called ${functionOf(meeting)}`;
}

/** A peer's answer, checked. */
export function checkMissing(found: unknown): Missing[] {
  if (!Array.isArray(found)) return [];
  return (found as unknown[]).flatMap((entry) => {
    const { name, waitsAt } = (entry ?? {}) as Partial<Missing>;
    if (typeof name !== 'string') return [];
    return [{ name, waitsAt: typeof waitsAt === 'string' ? waitsAt : undefined }];
  });
}

/** That the time is up of one who waits; in PyTorch's words where it has some. */
export function late(meeting: string, missing: readonly string[], timeoutMs: number): RpcError {
  const absent = missing.map((name) => `'${name}'`).join(', ');
  const seconds = (timeoutMs / 1000).toFixed(2);
  const text = /^(reduce|broadcast)\b/.test(meeting)
    ? `${workersText(missing)} did not come to ${functionOf(meeting)} within ${seconds} s`
    : `Followers [${absent}] timed out in _all_gather after ${seconds} seconds`;
  return new RpcError('deadline-exceeded', text, { executed: 'yes' });
}
