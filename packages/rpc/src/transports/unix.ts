/** @file Unix sockets: same host and same user, each socket in a directory that nobody else can enter. */
import { readFileSync, readlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attempt } from '../base/attempt.ts';
import { invalidArgument, RpcError } from '../base/errors.ts';
import { listenerAt } from './connection-parts.ts';
import { dialNet, listenNet } from './listen.ts';
import { widenSendBuffer } from './send-buffer.ts';
import { longestPath, makeFolder, removeFolder } from './socket-folders.ts';
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
  if (longestPath() > MAX_PATH_BYTES) {
    throw invalidArgument(
      `a socket path has at most ${MAX_PATH_BYTES} bytes: set TMPDIR to something shorter than '${tmpdir()}'`,
    );
  }
  let directory: string;
  try {
    // Made with mode 0700, so the socket is out of reach before it exists.
    directory = makeFolder();
  } catch (error) {
    throw new RpcError('unavailable', `no directory for a socket can be made in '${tmpdir()}'`, { cause: error });
  }
  const path = join(directory, 's');
  const where = `unix://${path}`;
  const remove = (): void => removeFolder(directory);
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
  return listenerAt(where, options.signal, () => {
    server.close();
    remove();
  });
}

async function dial(endpoint: string, options: DialOptions = {}): Promise<Connection> {
  const path = endpoint.startsWith('unix:///') ? endpoint.slice('unix://'.length) : '';
  if (path === '' || Buffer.byteLength(path) > MAX_PATH_BYTES || path.includes('\0')) {
    throw invalidArgument(`'${endpoint}' is not unix:///path`);
  }
  const connection = await dialNet({ path }, { kind: 'unix', remote: endpoint }, options);
  connection.whenLarge(widenSendBuffer);
  return connection;
}

/** One running kernel, one view of its files, one user: where all three are equal, the socket can be reached. */
function hostDomain(): string {
  const boot =
    attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()) ??
    attempt(() => readFileSync('/etc/machine-id', 'utf8').trim());
  const mounts = attempt(() => readlinkSync('/proc/self/ns/mnt'));
  return `${boot ?? tmpdir()}/${mounts ?? ''}/${process.getuid?.() ?? 0}`;
}
