/** @file Whether whoever started this program through npm is still there: npm passes no signal on, so its end is all that is seen of one. */
import { readFileSync } from 'node:fs';

/** Between two looks; a look costs a few microseconds. */
const LOOK_MS = 250;

/**
 * Calls `gone` once when this process was started by npx, or a script of a package.json, and that has ended. Returns how to stop looking.
 * A program that a shell has put into the background is nobody's affair.
 */
export function watchStarter(gone: () => void, env: NodeJS.ProcessEnv = process.env): () => void {
  if (env['npm_command'] === undefined || process.platform === 'win32') return () => undefined;
  const first = starters();
  const timer = setInterval(() => {
    if (starters() === first) return;
    clearInterval(timer);
    gone();
  }, LOOK_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/** This process's parent, and the parent of that: npm puts a shell in between. Another one takes the place of one that has ended. */
function starters(): string {
  const parent = process.ppid;
  return `${parent} ${parent > 1 ? parentOf(parent) : ''}`;
}

/** Where the system does not say, the parent has to do. */
function parentOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? '';
  } catch {
    return '';
  }
}
