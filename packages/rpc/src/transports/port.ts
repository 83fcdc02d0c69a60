/** @file Connections between the threads of one process, and inside one: pairs of message ports. */
import { readlinkSync } from 'node:fs';
import * as threads from 'node:worker_threads';
import { runAtRoot } from '@backwire/tensor/internal';
import { RpcError } from '../base/errors.ts';
import { cancelled } from './dialling.ts';
import { PortConnection } from './port-connection.ts';
import { DEFAULT_DIAL_TIMEOUT_MS } from './transport.ts';
import type { Connection, DialOptions, ListenOptions, Listener, Transport } from './transport.ts';
import { unixTransport } from './unix.ts';

type Accept = (port: threads.MessagePort, remote: string) => void;

/** What one thread sends another to be connected. */
interface Knock {
  readonly backwire: 'port';
  readonly listener: number;
  readonly remote: string;
  readonly port: threads.MessagePort;
}

const ENDPOINT = /^port:\/\/(\d{1,9})-(\d{1,9})$/;
const listeners = new Map<number, Accept>();
let counter = 0;
let listening = false;

/**
 * 'port://thread-listener'. Threads find each other by their number; bytes go by shared memory or copy. What a program posts to a
 * thread itself is left alone.
 */
export function portTransport(): Transport {
  return { name: 'port', domain: domain(), isViable, listen, dial: (at, how) => runAtRoot(() => dial(at, how)) };
}

/** Threads can be posted to since Node 20.19 and 22.5. */
function isViable(): boolean {
  return typeof threads.postMessageToThread === 'function';
}

/** This process: its number, where that number counts. */
function domain(): string {
  let space = '';
  try {
    space = readlinkSync('/proc/self/ns/pid');
  } catch {
    // Not Linux: the machine has one space of numbers.
  }
  return `${process.pid}/${space}/${unixTransport().domain}`;
}

async function listen(options: ListenOptions, onConnection: (connection: Connection) => void): Promise<Listener> {
  const id = ++counter;
  listeners.set(id, (port, remote) => onConnection(new PortConnection(port, remote)));
  if (!listening) {
    listening = true;
    runAtRoot(() => process.on('workerMessage', onKnock));
  }
  const close = async (): Promise<void> => {
    listeners.delete(id);
    if (listeners.size > 0 || !listening) return;
    listening = false;
    process.off('workerMessage', onKnock);
  };
  options.signal?.addEventListener('abort', () => void close(), { once: true });
  return { endpoint: `port://${threads.threadId}-${id}`, close };
}

/** Another thread wants a connection. The first message on the port says whether it has one. */
function onKnock(message: unknown): void {
  const knock = message as Partial<Knock> | null;
  if (knock?.backwire !== 'port' || !(knock.port instanceof threads.MessagePort)) return;
  const accept = listeners.get(knock.listener ?? -1);
  knock.port.postMessage(accept === undefined ? 'nobody' : 'welcome');
  if (accept === undefined) knock.port.close();
  else accept(knock.port, typeof knock.remote === 'string' ? knock.remote : 'port://?');
}

async function dial(
  endpoint: string,
  { timeoutMs = DEFAULT_DIAL_TIMEOUT_MS, signal }: DialOptions = {},
): Promise<Connection> {
  const match = ENDPOINT.exec(endpoint);
  if (match === null) throw new RpcError('invalid-argument', `'${endpoint}' is not port://thread-listener`);
  if (signal?.aborted) throw cancelled(endpoint, signal);
  const thread = Number(match[1]);
  const listener = Number(match[2]);
  const { port1: ours, port2: theirs } = new threads.MessageChannel();
  const remote = `port://${threads.threadId}#${++counter}`;
  try {
    if (thread === threads.threadId) {
      onKnock({ backwire: 'port', listener, remote, port: theirs } satisfies Knock);
    } else {
      const knock: Knock = { backwire: 'port', listener, remote, port: theirs };
      await threads.postMessageToThread(thread, knock, [theirs], timeoutMs);
    }
    const answer = await firstNote(ours, endpoint, timeoutMs, signal);
    if (answer !== 'welcome') throw new RpcError('unavailable', `cannot connect to ${endpoint}: nobody listens`);
  } catch (error) {
    ours.close();
    throw error instanceof RpcError ? error : refused(endpoint, error);
  }
  return new PortConnection(ours, endpoint);
}

/** Waits for the first message alone: what follows is the connection's. */
function firstNote(
  port: threads.MessagePort,
  endpoint: string,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const settle = (outcome: () => void): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      port.off('message', onMessage);
      port.off('close', onClose);
      outcome();
    };
    const onMessage = (note: unknown): void => settle(() => resolve(note));
    const onClose = (): void => settle(() => reject(new Error('the thread has ended')));
    const onAbort = (): void => settle(() => reject(cancelled(endpoint, signal as AbortSignal)));
    const timer = setTimeout(
      () =>
        settle(() =>
          reject(new RpcError('deadline-exceeded', `${endpoint} did not answer in ${Math.ceil(timeoutMs)} ms`)),
        ),
      timeoutMs,
    );
    port.on('message', onMessage);
    port.on('close', onClose);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** Node's reasons: no such thread, one that has no listener, one that does not answer. */
function refused(endpoint: string, error: unknown): RpcError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ERR_WORKER_MESSAGING_TIMEOUT')
    return new RpcError('deadline-exceeded', `${endpoint} did not answer in time`, { cause: error });
  const why = code === 'ERR_WORKER_MESSAGING_FAILED' ? 'nobody listens' : message;
  return new RpcError('unavailable', `cannot connect to ${endpoint}: ${why}`, { cause: error });
}
