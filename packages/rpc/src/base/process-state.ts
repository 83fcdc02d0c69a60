/** @file Whether a process of this machine is there, and what tells two machines apart. */
import { readFileSync, readlinkSync } from 'node:fs';
import { attempt } from './attempt.ts';

/** Whether a process with this number certainly does not run any more. One that nobody has waited for yet counts as gone. */
export function isProcessGone(pid: number): boolean {
  if (pid <= 0 || pid === process.pid) return false;
  if (process.platform === 'linux') {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
      // 'pid (name) state …', and a name may contain brackets.
      return /^[ZXx]/.test(stat.slice(stat.lastIndexOf(')') + 2));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT' || code === 'ESRCH') return isProcMounted();
      return false;
    }
  }
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/** Numbers of processes mean the same to two processes only where this is equal. */
export function processSpace(): string {
  return attempt(() => readlinkSync('/proc/self/ns/pid')) ?? '';
}

function isProcMounted(): boolean {
  return attempt(() => readFileSync('/proc/self/stat')) !== undefined;
}
