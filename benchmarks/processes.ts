/** @file Contestants in processes of their own: one that measures and one that serves, told what to do over Node's own channel. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/** Sources run as they are published: see `plain.mjs`. What is published runs by itself. */
const PLAIN = ['--import', new URL('./plain.mjs', import.meta.url).href, '--conditions=@backwire/source'];

/** Something that a process can be asked for. Arguments and results are JSON. */
export type Ask = (...args: never[]) => unknown;

/** A process that answers by name what `serveAsks` gave it. */
export interface Asked {
  readonly pid: number;
  ask(what: string, ...args: readonly unknown[]): Promise<unknown>;
  /** Ends it: its `close`, if it has one, then its channel. */
  close(): Promise<void>;
}

/** Starts `program` and waits until it serves. */
export async function start(
  program: URL,
  env: Readonly<Record<string, string>> = {},
  nodeFlags: readonly string[] = [],
): Promise<Asked> {
  const loader = program.pathname.endsWith('.ts') ? PLAIN : [];
  const flags = [...loader, ...nodeFlags, ...(process.env['BENCH_NODE_FLAGS']?.split(' ') ?? [])];
  const child = fork(program, { execArgv: flags, env: { ...process.env, ...env }, serialization: 'advanced' });
  const gone = once(child, 'exit');
  const waiting = new Map<
    number,
    { readonly resolve: (value: unknown) => void; readonly reject: (error: Error) => void }
  >();
  let last = 0;
  let ready = (): void => undefined;
  const started = new Promise<void>((resolve) => (ready = resolve));
  child.on('message', (message: Reply | 'ready') => {
    if (message === 'ready') {
      ready();
      return;
    }
    const { id, value, error } = message;
    const asked = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) asked?.resolve(value);
    else asked?.reject(new Error(`${program.pathname}: ${error}`));
  });
  child.on('exit', (code) => {
    for (const { reject } of waiting.values()) reject(new Error(`${program.pathname} ended with ${code}`));
  });
  await Promise.race([started, gone.then(() => Promise.reject(new Error(`${program.pathname} did not start`)))]);
  const ask = (what: string, ...args: readonly unknown[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const id = ++last;
      waiting.set(id, { resolve, reject });
      child.send({ id, what, args });
    });
  return {
    pid: child.pid as number,
    ask,
    close: async () => {
      if (child.exitCode !== null) return;
      await ask('close').catch(() => undefined);
      disconnect(child);
      await gone;
    },
  };
}

interface Request {
  readonly id: number;
  readonly what: string;
  readonly args: readonly never[];
}

interface Reply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}

/** In the process: answers what it is asked until its parent lets go or dies. */
export function serveAsks(asks: Readonly<Record<string, Ask>>): void {
  process.on('message', ({ id, what, args }: Request) => {
    const answer = async (): Promise<Reply> => {
      try {
        const ask = asks[what];
        if (ask === undefined && what !== 'close') throw new Error(`cannot '${what}'`);
        return { id, value: await ask?.(...args) };
      } catch (error) {
        return { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) };
      }
    };
    void answer().then((reply) => process.connected && process.send?.(reply));
  });
  process.on('disconnect', () => process.exit(0));
  process.send?.('ready');
}

/** A TCP port of the loopback that nobody uses. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

function disconnect(child: ChildProcess): void {
  if (child.connected) child.disconnect();
}
