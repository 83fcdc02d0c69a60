/** @file Other versions of Node than the one this process runs on, from npm. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** The versions of Node that the packages promise to run on. */
export const SUPPORTED_NODES = [20, 22, 24, 26] as const;

/** A Node: what to spawn, and what to put before the PATH so that `node`, `npx` and scripts mean it too. */
export interface NodeVersion {
  readonly major: number;
  readonly executable: string;
  readonly folder: string;
}

/**
 * The newest Node of a major version, kept in `cache`. npm has the executables as packages by platform.
 * @throws Error with npm's words when it is not there and cannot be had.
 */
export async function nodeOf(major: number, cache: string): Promise<NodeVersion> {
  const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
  const folder = join(cache, `node-${major}`, 'node_modules', name, 'bin');
  const executable = join(folder, process.platform === 'win32' ? 'node.exe' : 'node');
  if (!existsSync(executable)) await install(`${name}@${major}`, join(cache, `node-${major}`));
  return { major, executable, folder };
}

async function install(spec: string, folder: string): Promise<void> {
  // Made beside it and then moved: several may want it at once, and none of them half of it.
  const own = `${folder}.${process.pid}`;
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, 'package.json'), '{"private":true}\n');
  try {
    const args = ['install', '--no-audit', '--no-fund', '--no-package-lock', '--prefer-offline', spec];
    await promisify(execFile)('npm', args, { cwd: own, shell: process.platform === 'win32' });
    if (!existsSync(folder)) renameSync(own, folder);
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}
