/** @file Connections between the threads of one process, and inside one: pairs of message ports. */
import * as threads from 'node:worker_threads';
import { runAtRoot } from '@backwire/tensor/internal';
import { invalidArgument, RpcError } from '../base/errors.ts';
import { processSpace } from '../base/process-state.ts';
import { listenerAt } from './connection-parts.ts';
import { cancelled, settleDial } from './dialling.ts';
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

/** Threads can be posted to since Node 20.19 and 22.5. Deno can too, but what goes over a port that was posted so is lost at times. */
function isViable(): boolean {
  return typeof threads.postMessageToThread === 'function' && !('deno' in process.versions);
}

/** This process: its number, where that number counts. */
function domain(): string {
  return `${process.pid}/${processSpace()}/${unixTransport().domain}`;
}

async function listen(options: ListenOptions, onConnection: (connection: Connection) => void): Promise<Listener> {
  const id = ++counter;
  listeners.set(id, (port, remote) => onConnection(new PortConnection(port, remote)));
  if (!listening) {
    listening = true;
    runAtRoot(() => process.on('workerMessage', onKnock));
  }
  return listenerAt(`port://${threads.threadId}-${id}`, options.signal, () => {
    listeners.delete(id);
    if (listeners.size > 0 || !listening) return;
    listening = false;
    process.off('workerMessage', onKnock);
  });
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
  if (match === null) throw invalidArgument(`'${endpoint}' is not port://thread-listener`);
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
    const answer = await settleDial<unknown>(endpoint, { timeoutMs, signal }, (done, fail) => {
      const onClose = (): void => fail(new Error('the thread has ended'));
      // The first message alone: what follows is the connection's.
      ours.on('message', done);
      ours.on('close', onClose);
      return () => {
        ours.off('message', done);
        ours.off('close', onClose);
      };
    });
    if (answer !== 'welcome') throw new RpcError('unavailable', `cannot connect to ${endpoint}: nobody listens`);
  } catch (error) {
    ours.close();
    throw error instanceof RpcError ? error : refused(endpoint, error);
  }
  return new PortConnection(ours, endpoint);
}

/** Node's reasons: no such thread, one that has no listener, one that does not answer. */
function refused(endpoint: string, error: unknown): RpcError {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ERR_WORKER_MESSAGING_TIMEOUT')
    return new RpcError('deadline-exceeded', `${endpoint} did not answer in time`, { cause: error });
  const why = code === 'ERR_WORKER_MESSAGING_FAILED' ? 'nobody listens' : message;
  return new RpcError('unavailable', `cannot connect to ${endpoint}: ${why}`, { cause: error });
}
