/** @file What the two raw processes agree on. */
import { once } from 'node:events';
import { createServer, type AddressInfo, type NetConnectOpts, type Server, type Socket } from 'node:net';
import { join } from 'node:path';

/** A ping: as long as the frame of an empty call. */
export const FRAME_BYTES = 56;
/** A ping that asks for the echo of a body of so many bytes, which it holds. */
export const SIZE_BYTES = 8;
/** The largest body that is echoed. */
export const MAX_BODY_BYTES = 256 * 1_048_576;
/** Most bytes of one read. */
export const READ_BYTES = 1_048_576;

/** Where a raw server listens: a path, or a port of the loopback. */
export type Place = { readonly path: string } | { readonly host: string; readonly port: number };

/** Listens on a Unix socket in `directory`, or on TCP without one. */
export async function listenRaw(
  directory: string,
  name: string,
  accept: (socket: Socket) => void,
): Promise<{ server: Server; place: Place }> {
  const server = createServer({ noDelay: true }, (socket) => {
    // A peer that ends is the end of the benchmark.
    socket.on('error', () => undefined);
    accept(socket);
  });
  if (directory === '') server.listen(0, '127.0.0.1');
  else server.listen(join(directory, name));
  await once(server, 'listening');
  const address = server.address();
  const place =
    typeof address === 'string' ? { path: address } : { host: '127.0.0.1', port: (address as AddressInfo).port };
  return { server, place };
}

/** Options that read into the memory `buffer` names. */
export function reading(place: Place, buffer: () => Uint8Array, landed: (bytes: number) => void): NetConnectOpts {
  const onread = {
    buffer,
    callback: (bytes: number): boolean => {
      landed(bytes);
      return true;
    },
  };
  return { ...place, noDelay: true, onread };
}
