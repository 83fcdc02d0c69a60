/** @file Starts the runner that a package keeps in its `sim` or `explore` folder, for one suite or for all that exist. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');

/** Runs `PACKAGE/KIND/run.ts` of the suite named by `--suite`, or of every package that has one; other arguments go on to it. */
export async function dispatch(kind: 'sim' | 'explore', packages: Readonly<Record<string, string>>): Promise<void> {
  const args = process.argv.slice(2);
  const at = args.indexOf('--suite');
  const wanted = at < 0 ? undefined : args.splice(at, 2)[1];
  const known = Object.entries(packages).filter(([, path]) => existsSync(resolve(root, path, kind, 'run.ts')));
  const chosen = known.filter(([name]) => wanted === undefined || name === wanted);
  if (chosen.length === 0) {
    console.error(`no ${kind} suite ${wanted ?? ''}; there are: ${known.map(([name]) => name).join(', ')}`);
    process.exitCode = 2;
    return;
  }
  for (const [, path] of chosen) {
    const code = await run(resolve(root, path, kind, 'run.ts'), args);
    if (code !== 0) process.exitCode = code;
  }
}

function run(program: string, args: readonly string[]): Promise<number> {
  const flags = ['--import', 'tsx', '--conditions=@backwire/source'];
  const child = spawn(process.execPath, [...flags, program, ...args], { stdio: 'inherit', cwd: root });
  return new Promise((done, fail) => {
    child.once('error', fail);
    child.once('close', (code, signal) => done(code ?? (signal === null ? 0 : 1)));
  });
}
