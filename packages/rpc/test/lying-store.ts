/** @file A server of an embedded store that goes through the handshake and answers as it is told. */
import { authenticate } from '../src/connect/authenticate.ts';
import { STORE_GROUP } from '../src/security/handshake.ts';
import { ByteReader, type ReadProgram } from '../src/stores/byte-reader.ts';
import { FRAME_HEAD_BYTES, Reader } from '../src/stores/protocol.ts';
import { tcpTransport } from '../src/transports/tcp.ts';
import type { Connection } from '../src/transports/transport.ts';
import { cleanups } from './store-servers.ts';

/** What such a server does with one request. */
export type Answer = (connection: Connection, id: number, op: number) => void;

export interface LyingStore {
  readonly endpoint: string;
  /** Connections that were made. */
  dials(): number;
}

export async function lyingStore(answer: Answer): Promise<LyingStore> {
  let dials = 0;
  const serve = async (stranger: Connection): Promise<void> => {
    const { connection } = await authenticate(stranger, { role: 'acceptor', group: STORE_GROUP });
    const read = function* (): ReadProgram {
      for (;;) {
        const head = new Reader(yield FRAME_HEAD_BYTES);
        const [op, length, id] = [head.u8(), head.u32(), head.u32()];
        if (length > 0) yield length;
        answer(connection, id, op);
      }
    };
    connection.attach(new ByteReader(read(), () => undefined));
  };
  const listener = await tcpTransport().listen({ host: '127.0.0.1' }, (connection) => {
    dials++;
    serve(connection).catch(() => undefined);
  });
  cleanups.push(() => listener.close());
  return { endpoint: listener.endpoint, dials: () => dials };
}
