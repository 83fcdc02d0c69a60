/** @file The processes that run distributed programs, replaced when a program does not end. */
import { freePort, TestCluster } from '@backwire/testing';
import { serveStore, type StoreServer } from '@backwire/rpc/internal';
import type { Outcome } from './outcome.ts';
import type { Program } from './program.ts';

const PROGRAM = new URL('worker.ts', import.meta.url);
/** A program takes milliseconds; a machine may be busy. */
const PROGRAM_MS = 60_000;
const START_MS = 120_000;

export class ProcessGroup {
  readonly workers: number;
  private started: Promise<{ cluster: TestCluster; store: StoreServer }> | undefined;
  private sent = 0;

  constructor(workers: number) {
    this.workers = workers;
  }

  /** What a program comes to. One that does not end is a failure, and the next one gets new processes. */
  async run(program: Program): Promise<Outcome> {
    const { cluster } = await (this.started ??= this.start());
    const number = ++this.sent;
    const driver = cluster.worker(0);
    const head = `outcome ${number} `;
    const from = driver.lines.length;
    driver.send(JSON.stringify({ number, program }));
    try {
      const line = await driver.line(new RegExp(`^${head}`), { timeoutMs: PROGRAM_MS, from });
      return JSON.parse(line.slice(head.length)) as Outcome;
    } catch (error) {
      await this.stop();
      return {
        iterations: [],
        failure: `no end: ${error instanceof Error ? error.message.slice(0, 2_000) : String(error)}`,
      };
    }
  }

  async stop(): Promise<void> {
    const { started } = this;
    this.started = undefined;
    if (started === undefined) return;
    const { cluster, store } = await started;
    await cluster.dispose();
    await store.close();
  }

  private async start(): Promise<{ cluster: TestCluster; store: StoreServer }> {
    const port = await freePort();
    const store = await serveStore({ port, host: '127.0.0.1' });
    const env = {
      MASTER_ADDR: '127.0.0.1',
      MASTER_PORT: String(port),
      BACKWIRE_STORE_HOSTED: '1',
      BACKWIRE_BACKEND: 'cpu',
    };
    const cluster = new TestCluster({ program: PROGRAM, worldSize: this.workers, env });
    await cluster.worker(0).line('ready', { timeoutMs: START_MS });
    return { cluster, store };
  }
}
