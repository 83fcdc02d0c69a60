/** @file Starts the runners that packages keep in their `sim` and `explore` folders, for one suite or for all. */
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');

/** Runs the program of the suite named by `--suite`, or every program of `suites`; other arguments go on to it. */
export async function dispatch(kind: string, suites: Readonly<Record<string, string>>): Promise<void> {
  const args = process.argv.slice(2);
  const at = args.indexOf('--suite');
  const wanted = at < 0 ? undefined : args.splice(at, 2)[1];
  const chosen = Object.entries(suites).filter(([name]) => wanted === undefined || name === wanted);
  if (chosen.length === 0) {
    console.error(`no ${kind} suite ${wanted ?? ''}; there are: ${Object.keys(suites).join(', ')}`);
    process.exitCode = 2;
    return;
  }
  for (const [, program] of chosen) {
    const code = await run(program, args);
    if (code !== 0) process.exitCode = code;
  }
}

/** Runs a program of the repository from its sources; gives its exit code. */
export function run(program: string, args: readonly string[]): Promise<number> {
  const flags = ['--import', 'tsx', '--conditions=@backwire/source'];
  const child = spawn(process.execPath, [...flags, resolve(root, program), ...args], { stdio: 'inherit', cwd: root });
  return new Promise((done, fail) => {
    child.once('error', fail);
    child.once('close', (code, signal) => done(code ?? (signal === null ? 0 : 1)));
  });
}
