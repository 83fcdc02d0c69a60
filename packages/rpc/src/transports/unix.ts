/** @file Unix sockets: same host and same user, each socket in a directory that nobody else can enter. */
import { mkdtempSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RpcError } from '../errors.ts';
import { dialNet, listenNet } from './listen.ts';
import { widenSendBuffer } from './send-buffer.ts';
import type { Connection, DialOptions, ListenOptions, Listener, Transport } from './transport.ts';

/** The kernel's field for the path: 108 bytes on Linux, 104 on macOS and BSD, one of them the terminator. */
const MAX_PATH_BYTES = process.platform === 'linux' ? 107 : 103;

let domain: string | undefined;

/** 'unix:///path/of/the/socket'. */
export function unixTransport(): Transport {
  return {
    name: 'unix',
    get domain(): string {
      return (domain ??= hostDomain());
    },
    isViable: () => process.platform !== 'win32',
    listen,
    dial,
  };
}

async function listen(options: ListenOptions, onConnection: (connection: Connection) => void): Promise<Listener> {
  const prefix = join(tmpdir(), 'backwire-');
  // mkdtemp appends six characters.
  if (Buffer.byteLength(prefix) + '123456/s'.length > MAX_PATH_BYTES) {
    throw new RpcError(
      'invalid-argument',
      `a socket path has at most ${MAX_PATH_BYTES} bytes: set TMPDIR to something shorter than '${tmpdir()}'`,
    );
  }
  let directory: string;
  try {
    // Made with mode 0700, so the socket is out of reach before it exists.
    directory = mkdtempSync(prefix);
  } catch (error) {
    throw new RpcError('unavailable', `no directory for a socket can be made in '${tmpdir()}'`, { cause: error });
  }
  const path = join(directory, 's');
  const where = `unix://${path}`;
  const remove = (): void => {
    directories.delete(directory);
    rmSync(directory, { recursive: true, force: true });
  };
  track(directory);
  void sweep();
  let server;
  try {
    server = await listenNet({ path }, { kind: 'unix', where }, (connection) => {
      connection.whenLarge(widenSendBuffer);
      onConnection(connection);
    });
  } catch (error) {
    remove();
    throw error;
  }
  const close = async (): Promise<void> => {
    server.close();
    remove();
  };
  options.signal?.addEventListener('abort', () => void close(), { once: true });
  return { endpoint: where, close };
}

async function dial(endpoint: string, options: DialOptions = {}): Promise<Connection> {
  const path = endpoint.startsWith('unix:///') ? endpoint.slice('unix://'.length) : '';
  if (path === '' || Buffer.byteLength(path) > MAX_PATH_BYTES || path.includes('\0')) {
    throw new RpcError('invalid-argument', `'${endpoint}' is not unix:///path`);
  }
  const connection = await dialNet({ path }, { kind: 'unix', remote: endpoint }, options);
  connection.whenLarge(widenSendBuffer);
  return connection;
}

/** A directory this old whose socket refuses is of a process that was killed. */
const STALE_MS = 60_000;
/** Directories looked at in one sweep. */
const MAX_SWEPT = 64;
let swept = false;

/** Removes what killed processes of this user left, once a process. */
async function sweep(): Promise<void> {
  if (swept) return;
  swept = true;
  const parent = tmpdir();
  const names = await readdir(parent).catch(() => []);
  for (const name of names.filter((each) => /^backwire-[A-Za-z0-9]{6}$/.test(each)).slice(0, MAX_SWEPT)) {
    const directory = join(parent, name);
    const stat = await lstat(directory).catch(() => undefined);
    if (stat === undefined || stat.uid !== process.getuid?.() || Date.now() - stat.mtimeMs < STALE_MS) continue;
    if (await refuses(join(directory, 's')))
      await rm(directory, { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Whether nobody listens at a socket that exists. */
function refuses(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'));
    socket.unref();
  });
}

/** Directories of listeners that were not closed: removed when the process ends by itself. */
const directories = new Set<string>();

function track(directory: string): void {
  if (directories.size === 0 && !exitHooked) {
    exitHooked = true;
    process.once('exit', () => {
      for (const left of directories) rmSync(left, { recursive: true, force: true });
    });
  }
  directories.add(directory);
}
let exitHooked = false;

/** One running kernel, one view of its files, one user: where all three are equal, the socket can be reached. */
function hostDomain(): string {
  const boot =
    attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()) ??
    attempt(() => readFileSync('/etc/machine-id', 'utf8').trim());
  const mounts = attempt(() => readlinkSync('/proc/self/ns/mnt'));
  return `${boot ?? tmpdir()}/${mounts ?? ''}/${process.getuid?.() ?? 0}`;
}

function attempt(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
