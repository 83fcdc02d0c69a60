/** @file Where the workspace is, and running its commands from a test. */
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';

/** The root folder of the workspace. */
export const root = resolve(import.meta.dirname, '../../..');

/** The published packages, lowest layer first. */
export const published = [
  'tensor',
  'wire',
  'rpc',
  'rref',
  'dist-autograd',
  'profiler',
  'launch',
  'torch',
  'backwire',
] as const;

/** What a folder of `packages` is called on npm. */
export const packageName = (folder: string): string => (folder === 'backwire' ? folder : `@backwire/${folder}`);

export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, at most `timeoutMs`; never rejects for a non-zero exit code. */
export function run(
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv; timeoutMs?: number } = {},
): Promise<Finished> {
  const { cwd = root, env = process.env, timeoutMs = 240_000 } = options;
  return new Promise((done) => {
    execFile(
      command,
      args,
      { cwd, env, timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: 64 << 20 },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1;
        done({ code, stdout, stderr });
      },
    );
  });
}

/** Runs Nx as `npm test` does: no daemon, no terminal interface. */
export function nx(args: readonly string[]): Promise<Finished> {
  return run(resolve(root, 'node_modules/.bin/nx'), args, {
    env: { ...process.env, NX_DAEMON: 'false', NX_TUI: 'false' },
  });
}
