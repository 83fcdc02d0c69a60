/** @file The folders of Unix sockets: made, removed at the end of the process, and swept of what killed processes left. */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isProcessGone } from '../base/process-state.ts';

/** 'backwire-PID-' and what mkdtemp appends; before it had the number, 'backwire-' alone. */
const FOLDER = /^backwire-(?:(\d{1,10})-)?[A-Za-z0-9]{6}$/;
/** Folders looked at in one sweep. */
const MAX_SWEPT = 256;
/** A folder without a socket is one that is being made, until it is this old. */
const STALE_MS = 60_000;

/** The longest path of a socket in a folder made here, in bytes. */
export function longestPath(): number {
  return Buffer.byteLength(`${prefix()}123456/s`);
}

/** A folder of mode 0700 for the socket 's'. @throws as `mkdtempSync` */
export function makeFolder(): string {
  const folder = mkdtempSync(prefix());
  if (folders.size === 0) process.once('exit', removeAll);
  folders.add(folder);
  void sweep();
  return folder;
}

export function removeFolder(folder: string): void {
  folders.delete(folder);
  if (folders.size === 0) process.off('exit', removeAll);
  rmSync(folder, { recursive: true, force: true });
}

/** Removes what a process that has certainly ended left behind. */
export function removeFoldersOf(pid: number): void {
  const parent = tmpdir();
  try {
    for (const name of readdirSync(parent)) {
      if (FOLDER.exec(name)?.[1] !== String(pid)) continue;
      const folder = join(parent, name);
      const stat = lstatSync(folder, { throwIfNoEntry: false });
      // Another user could put a link in the place of a folder of his own while it is being emptied, by root too.
      if (stat?.isDirectory() === true && stat.uid === process.getuid?.())
        rmSync(folder, { recursive: true, force: true });
    }
  } catch {
    // The next run sweeps.
  }
}

function prefix(): string {
  return join(tmpdir(), `backwire-${process.pid}-`);
}

/** Folders of listeners that were not closed: removed when the process ends by itself. */
const folders = new Set<string>();

function removeAll(): void {
  for (const left of folders) rmSync(left, { recursive: true, force: true });
}

let swept = false;

/** Removes what killed processes of this user left, once a process: nobody listens at a socket there, and its process is gone. */
async function sweep(): Promise<void> {
  if (swept) return;
  swept = true;
  const parent = tmpdir();
  const names = await readdir(parent).catch(() => []);
  let looked = 0;
  for (const name of names) {
    const match = FOLDER.exec(name);
    if (match === null || (match[1] !== undefined && !isProcessGone(Number(match[1])))) continue;
    if (++looked > MAX_SWEPT) return;
    const folder = join(parent, name);
    const stat = await lstat(folder).catch(() => undefined);
    if (stat === undefined || stat.uid !== process.getuid?.()) continue;
    const old = Date.now() - stat.mtimeMs > STALE_MS;
    // The number may be of another container: only a socket that refuses, or an old folder without one, is nobody's.
    const answer = await knock(join(folder, 's'));
    if ((answer === 'refused' && (old || match[1] !== undefined)) || (answer === 'nothing' && old))
      await rm(folder, { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Whether somebody listens at a socket, nobody does, or there is none. */
function knock(path: string): Promise<'open' | 'refused' | 'nothing'> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve('open');
    });
    socket.once('error', ({ code }: NodeJS.ErrnoException) =>
      resolve(code === 'ECONNREFUSED' ? 'refused' : code === 'ENOENT' ? 'nothing' : 'open'),
    );
    socket.unref();
  });
}
