/** @file The processes of the soak with faults: its workers, and its store wherever that stands. */
import { serveStore, type StoreServer } from '@backwire/rpc/internal';
import { freePort, start, type Asked } from '../processes.ts';

export type Place = 'rank0' | 'launcher' | 'apart';
export const PLACES: readonly Place[] = ['rank0', 'launcher', 'apart'];

const SECRET = 'only this soak knows, and it is long';
const WORKER = new URL('./worker.ts', import.meta.url);
const STORE = new URL('./store.ts', import.meta.url);

/** What a worker tells of itself. */
export interface WorkerReport {
  readonly ok: number;
  readonly codes: Readonly<Record<string, number>>;
  readonly verified: number;
  readonly standstillMs: number;
  readonly violations: readonly string[];
  readonly isFenced: boolean;
  readonly heapUsed: number;
}

export class Stage {
  readonly size: number;
  readonly place: Place;
  readonly workers: (Asked | undefined)[];
  private readonly port: number;
  private server: StoreServer | undefined;
  private storeProcess: Asked | undefined;

  private constructor(size: number, place: Place, port: number) {
    this.size = size;
    this.place = place;
    this.port = port;
    this.workers = Array.from({ length: size }, () => undefined);
  }

  /** All have joined, and call each other. */
  static async open(size: number, place: Place): Promise<Stage> {
    const stage = new Stage(size, place, await freePort());
    await stage.openStore();
    await Promise.all(stage.workers.map((_, rank) => stage.startWorker(rank)));
    return stage;
  }

  async startWorker(rank: number): Promise<void> {
    const hosted = this.place === 'rank0' ? {} : { BACKWIRE_STORE_HOSTED: '1' };
    const worker = await start(WORKER, {
      ...hosted,
      BACKWIRE_SECRET: SECRET,
      SOAK_RANK: String(rank),
      SOAK_SIZE: String(this.size),
      SOAK_STORE: `tcp://127.0.0.1:${this.port}`,
    });
    this.workers[rank] = worker;
    await worker.ask('join');
    await worker.ask('begin');
  }

  signal(rank: number, signal: NodeJS.Signals): void {
    const worker = this.workers[rank];
    if (worker !== undefined) process.kill(worker.pid, signal);
    if (signal === 'SIGKILL') this.workers[rank] = undefined;
  }

  async openStore(): Promise<void> {
    if (this.place === 'launcher') this.server = await serveStore({ port: this.port, secret: SECRET });
    else if (this.place === 'apart')
      this.storeProcess = await start(STORE, { BACKWIRE_SECRET: SECRET, SOAK_STORE_PORT: String(this.port) });
  }

  /** As a crash: what it held is gone. */
  async closeStore(): Promise<void> {
    await this.server?.close();
    if (this.storeProcess !== undefined) process.kill(this.storeProcess.pid, 'SIGKILL');
    this.server = this.storeProcess = undefined;
  }

  /** Who does not see or reach whom; empty when the group is whole. */
  async broken(): Promise<string[]> {
    const answers = await Promise.all(
      this.workers.map(async (worker, rank) => {
        if (worker === undefined) return [`w${rank} does not run`];
        const missing = await within(worker.ask('whole') as Promise<string[]>, 10_000, ['an answer of its own']);
        return missing.length === 0 ? [] : [`w${rank} misses ${missing.join(', ')}`];
      }),
    );
    return answers.flat();
  }

  async report(rank: number): Promise<WorkerReport | undefined> {
    return this.workers[rank]?.ask('report') as Promise<WorkerReport | undefined>;
  }

  async close(): Promise<void> {
    for (const worker of this.workers) if (worker !== undefined) process.kill(worker.pid, 'SIGKILL');
    await this.closeStore();
  }
}

export function within<T>(promise: Promise<T>, ms: number, otherwise: T): Promise<T> {
  return Promise.race([promise, new Promise<T>((resolve) => setTimeout(() => resolve(otherwise), ms).unref())]);
}
