/** @file What the transports over `node:net` share: listening, dialling, and their errors. */
import {
  createServer,
  type ListenOptions as NetListenOptions,
  type NetConnectOpts,
  type Server,
  type Socket,
} from 'node:net';
import { runAtRoot } from '@backwire/tensor/internal';
import { RpcError } from '../base/errors.ts';
import { admitStranger } from './connection-parts.ts';
import { hostText, settleDial } from './dialling.ts';
import { adoptSocket, connectSocket, type SocketConnection } from './socket.ts';
import type { DialOptions } from './transport.ts';

/** Connections the kernel may hold before they are accepted: a whole group that starts at once. */
const BACKLOG = 4_096;

/** A peer whose machine vanished is noticed by the kernel in the end, for connections on which nobody speaks. */
export const KEEP_ALIVE_MS = 15_000;

/** Listens and hands over each connection, not yet read. `where` is the address for messages. */
export function listenNet(
  options: NetListenOptions,
  about: { kind: string; where: string },
  onConnection: (connection: SocketConnection) => void,
): Promise<Server> {
  // At the root: what is accepted later must not live in the caller's ambient state.
  return runAtRoot(() => {
    const server = createServer(
      { pauseOnConnect: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS },
      (socket) => {
        const address = socket.remoteAddress;
        const remote =
          address === undefined ? about.where : `${about.kind}://${hostText(address)}:${socket.remotePort ?? 0}`;
        onConnection(adoptSocket(socket, { kind: about.kind, remote }));
      },
    );
    return listening(server, options, about.where);
  });
}

/** Any server of Node's, once it listens. `where` is the address for messages. @throws RpcError as `Transport.listen` */
export function listening<S extends Server>(server: S, options: NetListenOptions, where: string): Promise<S> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(error, where)));
    server.listen({ backlog: BACKLOG, ...options }, () => {
      server.removeAllListeners('error');
      // EMFILE and the like: the listener lives on, the connection is lost and will be dialled again.
      server.on('error', (error) => process.emitWarning(error));
      resolve(server);
    });
  });
}

/** The sockets of a server that have not proved themselves, of which it keeps so many; whoever has leaves them. */
export function strangersOf(server: Server): Set<Socket> {
  const strangers = new Set<Socket>();
  server.on('connection', (socket) => {
    admitStranger(strangers, socket);
    socket.once('close', () => strangers.delete(socket));
  });
  return strangers;
}

/** Connects within the time given. */
export function dialNet(
  options: NetConnectOpts,
  about: { kind: string; remote: string },
  dial: DialOptions,
): Promise<SocketConnection> {
  const failed = (error: Error): RpcError =>
    new RpcError('unavailable', `cannot connect to ${about.remote}: ${error.message}`, { cause: error });
  return dialWithin(dial, about.remote, failed, () => {
    const connection = connectSocket(options, about);
    return { socket: connection.raw, ready: 'connect', finish: () => connection };
  });
}

/** A socket on its way; `finish` makes the connection once the socket has said `ready`, or throws. */
export interface Dialling {
  readonly socket: Socket;
  readonly ready: 'connect' | 'secureConnect';
  readonly finish: () => SocketConnection;
}

/** Waits for a socket that `start` has begun to connect: until it is ready, fails, is cancelled or takes too long. */
export function dialWithin(
  options: DialOptions,
  remote: string,
  failed: (error: Error) => RpcError,
  start: () => Dialling,
): Promise<SocketConnection> {
  // At the root: what arrives later must not live in the caller's ambient state.
  return runAtRoot(() =>
    settleDial<SocketConnection>(remote, options, (done, fail) => {
      const { socket, ready, finish } = start();
      const onError = (error: Error): void => fail(failed(error));
      const onClose = (): void => fail(failed(new Error('the connection was closed')));
      const onReady = (): void => {
        try {
          done(finish());
        } catch (error) {
          fail(RpcError.from(error));
        }
      };
      socket.once('error', onError);
      socket.once('close', onClose);
      socket.once(ready, onReady);
      return (isFailed) => {
        socket.off('error', onError);
        socket.off('close', onClose);
        socket.off(ready, onReady);
        if (!isFailed) return;
        socket.on('error', () => undefined);
        socket.destroy();
      };
    }),
  );
}

/** An error of `listen` in words that say what to do. */
function listenError(error: NodeJS.ErrnoException, where: string): RpcError {
  switch (error.code) {
    case 'EADDRINUSE':
      return new RpcError('unavailable', `Address already in use: ${where}`, { cause: error });
    case 'EADDRNOTAVAIL':
      return new RpcError('invalid-argument', `${where} is not an address of this machine`, { cause: error });
    case 'EACCES':
      return new RpcError('invalid-argument', `no permission to listen on ${where}`, { cause: error });
    default:
      return new RpcError('unavailable', `cannot listen on ${where}: ${error.message}`, { cause: error });
  }
}
