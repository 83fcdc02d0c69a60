/** @file WebSockets: who may upgrade, and sockets that cannot be paused. */
import { once } from 'node:events';
import { get } from 'node:http';
import { connect, Server, type AddressInfo, type Socket } from 'node:net';
import { afterEach, expect, test, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { plainText } from '../base/plain-text.ts';
import { HANDSHAKE_TIMEOUT_MS, MAX_HALF_OPEN } from '../security/handshake.ts';
import { findKeys, type Keys } from '../security/secret.ts';
import type { Connection, Listener } from './transport.ts';
import { dialWebSocket, REFUSALS, type WebSocketClass } from './websocket-client.ts';
import { WebSocketConnection, type AnyWebSocket } from './websocket-connection.ts';
import { webSocketToken, webSocketTransport } from './websocket.ts';

const keys = findKeys({ secret: 'sixteen bytes and more', env: {} }) as Keys;
const other = findKeys({ secret: 'another secret, as long as it', env: {} }) as Keys;
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  vi.restoreAllMocks();
});

async function serve(options = {}): Promise<{ listener: Listener; accepted: Connection[]; port: number }> {
  const accepted: Connection[] = [];
  const transport = webSocketTransport({ group: 'g', keys, allowedOrigins: ['https://app.example.com'], ...options });
  const listener = await transport.listen({}, (connection) => accepted.push(connection));
  cleanups.push(
    () => listener.close(),
    () => accepted.forEach((connection) => connection.destroy()),
  );
  return { listener, accepted, port: Number(new URL(listener.endpoint).port) };
}

