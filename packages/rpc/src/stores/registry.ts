/** @file The groups whose stores are on this machine, as files that only this user can read: who looks finds them without an address. */
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attempt } from '../base/attempt.ts';
import { isProcessGone, processSpace } from '../base/process-state.ts';

/** A group that somebody on this machine serves. */
export interface RunningGroup {
  /** Where its store is, for `store`, `inspect` and `dashboard`. */
  readonly address: string;
  /** Of whoever serves it. */
  readonly pid: number;
  /** The program that was started. */
  readonly program: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
}

interface Entry extends RunningGroup {
  /** The space of process numbers: a pid of another container says nothing here. */
  readonly space: string;
  /** A file that nobody needs without the group. */
  readonly secretFile?: string | undefined;
}

/** The private folder of this user on this machine. @throws when it is somebody else's, or open to others. */
export function userFolder(): string {
  const user = process.getuid?.();
  const folder = join(tmpdir(), `backwire-${user ?? 'user'}`);
  mkdirSync(folder, { mode: 0o700, recursive: true });
  const { uid, mode } = lstatSync(folder);
  if (user !== undefined && (uid !== user || (mode & 0o077) !== 0))
    throw new Error(`the directory '${folder}' is not this user's alone`);
  return folder;
}

const ENTRY = /^group-\d+-\d+\.json$/;
let counter = 0;
/** What is removed when the process ends without having closed its stores. */
const open = new Set<string>();

/**
 * Lets this user find a group. Returns how to take that back; the end of the process does, too. Where it cannot be written, the group is
 * there all the same.
 */
export function announceGroup(group: Pick<RunningGroup, 'address' | 'program'>, secretFile?: string): () => void {
  const path = attempt(() => {
    const folder = userFolder();
    sweepGroups(folder);
    const entry: Entry = { ...group, pid: process.pid, startedAt: Date.now(), space: processSpace(), secretFile };
    const file = join(folder, `group-${process.pid}-${++counter}.json`);
    writeFileSync(file, JSON.stringify(entry), { mode: 0o600, flag: 'wx' });
    return file;
  });
  if (path === undefined) return () => undefined;
  if (open.size === 0) process.once('exit', forgetAll);
  open.add(path);
  return () => {
    open.delete(path);
    if (open.size === 0) process.off('exit', forgetAll);
    rmSync(path, { force: true });
  };
}

/** The groups that are there now, the oldest first; what the killed left is removed. */
export function runningGroups(): RunningGroup[] {
  const entries = attempt(() => sweepGroups(userFolder())) ?? [];
  return entries
    .map(({ address, pid, program, startedAt }) => ({ address, pid, program, startedAt }))
    .sort((a, b) => a.startedAt - b.startedAt);
}

/** Removes entries, and secrets, of processes that are gone. Returns those that are not. */
function sweepGroups(folder: string): Entry[] {
  const space = processSpace();
  const alive: Entry[] = [];
  const secrets = new Set<string>();
  for (const name of readdirSync(folder)) {
    if (!ENTRY.test(name)) continue;
    const path = join(folder, name);
    const entry = attempt(() => JSON.parse(readFileSync(path, 'utf8')) as Entry);
    if (entry === undefined || typeof entry.pid !== 'number' || typeof entry.address !== 'string') continue;
    if (entry.space !== space || !isProcessGone(entry.pid)) {
      if (entry.space === space) alive.push(entry);
      continue;
    }
    rmSync(path, { force: true });
    if (entry.secretFile !== undefined) secrets.add(entry.secretFile);
  }
  // A later group may have taken the port, and so the file, of one that was killed.
  for (const { secretFile } of alive) if (secretFile !== undefined) secrets.delete(secretFile);
  for (const secret of secrets) if (secret.startsWith(join(folder, 'run-'))) rmSync(secret, { force: true });
  return alive;
}

function forgetAll(): void {
  for (const path of open) rmSync(path, { force: true });
}
