/** @file The gRPC process that serves: nothing for nothing, and bytes for the same bytes. */
import { Server, ServerCredentials, type ServiceDefinition, type UntypedHandleCall } from '@grpc/grpc-js';
import { serveAsks } from '../processes.ts';

/** Bytes there and back, no protobuf in between: what gRPC itself costs. */
export const ECHO_SERVICE: ServiceDefinition = {
  echo: {
    path: '/bench.Echo/Echo',
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  },
};

/** No limit on the size of a message, which is 4 MiB otherwise. */
export const UNLIMITED = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 };

const echo: UntypedHandleCall = (
  call: { request: Buffer },
  done: (error: Error | null, value: Buffer) => void,
): void => {
  done(null, call.request);
};

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const server = new Server(UNLIMITED);
  server.addService(ECHO_SERVICE, { echo });
  serveAsks({
    listen: (address: string) =>
      new Promise<void>((resolve, reject) => {
        server.bindAsync(address, ServerCredentials.createInsecure(), (error) => (error ? reject(error) : resolve()));
      }),
    close: () => server.forceShutdown(),
  });
}

function same(bytes: Buffer): Buffer {
  return bytes;
}
