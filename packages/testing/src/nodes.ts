/** @file Other runtimes than the one of this process, from npm: versions of Node, and Bun and Deno. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** The versions of Node that the packages promise to run on. */
export const SUPPORTED_NODES = [20, 22, 24, 26] as const;

/** Others that they promise to run on, from which version on. */
export const SUPPORTED_OTHERS = { bun: '1.4.0', deno: '2.8.0' } as const;

export type OtherRuntime = keyof typeof SUPPORTED_OTHERS;

/** What runs a program. */
export interface Runtime {
  readonly executable: string;
  /** Goes before the PATH, so that what programs and scripts call by name is this one too. */
  readonly folder: string;
  /** What goes between the executable and the program. */
  readonly flags: readonly string[];
}

const WINDOWS = process.platform === 'win32';

/**
 * The newest Node of a major version, kept in `cache`. npm has the executables as packages by platform.
 * @throws Error with npm's words when it is not there and cannot be had.
 */
export async function nodeOf(major: number, cache: string): Promise<Runtime> {
  const name = `node-${WINDOWS ? 'win' : process.platform}-${process.arch}`;
  const folder = await installed(`${name}@${major}`, join(cache, `node-${major}`), name);
  const bin = join(folder, 'bin');
  return { executable: join(bin, WINDOWS ? 'node.exe' : 'node'), folder: bin, flags: [] };
}

/**
 * Bun or Deno of a version, or the newest of a major one, kept in `cache`.
 * @throws Error with npm's words when it is not there and cannot be had.
 */
export async function otherRuntime(name: OtherRuntime, version: string, cache: string): Promise<Runtime> {
  const parts = {
    bun: `@oven/bun-${WINDOWS ? 'windows' : process.platform}-${process.arch === 'arm64' ? 'aarch64' : process.arch}`,
    deno: `@deno/${process.platform}-${process.arch}${process.platform === 'linux' ? '-glibc' : ''}`,
  }[name];
  const folder = await installed(`${parts}@${version}`, join(cache, `${name}-${version}`), parts);
  const file = WINDOWS ? `${name}.exe` : name;
  // Bun would fetch packages that a program looks for and has not; Deno asks before all that a program does.
  return name === 'bun'
    ? { executable: join(folder, 'bin', file), folder: join(folder, 'bin'), flags: ['--no-install'] }
    : { executable: join(folder, file), folder, flags: ['run', '--allow-all', '--no-prompt'] };
}

/** Where a package is installed below `folder`, which it is if it was not. */
async function installed(spec: string, folder: string, name: string): Promise<string> {
  const path = join(folder, 'node_modules', name);
  if (!existsSync(path)) await install(spec, folder);
  return path;
}

async function install(spec: string, folder: string): Promise<void> {
  // Made beside it and then moved: several may want it at once, and none of them half of it.
  const own = `${folder}.${process.pid}`;
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, 'package.json'), '{"private":true}\n');
  try {
    const args = ['install', '--no-audit', '--no-fund', '--no-package-lock', '--prefer-offline', spec];
    await promisify(execFile)('npm', args, { cwd: own, shell: WINDOWS });
    if (!existsSync(folder)) renameSync(own, folder);
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}
