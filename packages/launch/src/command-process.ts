/** @file A process that is nothing but the command: it does not outlast its end for readers who take nothing. */
import { UNREAD_MS } from './limits.ts';
import { runCommandLine } from './main.ts';
import { untaken } from './output.ts';

/** As `main`. After a command that was told to end, what is written and nobody reads does not keep the process: this ends it. */
export async function commandProcess(argv: readonly string[]): Promise<number> {
  const { exitCode, wasStopped } = await runCommandLine(argv);
  if (wasStopped) endUnread(exitCode);
  return exitCode;
}

function endUnread(exitCode: number): void {
  const unread = (): number => untaken(process.stdout) + untaken(process.stderr);
  let before = unread();
  const timer = setInterval(() => {
    const now = unread();
    if (now > 0 && now === before) process.exit(exitCode);
    before = now;
  }, UNREAD_MS);
  timer.unref();
}
