/** @file Who may write to the store and holds no secret: what he writes of a member is not believed, and relaying to the real one does not help him. */
import { connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { createAgent, rpcAsync, rpcFunction, type RpcAgent, type RpcOptions } from '../index.ts';
import { createAcceptor } from '../connect/accept.ts';
import { dialMember, misdirected } from '../connect/dial.ts';
import { decodeView, encodeView, type View, type ViewMember } from '../protocol/membership.ts';
import { openStore } from '../stores/open.ts';
import { tcpTransport } from '../transports/tcp.ts';
import { isProved, proveMember } from './member-proof.ts';
import { findKeys, type Keys } from './secret.ts';

const echo = rpcFunction('store-writer/echo', (x: unknown) => x);
const secret = 'sixteen bytes and more';
const keys = findKeys({ secret, env: {} }) as Keys;
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Listens, and passes everything on to `port`: what a man in the middle does. */
async function relay(port: number): Promise<{ address: string; bytes(): number; to(port: number): void }> {
  let target = port;
  const sockets: Socket[] = [];
  let bytes = 0;
  const server = createServer((client) => {
    const inner = connect(target, '127.0.0.1');
    sockets.push(client, inner);
    client.on('data', (chunk) => (bytes += chunk.length));
    client.on('error', () => inner.destroy()).on('close', () => inner.destroy());
    inner.on('error', () => client.destroy()).on('close', () => client.destroy());
    client.pipe(inner);
    inner.pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  });
  return {
    address: `tcp://127.0.0.1:${(server.address() as { port: number }).port}`,
    bytes: () => bytes,
    to: (port) => (target = port),
  };
}

let groups = 0;
const moved = (member: ViewMember, address: string): ViewMember => ({
  ...member,
  endpoints: [{ transport: 'tcp', domain: '', address }],
});

/** A group into which w1 has come first, and then, once somebody has changed what the store says of it, w0. */
async function joined(change: (w1: ViewMember) => ViewMember): Promise<RpcAgent> {
  const store = `memory://store-writer-${groups++}`;
  const options: Partial<RpcOptions> = {
    transports: ['tcp'],
    security: { mode: 'hmac', secret },
    membership: 'dynamic',
  };
  const start = async (name: string): Promise<RpcAgent> => {
    const agent = await createAgent({ name, store, ...options });
    cleanups.push(() => agent.shutdown({ graceful: false }));
    return agent;
  };
  await start('w1');
  const { store: his } = await openStore(store);
  cleanups.push(() => his.close());
  const before = (await his.get(KEY)) as Uint8Array;
  const view = decodeView(before) as View;
  const members = view.members.map(change);
  expect((await his.compareAndSet(KEY, before, encodeView({ ...view, members }))).ok).toBe(true);
  return start('w0');
}
const KEY = 'backwire/default/view';
const portOf = ({ endpoints }: ViewMember): number => Number(endpoints[0]?.address.split(':').at(-1));
const call = (agent: RpcAgent): Promise<unknown> =>
  agent
    .run(() => rpcAsync('w1', echo, ['what nobody else may see'], { timeoutMs: 5_000 }))
    .catch((error: unknown) => error);

describe('a writer to the store without the secret', () => {
  test('changes nothing: the call works', async () => {
    expect(await call(await joined((w1) => w1))).toBe('what nobody else may see');
  });

  test('gives a member another address, and relays: it is not dialled, and the caller is told at once', async () => {
    const middle = await relay(0);
    const agent = await joined((w1) => {
      middle.to(portOf(w1));
      return moved(w1, middle.address);
    });
    expect(await call(agent)).toMatchObject({
      code: 'unauthenticated',
      executed: 'no',
      message: expect.stringContaining(
        "worker 'w1' was not written by somebody who holds the group's secret",
      ) as string,
    });
    expect(middle.bytes()).toBe(0);
  });

  test.each<[string, (member: ViewMember) => ViewMember]>([
    ['the name', (member) => ({ ...member, name: 'w2' })],
    ['the rank', (member) => ({ ...member, id: 7 })],
    ['the life', (member) => ({ ...member, incarnation: 9 })],
    ['the host', (member) => ({ ...member, host: 'elsewhere' })],
    ['the process', (member) => ({ ...member, pid: 9 })],
    ['an endpoint', (member) => moved(member, 'tcp://10.0.0.6:1')],
    ['no endpoint', (member) => ({ ...member, endpoints: [] })],
    ['the proof', (member) => ({ ...member, proof: 'x' })],
    ['the proof of another group', (member) => ({ ...member, proof: proveMember(keys, 'h', member) })],
  ])('cannot change %s of an entry', (_, change) => {
    const plain = moved(
      { name: 'w1', id: 1, incarnation: 5, endpoints: [], host: 'h', pid: 2, extensions: [] },
      'tcp://10.0.0.5:1',
    );
    const member = { ...plain, proof: proveMember(keys, 'g', plain) };
    expect(isProved(keys, 'g', member)).toBe(true);
    // What a store does to it.
    expect(isProved(keys, 'g', JSON.parse(JSON.stringify(member)) as ViewMember)).toBe(true);
    expect(isProved(keys, 'g', change(member))).toBe(false);
  });
});

describe('a dialer that was led to another address', () => {
  /** What comes of dialling `dialled` where 'w1#5' listens at `own`, with `far` what its entry says; all is relayed to it. */
  async function outcome(life: number): Promise<{ dialer: unknown; acceptor: string | undefined; straight: unknown }> {
    let refusal: string | undefined;
    const own: string[] = [];
    const self = { name: 'w1', incarnation: 5 };
    const door = createAcceptor({
      group: 'g',
      keys,
      claim: Buffer.from('w1#5'),
      mistaken: (claim) => misdirected(claim, self, own),
      onPeer: ({ connection }) => connection.destroy(),
      onRefused: ({ message }) => (refusal = message),
    });
    const listener = await tcpTransport().listen({}, door);
    cleanups.push(() => listener.close());
    own.push(listener.endpoint);
    const middle = await relay(Number(listener.endpoint.split(':').at(-1)));
    const dialer = { group: 'g', name: 'w0', incarnation: 1, keys, checksums: undefined, provesMembers: false };
    const member = { name: 'w1', id: 1, incarnation: life, endpoints: [], host: 'h', pid: 2, extensions: [] };
    const dial = (address: string): Promise<unknown> =>
      dialMember(dialer, moved(member, address), [tcpTransport()], new AbortController().signal).then(
        (connection) => {
          connection.destroy();
          return 'in';
        },
        (error: unknown) => error,
      );
    const led = await dial(middle.address);
    const acceptor = refusal;
    return { dialer: led, acceptor, straight: await dial(listener.endpoint) };
  }

  test('is refused by the worker he meant, although both hold the secret', async () => {
    const { dialer, acceptor, straight } = await outcome(5);
    expect(dialer).toMatchObject({ code: 'unauthenticated' });
    expect(acceptor).toMatch(/'w0#1' dialled 'w1#5' at tcp:.*none of worker 'w1#5'/);
    expect(straight).toBe('in');
  });

  test('and by another life of that worker, at its own address too', async () => {
    const { straight } = await outcome(4);
    expect(straight).toMatchObject({ code: 'unauthenticated' });
  });
});
