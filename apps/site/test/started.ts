/** @file A group of real processes that runs a program of a guide, and what it prints. */
import { setTimeout as delay } from 'node:timers/promises';
import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { launch, type LaunchOptions, type LaunchResult, type StartedWorker } from 'backwire';

/** How long a line may be waited for. */
const PATIENCE_MS = 40_000;

export interface Started {
  /** What the workers printed up to now, each line behind the name of its worker. */
  output(): string;
  /** Those that were started, also in the place of others. */
  readonly workers: readonly StartedWorker[];
  /** Resolves with the first match of `pattern` in what is printed. */
  prints(pattern: RegExp): Promise<RegExpExecArray>;
  /** Ends the group as SIGTERM to the launcher does. */
  stop(): Promise<LaunchResult>;
  readonly result: Promise<LaunchResult>;
}

/** Starts the group; whoever does stops it, or waits for its result. */
export function started(options: LaunchOptions): Started {
  let text = '';
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += stripVTControlCharacters(chunk.toString());
      done();
    },
  });
  const controller = new AbortController();
  const workers: StartedWorker[] = [];
  let over = false;
  const result = launch({
    execArgv: ['--import', 'tsx', '--conditions=@backwire/source'],
    signal: controller.signal,
    onStart: (worker) => void workers.push(worker),
    stdout,
    stderr: stdout,
    ...options,
  }).finally(() => (over = true));
  result.catch(() => undefined);
  return {
    output: () => text,
    workers,
    result,
    async prints(pattern) {
      const until = Date.now() + PATIENCE_MS;
      for (;;) {
        const wasOver = over;
        const found = pattern.exec(text);
        if (found !== null) return found;
        if (wasOver || Date.now() > until) throw new Error(`${String(pattern)} was not printed:\n${text}`);
        await delay(20);
      }
    },
    stop() {
      controller.abort();
      return result;
    },
  };
}

/** Runs the group to its end, which has to be a good one, and gives what it printed on standard output. */
export async function printed(options: LaunchOptions): Promise<string> {
  const group = started(options);
  const { exitCode, report } = await group.result;
  if (exitCode !== 0) throw new Error(`exit code ${exitCode}: ${report ?? ''}\n${group.output()}`);
  return group.output();
}
