/** @file Redis and etcd for tests, and a network before them that loses, holds back or ends what goes over it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts, STORE_PROGRAMS, storeFlags, type StoreProgram } from '@backwire/testing';

/** A server of its own, in a folder of its own. */
export interface Served {
  readonly port: number;
  start(): void;
  kill(): Promise<void>;
  wipe(): void;
}

export interface Proxy {
  readonly port: number;
  /** The connections that came. */
  readonly open: ReadonlySet<Socket>;
  /** Bytes that went back. */
  received(): number;
  stop(): void;
  freeze(): void;
  /** Ends all connections; those that come are passed on to another port. */
  turn(to: number): void;
}

export const cleanups: (() => unknown)[] = [];
export async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
}

export async function serve(name: StoreProgram): Promise<Served> {
  const directory = mkdtempSync(join(tmpdir(), 'backwire-test-'));
  cleanups.push(() => rmSync(directory, { recursive: true, force: true }));
  const [port, peerPort] = (await freePorts(2)) as [number, number];
  const args = storeFlags(name, directory, port, peerPort);
  let child: ChildProcess;
  const start = (): void => {
    child = spawn(STORE_PROGRAMS[name], args, { stdio: 'ignore' });
    const mine = child;
    cleanups.push(() => mine.kill('SIGKILL'));
  };
  start();
  return {
    port,
    start,
    kill: async () => {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await gone;
    },
    wipe: () => {
      rmSync(directory, { recursive: true, force: true });
      mkdirSync(directory);
    },
  };
}
/** Passes on what comes; `onRequest` may have a request lost ('swallow') or its connection closed in place of the answer ('cut'). */
export async function proxy(
  to: number,
  onRequest: (text: string) => 'pass' | 'swallow' | 'cut' = () => 'pass',
): Promise<Proxy> {
  const open = new Set<Socket>();
  let target = to;
  let frozen = false;
  let received = 0;
  const server = createServer((near) => {
    open.add(near);
    const far = connect(target, '127.0.0.1');
    let cut = false;
    near.on('error', () => undefined).on('close', () => (open.delete(near), far.destroy()));
    far.on('error', () => undefined).on('close', () => near.destroy());
    near.on('data', (chunk) => {
      if (frozen) return;
      const what = onRequest(chunk.toString());
      if (what === 'swallow') return;
      if (what === 'cut') cut = true;
      far.write(chunk);
    });
    far.on('data', (chunk) => {
      if (frozen) return;
      received += chunk.byteLength;
      if (cut) near.destroy();
      else near.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const end = (): void => {
    for (const socket of open) socket.destroy();
  };
  const stop = (): void => {
    server.close();
    end();
  };
  const turn = (other: number): void => {
    target = other;
    end();
  };
  cleanups.push(stop);
  const { port } = server.address() as AddressInfo;
  return { port, open, received: () => received, stop, freeze: () => void (frozen = true), turn };
}
export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
export const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));
export const text = (value: Uint8Array | undefined): string | undefined => value && Buffer.from(value).toString();
export function within<T>(promise: Promise<T>, ms: number): Promise<T | 'late'> {
  return Promise.race([promise, sleep(ms).then(() => 'late' as const)]);
}

/** Has Redis do something, once it answers. */
export function redisSays(port: number, ...command: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', reject);
    socket.once('data', (answer) => {
      socket.destroy();
      resolve(answer.toString());
    });
    const parts = command.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`);
    socket.write(`*${command.length}\r\n${parts.join('')}`);
  });
}
