/** @file The rank of an upstream test that is played here: what its body has at hand. */
import type { Agent } from '../../src/agent.ts';
import type { TorchOptions } from '../../src/index.ts';
import { member } from '../../test/member.ts';
import { GroupStore } from '../../src/joining/store.ts';
import { MeshShell } from '../../src/joining/mesh.ts';
import { resolveSecurity, serveStore, tcpTransport, torchClient } from '@backwire/rpc/internal';
import { offerTrainers } from './functions/trainer.ts';
import { forget } from './state.ts';

/** Longest wait for the other ranks, in milliseconds. */
const MEET_MS = 30_000;
/** What the default group keeps in its store, up to the '/' before a key, */
const DEFAULT_GROUP = 'default_pg/0/';
/** and where ProcessGroupGloo keeps its addresses there. */
const ADDRESSES = `${DEFAULT_GROUP}/cpu/`;

export interface Places {
  readonly rpc: string;
  readonly group: string;
  /** Whether no rank serves them. */
  readonly apart: boolean;
}

/** The name of a rank in PyTorch's tests. */
export const workerName = (rank: number): string => `worker${rank}`;

export class Rank {
  readonly rank: number;
  readonly size: number;
  private readonly places: Places;
  private readonly ends: (() => Promise<unknown>)[] = [];
  private joined: Agent | undefined;
  private times = 0;
  private opened: Promise<MeshShell> | undefined;

  constructor(rank: number, size: number, places: Places) {
    this.rank = rank;
    this.size = size;
    this.places = places;
    forget();
  }

  /** The agent of the test. */
  get agent(): Agent {
    if (this.joined === undefined) throw new Error('this rank has not joined');
    return this.joined;
  }

  /** As `init_rpc`: joins the static group of all ranks. */
  async init(options: Partial<TorchOptions> = {}): Promise<Agent> {
    this.joined = await member({
      name: workerName(this.rank),
      rank: this.rank,
      worldSize: this.size,
      initMethod: this.places.apart ? this.asUnderTorchrun() : this.places.rpc,
      trustNetwork: true,
      initTimeoutMs: MEET_MS,
      generation: this.times++,
      logger: SILENT,
      ...options,
    });
    offerTrainers(this.joined);
    return this.joined;
  }

  /** As `init_rpc` without a world size, under the rank of the test. */
  initDynamic(): Promise<Agent> {
    return this.init({ worldSize: undefined, membership: 'dynamic' });
  }

  /** The name of the rank `distance` further on. */
  next(distance = 1): string {
    return workerName((this.rank + distance) % this.size);
  }

  /** As `initialize_pg` with `dist.barrier()` after it: meets all ranks by torch's other kind of group. */
  async meet(): Promise<void> {
    this.opened ??= this.openGroup();
    await (await this.opened).barrier(MEET_MS);
  }

  /** As `initialize_pg` alone. */
  async openPg(): Promise<void> {
    this.opened ??= this.openGroup();
    await this.opened;
  }

  /** As `set` of the default group's store. */
  async tell(key: string): Promise<void> {
    await (await this.defaultStore()).set(key, 'True');
  }

  /** As `wait` of it. */
  async hear(key: string, timeoutMs: number): Promise<void> {
    await (await this.defaultStore()).await(key, timeoutMs, `'${key}'`);
  }

  /** As the first half of joining: comes to the store of the group. */
  async arrive(): Promise<void> {
    const [host, port] = apart(this.places.rpc);
    if (this.serves) await this.serve(host, port);
    const store = await this.connect(this.places.rpc, 'rpc_prefix_0');
    this.ends.push(async () => store.close());
    await store.arrive();
    if (this.serves) await store.awaitArrivals(this.size, MEET_MS);
  }

  /** Closes what the test has left. */
  async close(): Promise<void> {
    for (const end of this.ends.splice(0).reverse()) await end();
    if (this.joined !== undefined && !this.joined.isClosed) await this.joined[Symbol.asyncDispose]();
  }

  private get serves(): boolean {
    return this.rank === 0 && !this.places.apart;
  }

  /** The initMethod of a group whose store is somebody else's. */
  private asUnderTorchrun(): string {
    const [host, port] = apart(this.places.rpc);
    Object.assign(process.env, { TORCHELASTIC_USE_AGENT_STORE: 'True', MASTER_ADDR: host, MASTER_PORT: String(port) });
    return 'env://';
  }

  private async openGroup(): Promise<MeshShell> {
    const { rank, size } = this;
    const [host, port] = apart(this.places.group);
    if (this.serves) await this.serve(host, port);
    const store = await this.connect(this.places.group, ADDRESSES);
    this.ends.push(async () => store.close());
    await store.arrive();
    if (this.serves) await store.awaitArrivals(size, MEET_MS);
    const mesh = await MeshShell.open({
      rank,
      size,
      host,
      advertise: host,
      transport: tcpTransport(),
      store,
      left: () => MEET_MS,
    });
    this.ends.push(() => mesh.close());
    return mesh;
  }

  private async defaultStore(): Promise<GroupStore> {
    const store = await this.connect(this.places.group, DEFAULT_GROUP);
    this.ends.push(async () => store.close());
    return store;
  }

  private async serve(host: string, port: number): Promise<void> {
    const security = resolveSecurity({ mode: 'none', iUnderstand: true }, { bind: host });
    const server = await serveStore({ host, port, torch: true, security });
    this.ends.push(() => server.close({ lingerMs: 1_000 }));
  }

  private async connect(endpoint: string, prefix: string): Promise<GroupStore> {
    for (const end = Date.now() + MEET_MS; ;) {
      try {
        return new GroupStore(await torchClient(endpoint), prefix, endpoint);
      } catch (error) {
        if (Date.now() > end) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }
}

function apart(endpoint: string): [host: string, port: number] {
  const { hostname, port } = new URL(endpoint.replace(/^tcp:/, 'http:'));
  return [hostname, Number(port)];
}

const nothing = (): void => undefined;
const SILENT = { debug: nothing, info: nothing, warn: nothing, error: nothing };
