/** @file The client side of WebSockets: all of it runs in browsers. */
import { runAtRoot } from '@backwire/tensor/internal';
import { invalidArgument, RpcError } from '../base/errors.ts';
import { deriveKey, toHex, type Keys } from '../security/keys.ts';
import { asError } from './connection-parts.ts';
import { settleDial } from './dialling.ts';
import { UNPROTECTED, type Protection } from '../security/protection.ts';
import type { Connection, DialOptions, Transport } from './transport.ts';
import { WebSocketConnection, type AnyWebSocket } from './websocket-connection.ts';

export const PROTOCOL = 'backwire.v1';
export const TOKEN_PREFIX = 'token.';
/**
 * A browser tells a page nothing of an answer that refuses a WebSocket. A server says why it refuses by the subprotocol that it chooses
 * of these, and closes.
 */
export const REFUSALS = Object.freeze({
  secret: 'backwire.refused.secret',
  origin: 'backwire.refused.origin',
} as const);
export type Refusal = keyof typeof REFUSALS;
/** How the package `ws` tells of an answer that refuses. The digits alone may be part of a port. */
const REFUSED = /^Unexpected server response: 403$/;

/** What a refusal means, for people on either side. */
export const REFUSAL_TEXT: Readonly<Record<Refusal, string>> = Object.freeze({
  secret: "the secret is not the group's",
  origin: 'pages of this origin are not allowed: BACKWIRE_ALLOWED_ORIGINS of whoever is dialled names those that are',
});

/** The class of WebSockets: a browser's, or that of the package `ws`. */
export type WebSocketClass = new (
  endpoint: string,
  protocols: string[],
) => AnyWebSocket & {
  addEventListener(type: 'open', listener: () => void): void;
  /** The subprotocol that the server chose. */
  readonly protocol?: string;
};

export interface WebSocketDial {
  readonly group: string;
  /** undefined = security is off: no token is shown. */
  readonly keys?: Keys | undefined;
  /** @default the platform's own */
  readonly client?: (() => Promise<WebSocketClass>) | undefined;
}

/** WebSockets that only go out: what a browser has. */
export function webSocketClientTransport(options: WebSocketDial): Transport {
  return {
    name: 'ws',
    domain: '',
    dialsOnly: true,
    isViable: () => platformClient() !== undefined,
    listen: () => Promise.reject(invalidArgument('a browser cannot listen')),
    dial: (endpoint, how) => runAtRoot(() => dialWebSocket(options, endpoint, how)),
  };
}

/** What a page of the group shows; made from the secret, which it does not tell. */
export function webSocketToken(keys: Keys, group: string, index = 0): string {
  const key = keys[index] ?? keys[0];
  return toHex(deriveKey(key, group, 'websocket token'));
}

/**
 * Connects to 'ws://host:port/path' or 'wss://…'.
 * @throws RpcError 'unavailable', 'unauthenticated', 'deadline-exceeded', 'cancelled', 'invalid-argument'.
 */
export function dialWebSocket(options: WebSocketDial, endpoint: string, how: DialOptions = {}): Promise<Connection> {
  if (!/^wss?:\/\/[^/]+\//.test(endpoint))
    return Promise.reject(invalidArgument(`'${endpoint}' is not ws://host:port/path`));
  const protocols = [
    PROTOCOL,
    ...(options.keys === undefined ? [] : [`${TOKEN_PREFIX}${webSocketToken(options.keys, options.group)}`]),
    ...Object.values(REFUSALS),
  ];
  return (options.client ?? ownClient)().then((Client) =>
    settleDial<Connection>(endpoint, how, (done, fail) => {
      const socket = opened(Client, endpoint, protocols);
      socket.addEventListener('open', () => {
        const why = refusalIn(socket.protocol);
        if (why === undefined) done(new WebSocketConnection(socket, endpoint, protectionOf(endpoint)));
        else fail(new RpcError('unauthenticated', `${endpoint} refused the connection: ${REFUSAL_TEXT[why]}`));
      });
      socket.addEventListener('error', (event) => {
        const cause = (event as { error?: Error }).error;
        const why = cause?.message ?? 'the WebSocket failed';
        const code = REFUSED.test(why) ? 'unauthenticated' : 'unavailable';
        fail(new RpcError(code, `cannot connect to ${endpoint}: ${why}`, { cause }));
      });
      return (isFailed) => {
        if (isFailed) socket.close();
      };
    }),
  );
}

/** @throws RpcError 'invalid-argument' for what is no address, or one that a page of this kind may not dial. */
function opened(Client: WebSocketClass, endpoint: string, protocols: string[]): InstanceType<WebSocketClass> {
  try {
    return new Client(endpoint, protocols);
  } catch (error) {
    throw new RpcError('invalid-argument', `cannot connect to ${endpoint}: ${asError(error).message}`, {
      cause: error,
    });
  }
}

/** What the subprotocol that a server chose says. */
function refusalIn(protocol: string | undefined): Refusal | undefined {
  return (Object.keys(REFUSALS) as Refusal[]).find((why) => REFUSALS[why] === protocol);
}

function protectionOf(endpoint: string): Protection {
  return endpoint.startsWith('wss:') ? { encrypted: true, authenticated: false } : UNPROTECTED;
}

/** The platform's own WebSocket; undefined in older Node. */
export function platformClient(): WebSocketClass | undefined {
  return (globalThis as { WebSocket?: unknown }).WebSocket as WebSocketClass | undefined;
}

async function ownClient(): Promise<WebSocketClass> {
  const own = platformClient();
  if (own === undefined) throw new RpcError('failed-precondition', 'this platform has no WebSocket');
  return own;
}
