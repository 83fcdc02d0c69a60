/** @file Joins a torch group: store, door, place in the group. */
import { RpcError, WorkerInfo } from '@backwire/rpc';
import {
  becomeDefault,
  MAX_TIMER_MS,
  resolveSecurity,
  serveStore,
  tcpTransport,
  torchClient,
  type TorchClient,
  type Transport,
} from '@backwire/rpc/internal';
import { runAtRoot } from '@backwire/tensor/internal';
import { Agent } from './agent.ts';
import { checkMeshSize } from './gloo/address.ts';
import { meshKey, storePrefix } from './group/store-text.ts';
import { DynamicGroup, followChanges } from './joining/dynamic.ts';
import { historyOf, type History } from './joining/history.ts';
import { MeshShell } from './joining/mesh.ts';
import { StaticLeaving, exchangeNames, register, type Left } from './joining/static.ts';
import { GroupStore } from './joining/store.ts';
import { Door } from './links/door.ts';
import { settle, type TorchOptions, type TorchSettings } from './options.ts';
import type { TorchAgent } from './torch-agent.ts';

const HANDSHAKE_MS = 10_000;
const MAX_REQUESTS = 65_536;

/**
 * Joins a group of `torch.distributed.rpc` and makes this worker the process's default agent. Resolves when every member can be called.
 * @throws RpcError 'failed-precondition' without `trustNetwork`, for a default agent that is there already, or a group that does not fit;
 *   'deadline-exceeded' naming who is missing; 'invalid-argument'; 'unavailable' when the store is out of reach.
 */
export async function joinTorch(options: TorchOptions): Promise<TorchAgent> {
  const settings = settle(options, process.env);
  return becomeDefault(() => join(settings));
}

/** As `joinTorch`, without touching the default: beside an agent of Backwire, or several in one process. */
export async function createTorchAgent(options: TorchOptions): Promise<TorchAgent> {
  return join(settle(options, process.env));
}

function join(settings: TorchSettings): Promise<Agent> {
  return runAtRoot(async () => {
    const { initTimeoutMs } = settings;
    const end = initTimeoutMs === 0 ? Infinity : performance.now() + initTimeoutMs;
    const left: Left = () => (end === Infinity ? 0 : Math.max(1, Math.ceil(end - performance.now())));
    const silence = new AbortController();
    // Only where nobody could say more by then: who is missing is known a moment before, and what fails after that is let go of in peace.
    const timer =
      initTimeoutMs === 0
        ? undefined
        : setTimeout(() => silence.abort(), Math.min(initTimeoutMs + SILENCE_MS, MAX_TIMER_MS));
    const heard = (): void => clearTimeout(timer);
    try {
      const opened = await openStore(settings, left, silence.signal, heard);
      try {
        return await enter(settings, opened, left);
      } catch (error) {
        heard();
        opened.store.close();
        await opened.release('failed');
        throw error;
      }
    } catch (error) {
      if (!silence.signal.aborted) throw error;
      const { host, port } = settings.store;
      const text = `the store at ${hostText(host)}:${port} did not answer within ${initTimeoutMs} ms`;
      throw new RpcError('deadline-exceeded', text, { cause: error });
    } finally {
      heard();
    }
  });
}

const SILENCE_MS = 300;

interface Opened {
  readonly store: GroupStore;
  readonly localHost: string;
  readonly history: History;
  /** Ends what this worker serves for the others, who may still read the last keys. */
  release(how: keyof typeof LINGER_MS): Promise<void>;
}

/** For how long the others may go on reading: from a group that has ended, and from one that they may be failing to join as well. */
const LINGER_MS = { ended: 5_000, failed: 1_000 };

/** The store, which rank 0 of a static group serves, unless torchrun does. `failed` is called before it is let go of. */
async function openStore(
  settings: TorchSettings,
  left: Left,
  signal: AbortSignal,
  failed: () => void,
): Promise<Opened> {
  const { size, rank, storeServed } = settings;
  const { host, port } = settings.store;
  const serves = size !== undefined && rank === 0 && !storeServed;
  const server = serves
    ? await serveStore({
        host,
        port,
        torch: true,
        security: resolveSecurity({ mode: 'none', iUnderstand: true }, { bind: host }),
      })
    : undefined;
  const release: Opened['release'] = async (how) => {
    await server?.close({ lingerMs: LINGER_MS[how] });
  };
  let client: TorchClient | undefined;
  try {
    const endpoint = `tcp://${hostText(host)}:${port}`;
    client = await patiently(() => torchClient(endpoint, { signal }), left);
    const history = historyOf(endpoint, settings.name, settings.generation === 0);
    const generation = settings.generation ?? (size === undefined ? 0 : history.joins);
    if (size !== undefined) history.joins = generation + 1;
    const store = new GroupStore(client, storePrefix(generation), endpoint);
    if (size !== undefined && !storeServed) {
      await store.arrive();
      if (rank === 0) await allArrived(store, size, left());
    }
    return { store, localHost: client.localHost.replace(/^::ffff:/, ''), history, release };
  } catch (error) {
    failed();
    client?.close();
    await release('failed');
    throw error;
  }
}