/** What a browser would send, with any token and origin. */
async function upgrade(
  endpoint: string,
  protocols: string[],
  headers: Record<string, string> = {},
): Promise<number | 'open'> {
  const socket = new WebSocket(endpoint, protocols, { headers });
  cleanups.push(() => socket.terminate());
  return new Promise((resolve) => {
    socket.on('open', () => resolve('open'));
    socket.on('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0));
    socket.on('error', () => undefined);
  });
}

test('the token and the origin decide who may upgrade', async () => {
  const { listener } = await serve({ keys: [keys[0], other[0]] });
  const token = `token.${webSocketToken(keys, 'g')}`;
  const at = listener.endpoint;
  expect(await upgrade(at, ['backwire.v1', token])).toBe('open');
  expect(await upgrade(at, ['backwire.v1', `token.${webSocketToken(other, 'g')}`])).toBe('open');
  expect(await upgrade(at, ['backwire.v1', token], { origin: 'https://app.example.com' })).toBe('open');
  expect(await upgrade(at, ['backwire.v1', token], { origin: 'https://evil.example.com' })).toBe(403);
  expect(await upgrade(at, ['backwire.v1', token], { origin: 'null' })).toBe(403);
  expect(await upgrade(at, ['backwire.v1'])).toBe(403);
  expect(await upgrade(at, ['backwire.v1', 'token.00'])).toBe(403);
  expect(await upgrade(at, ['backwire.v1', `token.${webSocketToken(keys, 'h')}`])).toBe(403);
  expect(await upgrade(at, [token])).toBe(403);
  expect(await upgrade(at.replace('/backwire', '/else'), ['backwire.v1', token])).toBe(403);
});

test.each([
  ['*', "name each as in 'https://app.example.com'"],
  ['app.example.com', "name each as in 'https://app.example.com'"],
  ['https://*.example.com', "name each as in 'https://app.example.com'"],
  ['https://App.example.com/', "did you mean 'https://app.example.com'?"],
  ['http://127.0.0.1:8080/index.html', "did you mean 'http://127.0.0.1:8080'?"],
])('an origin that no page has is refused: %s', (origin, advice) => {
  const made = (): unknown => webSocketTransport({ group: 'g', allowedOrigins: ['https://a.example', origin] });
  expect(made).toThrow(`BACKWIRE_ALLOWED_ORIGINS has '${origin}', which is the origin of no page; ${advice}`);
});

test('what is said of a stranger that was refused moves no cursor and stays one line', async () => {
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  cleanups.push(() => warned.mockRestore());
  const { listener } = await serve({ keys });
  expect(
    await upgrade(listener.endpoint, ['backwire.v1'], { origin: 'https://x\u009b2J\u009b31m\u0085all is well' }),
  ).toBe(403);
  const text = String(warned.mock.calls[0]?.[0]);
  expect(text).toContain(String.raw`"https://x\u009b2J`);
  expect(text).toBe(plainText(text));
});

test('the origins of extensions, apps and local files are some', () => {
  const allowedOrigins = ['chrome-extension://abcdef', 'capacitor://localhost', 'null', 'http://[::1]:80', ''];
  expect(webSocketTransport({ group: 'g', allowedOrigins }).name).toBe('ws');
});

test('dialling with the wrong secret is refused in words', async () => {
  const { listener } = await serve();
  await expect(webSocketTransport({ group: 'g', keys: other }).dial(listener.endpoint)).rejects.toMatchObject({
    code: 'unauthenticated',
  });
  await expect(webSocketTransport({ group: 'g', keys }).dial('ws://127.0.0.1:1/backwire')).rejects.toMatchObject({
    code: 'unavailable',
  });
  await expect(webSocketTransport({ group: 'g', keys }).dial('tcp://x:1')).rejects.toMatchObject({
    code: 'invalid-argument',
  });
});

test('a port with the digits 403 refuses nobody; what is no address is told so', async () => {
  /** Fails as `ws` does where nobody listens. */
  class Refusing extends EventTarget {
    readonly bufferedAmount = 0;
    binaryType = 'blob';
    constructor(endpoint: string) {
      super();
      const error = new Error(`connect ECONNREFUSED ${new URL(endpoint).host}`);
      setImmediate(() => this.dispatchEvent(Object.assign(new Event('error'), { error })));
    }
    send(): void {
      throw new Error('it never opened');
    }
    close(): void {
      // It never opened.
    }
  }
  const client = (): Promise<WebSocketClass> => Promise.resolve(Refusing as unknown as WebSocketClass);
  await expect(dialWebSocket({ group: 'g', client }, 'ws://127.0.0.1:40312/backwire')).rejects.toMatchObject({
    code: 'unavailable',
  });
  await expect(webSocketTransport({ group: 'g', keys }).dial('ws://127.0.0.1:99999/backwire')).rejects.toMatchObject({
    code: 'invalid-argument',
    message: expect.stringContaining('cannot connect to ws://127.0.0.1:99999/backwire: '),
  });
});

test('a server gets nobody to take long messages, or such as are long once they are unpacked', async () => {
  const offers: string[] = [];
  const hostile = new WebSocketServer({
    port: 0,
    host: '127.0.0.1',
    perMessageDeflate: { threshold: 0 },
    handleProtocols: () => 'backwire.v1',
  });
  cleanups.push(() => hostile.close());
  hostile.on('connection', (socket, request) => {
    offers.push(request.headers['sec-websocket-extensions'] ?? 'none');
    socket.on('error', () => undefined);
    socket.send(Buffer.alloc(64 * 1024 * 1024));
  });
  await once(hostile, 'listening');
  const endpoint = `ws://127.0.0.1:${(hostile.address() as AddressInfo).port}/backwire`;
  const connection = await webSocketTransport({ group: 'g', keys }).dial(endpoint);
  let received = 0;
  const ended = await new Promise<Error | undefined>((resolve) =>
    connection.attach({
      nextBuffer: () => new Uint8Array(1024),
      received: (count) => (received += count),
      closed: resolve,
    }),
  );
  expect([offers, received, String(ended)]).toEqual([
    ['none'],
    0,
    expect.stringContaining('Max payload size exceeded'),
  ]);
});

test('plain HTTP, noise and those who only wait are turned away', async () => {
  const { port, listener, accepted } = await serve();
  const [response] = (await once(get({ host: '127.0.0.1', port, path: '/' }), 'response')) as [
    { statusCode: number; resume(): void },
  ];
  response.resume();
  expect(response.statusCode).toBe(426);
  const noise = connect(port, '127.0.0.1').on('error', () => undefined);
  noise.resume();
  noise.write('no HTTP at all\r\n\r\n');
  await once(noise, 'close');
  const idle = Array.from({ length: MAX_HALF_OPEN + 10 }, () =>
    connect(port, '127.0.0.1').on('error', () => undefined),
  );
  cleanups.push(() => idle.forEach((socket) => socket.destroy()));
  await once(idle[0] as NodeJS.EventEmitter, 'close');
  const connection = await webSocketTransport({ group: 'g', keys }).dial(listener.endpoint);
  cleanups.push(() => connection.destroy());
  expect(accepted).toHaveLength(1);
});

/** A request to upgrade whose sender neither reads on nor ends its side. */
async function stubborn(port: number, protocols: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => undefined);
  cleanups.push(() => socket.destroy());
  const key = 'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==';
  const upgrade = `connection: upgrade\r\nupgrade: websocket\r\n${key}\r\nsec-websocket-protocol: ${protocols}`;
  socket.write(`GET /backwire HTTP/1.1\r\nhost: x\r\n${upgrade}\r\n\r\n`);
  await once(socket, 'data');
  return socket;
}

/** Connections that a server has. */
const connectionsOf = (server: Server): Promise<number> =>
  new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));

