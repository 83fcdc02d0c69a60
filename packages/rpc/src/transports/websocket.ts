/** @file WebSockets: for browsers, and for networks that let nothing else through. The server needs the optional package `ws`. */
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type * as Ws from 'ws';
import { runAtRoot } from '@backwire/tensor/internal';
import { invalidArgument, missingPackage } from '../base/errors.ts';
import { HANDSHAKE_TIMEOUT_MS } from '../security/handshake.ts';
import { sameBytes, sha256 } from '../security/digest.ts';
import type { Keys } from '../security/keys.ts';
import { UNPROTECTED } from '../security/protection.ts';
import { listenerAt } from './connection-parts.ts';
import { hostText } from './dialling.ts';
import { listening, strangersOf } from './listen.ts';
import { isLoopback } from '../base/loopback.ts';
import { plainJson } from '../base/plain-text.ts';
import { reachable } from './tcp.ts';
import type { Connection, ListenOptions, Listener, Transport } from './transport.ts';
import {
  dialWebSocket,
  platformClient,
  PROTOCOL,
  REFUSAL_TEXT,
  REFUSALS,
  TOKEN_PREFIX,
  type Refusal,
  webSocketToken,
  type WebSocketClass,
} from './websocket-client.ts';
import { MAX_MESSAGE_BYTES, WebSocketConnection } from './websocket-connection.ts';

export { webSocketToken } from './websocket-client.ts';

export interface WebSocketOptions {
  readonly group: string;
  /** undefined = security is off: no token is asked for. */
  readonly keys?: Keys | undefined;
  /** Pages that may connect, as browsers name them: 'https://app.example.com'. @default none */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Lets a listener be reached by other machines in the clear. @default false: put a proxy with TLS in front and `advertise` 'wss://…' */
  readonly insecure?: boolean | undefined;
}

const encoder = new TextEncoder();
const PATH = '/backwire';
/** The head of an HTTP request to upgrade. */
const MAX_HEADER_BYTES = 8_192;
/** How often those are looked for who take too long over theirs: Node does it every half minute. */
const CHECK_STRANGERS_MS = 1_000;
/** Lines about refused pages that one listener prints, and what of an origin they show. */
const MAX_NOTES = 32;
const MAX_ORIGIN = 200;

/**
 * 'ws://host:port/backwire' and 'wss://…'. A request to upgrade has to carry a token made from the secret, as a subprotocol, because
 * browsers can set no header; and no Origin, or an allowed one, so that no foreign page gets in with it. The handshake of the group
 * still follows.
 */
export function webSocketTransport(options: WebSocketOptions): Transport {
  options.allowedOrigins?.forEach(checkOrigin);
  return {
    name: 'ws',
    domain: '',
    isViable: () => true,
    listen: (at, onConnection) => runAtRoot(() => listen(options, at, onConnection)),
    dial: (endpoint, how) => runAtRoot(() => dialWebSocket({ ...options, client: nodeClient }, endpoint, how)),
  };
}

/**
 * What is no origin would be the origin of no page, and all would be refused.
 * @throws RpcError 'invalid-argument' that names it, and what may have been meant.
 */