/** Waits until `size` have come. @throws RpcError 'failed-precondition' where those who came expect another size, else as `awaitArrivals`. */
async function allArrived(store: GroupStore, size: number, timeoutMs: number): Promise<void> {
  try {
    await store.awaitArrivals(size, timeoutMs);
  } catch (error) {
    if (RpcError.from(error).code !== 'deadline-exceeded') throw error;
    // Those who take themselves for all have published where they are reached.
    for (let rank = 1; rank < size; rank++)
      if (await store.has(meshKey(rank))) checkMeshSize(await store.bytes(meshKey(rank)), rank, size);
    throw error;
  }
}

function hostText(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

const RETRY_MS = 100;

/** The store may not be there yet: whoever serves it starts as we do. */
async function patiently<T>(connect: () => Promise<T>, left: Left): Promise<T> {
  for (;;) {
    try {
      return await connect();
    } catch (error) {
      const unreachable =
        error instanceof RpcError && (error.code === 'unavailable' || error.code === 'deadline-exceeded');
      if (!unreachable || (left() > 0 && left() <= RETRY_MS)) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

async function enter(settings: TorchSettings, opened: Opened, left: Left): Promise<Agent> {
  const { rank, size } = settings;
  if (size === undefined || rank === undefined) return enterDynamic(settings, opened, left);
  const { store, localHost, history } = opened;
  const transport = tcpTransport();
  const at = placeOf(settings, localHost);
  const mesh = await MeshShell.open({ rank, size, ...at, transport, store, left });
  let door: Door | undefined;
  let agent: Agent | undefined;
  try {
    const names = await exchangeNames(mesh, settings.name, left);
    agent = makeAgent(settings, new WorkerInfo(settings.name, rank), transport, history);
    door = await openDoor(settings, agent, transport, at, new Set(names));
    await register(store, agent, names, door.address, left);
    agent.begin(door, new StaticLeaving(store, mesh, history, (how) => opened.release(how)));
    await agent.collectives.barrier({ timeoutMs: left() });
    await mesh.barrier(left());
    return agent;
  } catch (error) {
    await agent?.abandon();
    await door?.close();
    await mesh.close();
    throw error;
  }
}

/** A dynamic group: the door is open before the others are told of it. */
async function enterDynamic(settings: TorchSettings, opened: Opened, left: Left): Promise<Agent> {
  const { store, localHost } = opened;
  const transport = tcpTransport();
  const group = new DynamicGroup(store, () => opened.release('ended'));
  const id = settings.rank ?? (await group.freshId());
  const agent = makeAgent(settings, new WorkerInfo(settings.name, id), transport, opened.history);
  followChanges(agent, group);
  const door = await openDoor(settings, agent, transport, placeOf(settings, localHost), undefined);
  try {
    // Members that learn of this worker call it back at once.
    agent.begin(door, group);
    await group.join(agent, door.address, settings.evict, left);
    return agent;
  } catch (error) {
    await agent.abandon();
    await door.close();
    throw error;
  }
}

/** Where a worker listens, and where the others are told that it does. */
interface Place {
  readonly host: string;
  readonly advertise: string;
}

const EVERY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

function placeOf({ bind, advertise }: TorchSettings, localHost: string): Place {
  const host = bind ?? localHost;
  // Nobody can be told of all addresses: the one from which the store is reached is one that works.
  return { host, advertise: advertise ?? (EVERY_ADDRESS.has(host) ? localHost : host) };
}

function makeAgent(settings: TorchSettings, self: WorkerInfo, transport: Transport, history: History): Agent {
  const dynamic = settings.size === undefined;
  return new Agent({ ...settings, self, transport, dynamic, collectives: history.collectives });
}

function openDoor(
  settings: TorchSettings,
  agent: Agent,
  transport: Transport,
  at: Place,
  names: ReadonlySet<string> | undefined,
): Promise<Door> {
  const { limits, logger, channels } = settings;
  return Door.open(
    transport,
    { host: at.host, advertise: at.advertise },
    {
      limits,
      channels,
      handshakeMs: HANDSHAKE_MS,
      maxRequests: MAX_REQUESTS,
      admit: (name) =>
        names === undefined || names.has(name)
          ? undefined
          : new RpcError('permission-denied', 'no worker of this group has that name'),
      serve: (asker, body) => agent.server.serve(asker, body),
      malformed: (asker, error) => agent.server.malformed(asker, error),
      refused: (remote, error) => logger.warn({ remote, error }, 'a connection was refused or broke'),
    },
  );
}
