/** @file Starts and meshes a group of many workers over some processes, and measures both. */
import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { serveStore } from '../src/internal.ts';
import type { Order } from './mesh-process.ts';

export interface MeshReport {
  readonly workers: number;
  readonly processes: number;
  /** From the moment all processes are up until every worker has joined the complete group, milliseconds. */
  readonly startedMs: number;
  /** From then until every worker has called every worker. */
  readonly meshedMs: number;
  readonly calls: number;
  /** Of all processes together. */
  readonly rssBytes: number;
  /** What it grew by from joining to the last call, for each end of a session. */
  readonly bytesPerEnd: number;
}

const PROGRAM = fileURLToPath(new URL('./mesh-process.ts', import.meta.url));
/** Sources as they are published: tsx wraps every function that is made inside of another, a seventh of the time of a mesh. */
const LOADER = new URL('../../../benchmarks/plain.mjs', import.meta.url).href;

/** Runs it; the processes are gone afterwards, whatever happens. */
export async function runMesh(workers: number, processes: number): Promise<MeshReport> {
  const secret = 'the secret of the mesh, made for this';
  const server = await serveStore({ secret });
  // The store is served here, so that rank 0 need not.
  const env = { ...process.env, BACKWIRE_SECRET: secret, BACKWIRE_STORE_HOSTED: '1' };
  const children = Array.from({ length: processes }, () =>
    fork(PROGRAM, [], { env, execArgv: ['--import', LOADER, '--conditions=@backwire/source'], stdio: 'inherit' }),
  );
  try {
    await Promise.all(children.map((child) => answer(child)));
    const store = `tcp://127.0.0.1:${server.port}`;
    const ranks = Array.from({ length: workers }, (_, rank) => rank);
    const began = performance.now();
    const joined = await tell(children, (i) => ({
      do: 'start',
      ranks: ranks.filter((rank) => rank % processes === i),
      workers,
      store,
    }));
    const started = performance.now();
    const meshed = await tell(children, () => ({ do: 'mesh', workers }));
    const ended = performance.now();
    const sum = (of: readonly Record<string, unknown>[], key: string): number =>
      of.reduce((total, result) => total + Number(result[key]), 0);
    await tell(children, () => ({ do: 'end' }));
    return {
      workers,
      processes,
      startedMs: started - began,
      meshedMs: ended - started,
      calls: sum(meshed, 'calls'),
      rssBytes: sum(meshed, 'rss'),
      bytesPerEnd: (sum(meshed, 'rss') - sum(joined, 'rss')) / (workers * (workers - 1)),
    };
  } finally {
    for (const child of children) child.kill('SIGKILL');
    await server.close();
  }
}

function tell(children: readonly ChildProcess[], order: (i: number) => Order): Promise<Record<string, unknown>[]> {
  return Promise.all(
    children.map((child, i) => {
      const result = answer(child);
      child.send(order(i));
      return result;
    }),
  );
}

/** The next thing a process says. */
function answer(child: ChildProcess): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null): void => reject(new Error(`a process of the mesh ended with ${String(code)}`));
    child.once('exit', onExit);
    child.once('message', (said) => {
      child.off('exit', onExit);
      const result = said as Record<string, unknown>;
      if (result['error'] === undefined) resolve(result);
      else reject(new Error(JSON.stringify(result['error'])));
    });
  });
}
