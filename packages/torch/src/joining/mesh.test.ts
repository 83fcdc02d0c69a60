/** @file The mesh of a static group over sockets: how it opens, and what the end of a connection means. */
import { tcpTransport, type Connection, type Transport } from '@backwire/rpc/internal';
import { afterEach, describe, expect, it } from 'vitest';
import { writeGlooAddress } from '../gloo/address.ts';
import { meshKey } from '../group/store-text.ts';
import { MeshShell } from './mesh.ts';
import type { GroupStore } from './store.ts';

const TIMEOUT_MS = 10_000;
const LAG_MS = 100;

/** As much of a store as a mesh needs. */
class Store {
  private readonly values = new Map<string, Promise<Uint8Array>>();
  private readonly resolvers = new Map<string, (value: Uint8Array) => void>();

  set(key: string, value: Uint8Array): Promise<void> {
    void this.await(key);
    this.resolvers.get(key)?.(value);
    return Promise.resolve();
  }

  await(key: string): Promise<Uint8Array> {
    const known = this.values.get(key);
    if (known !== undefined) return known;
    const made = new Promise<Uint8Array>((resolve) => this.resolvers.set(key, resolve));
    this.values.set(key, made);
    return made;
  }
}

/** What is written arrives later, in its order. */
function lagging(connection: Connection): Connection {
  return new Proxy(connection, {
    get(target, key) {
      const found: unknown = Reflect.get(target, key);
      if (key === 'write')
        return (...args: Parameters<Connection['write']>) => setTimeout(() => target.write(...args), LAG_MS);
      return typeof found === 'function' ? (found.bind(target) as unknown) : found;
    },
    set: (target, key, value) => Reflect.set(target, key, value),
  });
}

function laggingTransport(): Transport {
  const inner = tcpTransport();
  return {
    ...inner,
    dial: async (...args: Parameters<Transport['dial']>) => lagging(await inner.dial(...args)),
    listen: (options, accept) => inner.listen(options, (connection) => accept(lagging(connection))),
  };
}

let shells: MeshShell[] = [];
afterEach(() => Promise.all(shells.map((shell) => shell.close())));

async function meshOf(size: number, lag?: number): Promise<MeshShell[]> {
  const store = new Store() as unknown as GroupStore;
  shells = await Promise.all(
    Array.from({ length: size }, (_, rank) => {
      const transport = rank === lag ? laggingTransport() : tcpTransport();
      return MeshShell.open({
        rank,
        size,
        host: '127.0.0.1',
        advertise: '127.0.0.1',
        transport,
        store,
        left: () => TIMEOUT_MS,
      });
    }),
  );
  return shells;
}

describe('a connection that ends', () => {
  it('of a rank that is through the barrier is nothing to one that still waits for another', async () => {
    const [first, second, third, fourth] = (await meshOf(4, 3)) as [MeshShell, MeshShell, MeshShell, MeshShell];
    const order: string[] = [];
    // torch's ranks close their connections as soon as they have joined.
    const leaving = [first, third].map(async (shell) => {
      await shell.barrier(TIMEOUT_MS);
      order.push('left');
      await shell.close();
    });
    const staying = [second, fourth].map(async (shell) => {
      await shell.barrier(TIMEOUT_MS);
      order.push('through');
    });
    await Promise.all([...leaving, ...staying]);
    expect(order[0]).toBe('left');
    expect(order.at(-1)).toBe('through');
    // Whoever needs the others again hears that they are gone.
    await expect(second.barrier(TIMEOUT_MS)).rejects.toThrow(/the connection to rank [02] ended/);
  });

  it.each(['a gathering', 'a barrier that it has not come to', 'nothing'])(
    'in %s fails all that wait',
    async (when) => {
      const [first, second, third, fourth] = (await meshOf(4)) as [MeshShell, MeshShell, MeshShell, MeshShell];
      const others = [first, second, fourth];
      const gone = /the connection to rank \d ended/;
      if (when === 'nothing') {
        await third.close();
        await new Promise((resolve) => setTimeout(resolve, LAG_MS));
      }
      const failing = others.map((shell) =>
        expect(
          when === 'a gathering' ? shell.allGather(Uint8Array.of(1), TIMEOUT_MS) : shell.barrier(TIMEOUT_MS),
        ).rejects.toThrow(gone),
      );
      await third.close();
      // Those that do not need it at once hear of it by those that do, who leave.
      const closed = others.map((shell, i) => failing[i]?.then(() => shell.close()));
      await Promise.all([...failing, ...closed]);
    },
  );
});

it('opens within one time, however many of the others come late', async () => {
  const store = new Store();
  // Each of the others takes 150 ms of the time, by this clock; and none by the machine's, which may be busy.
  let left = 600;
  const opening = MeshShell.open({
    rank: 0,
    size: 4,
    host: '127.0.0.1',
    advertise: '127.0.0.1',
    transport: tcpTransport(),
    store: {
      set: store.set.bind(store),
      await(key: string, timeoutMs: number) {
        expect(timeoutMs).toBe(left);
        left -= 150;
        return store.await(key);
      },
    } as unknown as GroupStore,
    left: () => left,
  });
  // They say where they are one after another, and never connect.
  for (const rank of [1, 2, 3]) {
    const sequences = [0, 1, 2, 3].map((other) => 4 * rank + other);
    const address = { hostname: '', host: Uint8Array.of(127, 0, 0, 2), port: 1, sequences };
    await store.set(meshKey(rank), writeGlooAddress(address));
  }
  await expect(opening).rejects.toMatchObject({
    code: 'deadline-exceeded',
    message: expect.stringContaining('ranks 1, 2, 3 did not connect within 150 ms'),
  });
});