function checkOrigin(origin: string): void {
  if (origin === '' || origin === 'null' || /^[a-z][a-z0-9+.-]*:\/\/[^/\s*?#]+$/.test(origin)) return;
  const meant = /^[a-zA-Z][a-zA-Z0-9+.-]*:\/\/[^/\s*?#]+(?=[/?#])/.exec(origin)?.[0].toLowerCase();
  const advice = meant === undefined ? "name each as in 'https://app.example.com'" : `did you mean '${meant}'?`;
  throw invalidArgument(
    `BACKWIRE_ALLOWED_ORIGINS has '${origin.slice(0, MAX_ORIGIN)}', which is the origin of no page; ${advice}`,
  );
}

async function listen(
  options: WebSocketOptions,
  at: ListenOptions,
  onConnection: (connection: Connection) => void,
): Promise<Listener> {
  const host = at.host ?? '127.0.0.1';
  if (!isLoopback(host) && options.insecure !== true) {
    throw invalidArgument(
      `WebSockets on ${host} would be in the clear: bind loopback behind a proxy with TLS, and advertise 'wss://…'`,
    );
  }
  const [{ createServer }, { WebSocketServer }] = await Promise.all([import('node:http'), loadWs()]);
  const http = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HANDSHAKE_TIMEOUT_MS,
      connectionsCheckingInterval: CHECK_STRANGERS_MS,
    },
    (_request, response) => {
      response.writeHead(426, { connection: 'close' }).end();
    },
  );
  // Connections that have not been let in: those that are refused stay among them until they are gone.
  const strangers = strangersOf(http);
  const upgrades = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_MESSAGE_BYTES,
    perMessageDeflate: false,
    handleProtocols: () => PROTOCOL,
  });
  const refusing = (why: Refusal): Ws.WebSocketServer =>
    new WebSocketServer({ noServer: true, maxPayload: 1, handleProtocols: () => REFUSALS[why] });
  const refusals = { secret: refusing('secret'), origin: refusing('origin') };
  const notes = new RefusalNotes();
  http.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', () => undefined);
    const refusal = refusalOf(options, request);
    if (refusal !== undefined) {
      notes.refused(request, refusal);
      if (refusal !== 'nonsense' && offeredBy(request).includes(REFUSALS[refusal])) {
        refusals[refusal].handleUpgrade(request, socket, head, hangUp);
        return;
      }
      // Whoever does not end his side would keep it half open for good.
      socket.once('finish', () => socket.destroy());
      socket.end('HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
      return;
    }
    upgrades.handleUpgrade(request, socket, head, (accepted) => {
      strangers.delete(request.socket);
      const { remoteAddress = '?', remotePort = 0 } = request.socket;
      onConnection(new WebSocketConnection(accepted, `ws://${hostText(remoteAddress)}:${remotePort}`, UNPROTECTED));
    });
  });
  const where = `ws://${hostText(host)}:${at.port ?? 0}`;
  await listening(http, { host, port: at.port ?? 0 }, where);
  const { port } = http.address() as AddressInfo;
  const advertised = at.advertise ?? reachable(host);
  const endpoint = advertised.includes('://') ? advertised : `ws://${hostText(advertised)}:${port}${PATH}`;
  return listenerAt(endpoint, at.signal, () => void http.close());
}

/** Ends a WebSocket that was opened only to say why it is refused, whether its page answers or not. */
function hangUp(refused: Ws.WebSocket): void {
  refused.close();
  const timer = setTimeout(() => refused.terminate(), HANDSHAKE_TIMEOUT_MS);
  refused.once('close', () => clearTimeout(timer));
}

/** Why a request is not let in; undefined when it is. 'nonsense': it is none of ours. */
function refusalOf(
  { keys, group, allowedOrigins = [] }: WebSocketOptions,
  request: IncomingMessage,
): Refusal | 'nonsense' | undefined {
  const offered = offeredBy(request);
  if (request.url !== PATH || !offered.includes(PROTOCOL)) return 'nonsense';
  const { origin } = request.headers;
  if (origin !== undefined && !allowedOrigins.includes(origin)) return 'origin';
  if (keys === undefined) return undefined;
  const token = offered.find((each) => each.startsWith(TOKEN_PREFIX))?.slice(TOKEN_PREFIX.length) ?? '';
  return keys.some((_, i) => equal(token, webSocketToken(keys, group, i))) ? undefined : 'secret';
}

function offeredBy(request: IncomingMessage): string[] {
  return (request.headers['sec-websocket-protocol'] ?? '').split(',').map((each) => each.trim());
}

/** Says once for each origin and reason that a page was refused; strangers cannot make it say much. */
class RefusalNotes {
  private readonly said = new Set<string>();

  refused(request: IncomingMessage, why: Refusal | 'nonsense'): void {
    if (why === 'nonsense') return;
    const origin = (request.headers.origin ?? 'no origin').slice(0, MAX_ORIGIN);
    const key = `${why} ${origin}`;
    if (this.said.has(key) || this.said.size >= MAX_NOTES) return;
    this.said.add(key);
    console.warn(`[backwire] a WebSocket of ${plainJson(origin)} was refused: ${REFUSAL_TEXT[why]}`);
  }
}

/** In the same time wherever they differ. */
function equal(a: string, b: string): boolean {
  const digest = (text: string): Uint8Array => sha256(encoder.encode(text));
  return sameBytes(digest(a), digest(b));
}

/** `ws` where it is installed: it can be paused, and says what has left. Else the platform's own. */
async function nodeClient(): Promise<WebSocketClass> {
  try {
    const { WebSocket } = await loadWs();
    return class extends WebSocket {
      constructor(endpoint: string, protocols: string[]) {
        // By itself it asks for compressed messages, and takes up to 100 MiB of what anybody makes of a few kilobytes.
        super(endpoint, protocols, { perMessageDeflate: false, maxPayload: MAX_MESSAGE_BYTES });
      }
    };
  } catch (error) {
    const own = platformClient();
    if (own !== undefined) return own;
    throw error;
  }
}

async function loadWs(): Promise<typeof Ws> {
  try {
    return await import('ws');
  } catch (error) {
    throw missingPackage("the transport 'ws'", 'ws', error);
  }
}
