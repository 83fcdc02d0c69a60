/** @file Members of a group in processes of their own, for tests that stop, kill and cut them off. */
import { freePort, TestCluster, type ClusterOptions, type TestNetwork, type WorkerProcess } from '@backwire/testing';
import type { RpcOptions } from '../src/index.ts';
import type { Order } from './member.ts';

export const SECRET = 'a secret for tests only';

/** A tenth of the defaults, so that a test need not wait for them. */
export const TENTH = {
  pingMs: 200,
  suspectMs: 600,
  deadMs: 1_500,
  busyDeadMs: 6_000,
  reconnectGraceMs: 1_000,
  leaseMs: 1_000,
};

/** A fifth of the defaults, with a lease that a loaded machine renews in time: for tests in which more than two processes have to keep up. */
export const FIFTH = {
  pingMs: 400,
  suspectMs: 1_200,
  deadMs: 3_000,
  busyDeadMs: 12_000,
  reconnectGraceMs: 2_000,
  leaseMs: 4_000,
};

/** What a member answered: a value or the code of an error, and how long it took there, in milliseconds. */
export interface Answer {
  readonly value?: unknown;
  readonly code?: string;
  readonly text?: string;
  readonly ms: number;
}

export interface CrewOptions {
  readonly size: number;
  readonly options?: Partial<RpcOptions> | ((rank: number) => Partial<RpcOptions>);
  /** @default rank 0 serves an embedded store on loopback */
  readonly env?: Exclude<ClusterOptions['env'], undefined>;
  /** One host a rank. */
  readonly network?: TestNetwork;
}

/** A group of test members. Dispose it. */
export class Crew implements AsyncDisposable {
  readonly size: number;
  private readonly cluster: TestCluster;
  private next = 1;

  private constructor(options: ClusterOptions) {
    this.size = options.worldSize;
    this.cluster = new TestCluster(options);
  }

  /** Starts them all and waits until they have joined. */
  static async start({ size, options = {}, env, network }: CrewOptions): Promise<Crew> {
    const of = typeof options === 'function' ? options : () => options;
    const port = String(await freePort());
    const host = network?.address(0) ?? '127.0.0.1';
    const crew = new Crew({
      program: new URL('./member.ts', import.meta.url),
      worldSize: size,
      args: (rank) => [JSON.stringify({ ...(network && { bind: network.address(rank) }), ...of(rank) })],
      env: env ?? { MASTER_ADDR: host, MASTER_PORT: port, BACKWIRE_SECRET: SECRET },
      ...(network && { through: (rank: number) => network.inside(rank) }),
    });
    await Promise.all(crew.all.map((rank) => crew.worker(rank).line(/^up$/, { timeoutMs: 60_000 })));
    return crew;
  }

  get all(): readonly number[] {
    return Array.from({ length: this.size }, (_, rank) => rank);
  }

  worker(rank: number): WorkerProcess {
    return this.cluster.worker(rank);
  }

  kill(rank: number, signal: NodeJS.Signals = 'SIGKILL'): void {
    this.worker(rank).kill(signal);
  }

  /** Kills a member and waits until its process is gone. */
  async end(rank: number): Promise<void> {
    this.kill(rank);
    await this.worker(rank).exited();
  }

  /** Starts a member again that has ended; resolves when it has joined. */
  async again(rank: number, timeoutMs = 30_000): Promise<void> {
    const from = this.worker(rank).lines.length;
    this.cluster.restart(rank);
    await this.worker(rank).line(/^up$/, { from, timeoutMs });
  }

  async tell(rank: number, order: Order, timeoutMs = 60_000): Promise<Answer> {
    const id = this.next++;
    const worker = this.worker(rank);
    worker.send(JSON.stringify({ ...order, id }));
    const line = await worker.line(new RegExp(`^#${id} `), { timeoutMs });
    return JSON.parse(line.slice(line.indexOf(' '))) as Answer;
  }

  /** Calls of everybody to everybody: what came out, as 'w0>w1 7' or 'w0>w1 unavailable'. */
  async mesh(ranks: readonly number[] = this.all, timeoutMs = 10_000): Promise<string[]> {
    const calls = ranks.flatMap((a) => ranks.filter((b) => b !== a).map((b) => [a, b] as const));
    return Promise.all(
      calls.map(async ([a, b]) => {
        const { value, code } = await this.tell(a, { do: 'call', to: `w${b}`, timeoutMs });
        return `w${a}>w${b} ${String((value as number | undefined) ?? code)}`;
      }),
    );
  }

  /** Resolves when a member has printed that event. */
  async event(rank: number, event: string, timeoutMs = 60_000): Promise<void> {
    await this.worker(rank).line(`! ${event}`, { timeoutMs });
  }

  /** The events that a member has printed. */
  events(rank: number): string[] {
    return this.worker(rank)
      .lines.filter(({ text }) => text.startsWith('! '))
      .map(({ text }) => text.slice(2));
  }

  output(): string {
    return this.cluster.output();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster.dispose();
  }
}

/** What `mesh` says when everybody reached everybody. */
export function meshed(ranks: readonly number[]): string[] {
  return ranks.flatMap((a) => ranks.filter((b) => b !== a).map((b) => `w${a}>w${b} 7`));
}
