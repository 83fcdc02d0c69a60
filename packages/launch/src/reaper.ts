/** @file A small companion process that ends the workers when the launcher is gone without having stopped them. */
import { spawn, type ChildProcess } from 'node:child_process';

/**
 * Holds a pipe to the launcher and the process groups of the workers. The pipe closes however the launcher dies, SIGKILL included;
 * what is still listed then gets SIGTERM and, two seconds later, SIGKILL. It is a shell and not a thread of the workers, so that it
 * works for a worker in an endless loop and for one that is not a node program.
 */
const SCRIPT = `
trap '' INT TERM HUP QUIT
pids=
while IFS= read -r line; do pids=$line; done
for pid in $pids; do kill -s TERM -- "-$pid" 2>/dev/null; done
if [ -n "$pids" ]; then sleep 2; fi
for pid in $pids; do kill -s KILL -- "-$pid" 2>/dev/null; done
`;

export class Reaper {
  private readonly child: ChildProcess | undefined;
  private readonly pids = new Set<number>();

  /** Where there is no POSIX shell the launcher works without. */
  constructor() {
    if (process.platform === 'win32') return;
    this.child = spawn('/bin/sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    // A reaper that cannot start, or was killed, must not take the group with it.
    this.child.on('error', () => undefined);
    this.child.stdin?.on('error', () => undefined);
    this.child.unref();
  }

  /** `pid` leads a process group that must not outlive the launcher. */
  add(pid: number): void {
    this.pids.add(pid);
    this.tell();
  }

  /** `pid` has ended. */
  remove(pid: number): void {
    if (this.pids.delete(pid)) this.tell();
  }

  /** Ends the companion; what is still listed dies with it. */
  close(): void {
    this.child?.stdin?.end();
  }

  private tell(): void {
    this.child?.stdin?.write(`${[...this.pids].join(' ')}\n`);
  }
}