test('who is refused and does not hang up is hung up on', async () => {
  const servers: Server[] = [];
  const noted = vi.spyOn(Server.prototype, 'listen').mockImplementation(function (this: Server, ...args: unknown[]) {
    servers.push(this);
    noted.mockRestore();
    return (this.listen as (...args: unknown[]) => Server)(...args);
  });
  const { port } = await serve();
  const [server] = servers as [Server];
  for (let i = 0; i < 20; i++) await stubborn(port, 'nothing');
  await expect.poll(() => connectionsOf(server)).toBe(0);
  // These are opened to be told why, and closed; they do not answer.
  vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  for (let i = 0; i < 20; i++) await stubborn(port, `backwire.v1, ${REFUSALS.secret}`);
  expect(await connectionsOf(server)).toBe(20);
  vi.advanceTimersByTime(HANDSHAKE_TIMEOUT_MS);
  vi.useRealTimers();
  await expect.poll(() => connectionsOf(server)).toBe(0);
});

test('those that are refused count among the strangers: the oldest makes room', async () => {
  vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  const { port } = await serve();
  const oldest = await stubborn(port, `backwire.v1, ${REFUSALS.secret}`);
  const idle = Array.from({ length: MAX_HALF_OPEN }, () => connect(port, '127.0.0.1').on('error', () => undefined));
  cleanups.push(() => idle.forEach((socket) => socket.destroy()));
  await once(oldest.resume(), 'end');
});

test('messages that are text or too long end the connection', async () => {
  const { listener, accepted } = await serve();
  for (const message of ['text', Buffer.alloc(2 * 1024 * 1024)]) {
    const socket = new WebSocket(listener.endpoint, ['backwire.v1', `token.${webSocketToken(keys, 'g')}`]);
    cleanups.push(() => socket.terminate());
    await once(socket, 'open');
    const connection = accepted.at(-1) as Connection;
    const ended = new Promise<Error | undefined>((resolve) =>
      connection.attach({ nextBuffer: () => new Uint8Array(1024), received: () => undefined, closed: resolve }),
    );
    socket.send(message);
    expect(await ended).toBeInstanceOf(Error);
  }
});

test('beyond loopback it wants a proxy with TLS; the advertised address is taken as it is', async () => {
  const transport = webSocketTransport({ group: 'g', keys });
  await expect(transport.listen({ host: '0.0.0.0' }, () => undefined)).rejects.toMatchObject({
    code: 'invalid-argument',
  });
  const listener = await transport.listen({ advertise: 'wss://example.com/backwire' }, () => undefined);
  cleanups.push(() => listener.close());
  expect(listener.endpoint).toBe('wss://example.com/backwire');
});

test('a socket without callbacks or pausing, as in browsers, keeps its promises too', async () => {
  const { listener, accepted } = await serve();
  const socket = new WebSocket(listener.endpoint, ['backwire.v1', `token.${webSocketToken(keys, 'g')}`]);
  await once(socket, 'open');
  // The browser's interface alone: send, close, events and the amount that waits.
  const plain: AnyWebSocket = {
    binaryType: '',
    get bufferedAmount() {
      return socket.bufferedAmount;
    },
    send: (data) => socket.send(data),
    close: (code) => socket.close(code),
    addEventListener: (type: string, listen: (event: never) => void) =>
      socket.addEventListener(type as 'message', listen as never),
  };
  socket.binaryType = 'arraybuffer';
  const connection = new WebSocketConnection(plain, listener.endpoint, { encrypted: false, authenticated: false });
  cleanups.push(() => connection.destroy());
  await expect.poll(() => accepted.length).toBe(1);
  const peer = accepted[0] as Connection;
  peer.write([Buffer.from('early ')]);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const got = await new Promise<string>((resolve) => {
    const memory = new Uint8Array(4);
    let text = '';
    connection.attach({
      nextBuffer: () => memory,
      received: (count) => {
        text += Buffer.from(memory.subarray(0, count)).toString();
        if (text.length === 10) resolve(text);
      },
      closed: () => undefined,
    });
    peer.write([Buffer.from('late')]);
  });
  expect(got).toBe('early late');
  let flushed = false;
  const sent = new Promise<Error | undefined>((resolve) =>
    connection.write([new Uint8Array(24 * 1024 * 1024)], resolve),
  ).then((error) => {
    flushed = true;
    return error;
  });
  expect(connection.bufferedBytes).toBe(24 * 1024 * 1024);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(flushed).toBe(false);
  const ended = new Promise<Error | undefined>((resolve) =>
    peer.attach({ nextBuffer: () => new Uint8Array(65_536), received: () => undefined, closed: resolve }),
  );
  expect(await sent).toBeUndefined();
  expect(connection.bufferedBytes).toBe(0);
  connection.close();
  expect(await ended).toBeUndefined();
  expect(peer.receivedBytes).toBe(24 * 1024 * 1024);
});
