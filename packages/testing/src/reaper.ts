/** @file Kills child processes when this process dies, however it dies. */
import { spawn, type ChildProcess } from 'node:child_process';

/**
 * Waits on its input for process groups, one a line. `done` ends it; the end of the input (this process is gone, even by SIGKILL)
 * makes it kill them all, stopped or busy ones and their own children included.
 */
const SCRIPT = `
groups=
while read -r line; do
  [ "$line" = done ] && exit 0
  groups="$groups $line"
done
for group in $groups; do kill -9 "-$group" 2>/dev/null; done
`;

/** A small shell process that outlives us by a moment. */
export class Reaper {
  readonly #shell: ChildProcess;
  readonly #groups = new Set<number>();
  readonly #onExit = (): void => this.#killAll();

  constructor() {
    // A group of its own: a Ctrl-C in the terminal must not end it before its work is done.
    this.#shell = spawn('/bin/sh', ['-c', SCRIPT], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
    this.#shell.stdin?.on('error', () => undefined);
    this.#shell.on('error', () => undefined);
    this.#shell.unref();
    (this.#shell.stdin as { unref?(): void } | null)?.unref?.();
    process.on('exit', this.#onExit);
  }

  /** Takes responsibility for a process that leads a group of its own (`detached: true`). */
  watch(child: ChildProcess): void {
    const { pid } = child;
    if (pid === undefined) return;
    this.#groups.add(pid);
    this.#shell.stdin?.write(`${pid}\n`);
  }

  /** Kills what is left of all groups and ends the shell. */
  dispose(): void {
    process.off('exit', this.#onExit);
    this.#killAll();
    this.#shell.stdin?.end('done\n');
  }

  #killAll(): void {
    for (const group of this.#groups) killGroup(group, 'SIGKILL');
    this.#groups.clear();
  }
}

/** Signals a process group; false when it is gone. */
export function killGroup(group: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(-group, signal);
  } catch {
    return false;
  }
}
