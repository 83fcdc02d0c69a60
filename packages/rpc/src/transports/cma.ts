/** @file Unix sockets with a side door: large chunks are read straight out of the sender's memory. Linux, opt-in, same user. */
import { invalidArgument, RpcError } from '../base/errors.ts';
import { processSpace } from '../base/process-state.ts';
import { CmaConnection } from './cma-connection.ts';
import { crossMemory } from './cma-memory.ts';
import type { Transport } from './transport.ts';
import { unixTransport } from './unix.ts';

const SCHEME = 'cma://';
const BELOW = 'unix://';

/**
 * 'cma:///path'. Needs the optional package `koffi`. Each side tries whether it may read the other's memory; where the kernel does not
 * let it, everything goes through the socket. A member of the group that is taken over could make this process read from any other
 * process of the same user: who does not trust its members that far does not opt in.
 */
export function cmaTransport(): Transport {
  const unix = unixTransport();
  return {
    name: 'cma',
    get domain(): string {
      return `${unix.domain}/${processSpace()}`;
    },
    isViable: () => unix.isViable() && crossMemory() !== undefined,
    async listen(options, onConnection) {
      const memory = needMemory();
      const listener = await unix.listen(options, (connection) => onConnection(new CmaConnection(connection, memory)));
      return { endpoint: SCHEME + listener.endpoint.slice(BELOW.length), close: () => listener.close() };
    },
    async dial(endpoint, options) {
      if (!endpoint.startsWith(SCHEME)) throw invalidArgument(`'${endpoint}' is not cma:///path`);
      const memory = needMemory();
      return new CmaConnection(await unix.dial(BELOW + endpoint.slice(SCHEME.length), options), memory, endpoint);
    },
  };
}

function needMemory(): NonNullable<ReturnType<typeof crossMemory>> {
  const memory = crossMemory();
  if (memory === undefined)
    throw new RpcError(
      'failed-precondition',
      "the transport 'cma' needs Linux and the package 'koffi': npm install koffi",
    );
  return memory;
}
