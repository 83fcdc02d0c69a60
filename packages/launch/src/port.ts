/** @file A port for the group's store: free, or the one that was asked for if nobody has it. */
import { createServer } from 'node:net';
import { codeOf, LaunchError, messageOf } from './errors.ts';

/**
 * The port if it can be bound, or any free one for 0. Nothing is left bound.
 * @throws LaunchError naming address and port when it is taken or cannot be bound.
 */
export async function checkPort(host: string, port: number): Promise<number> {
  const server = createServer();
  return new Promise<number>((resolve, reject) => {
    server.once('error', (error) => reject(portError(host, port, error)));
    server.listen({ host, port, exclusive: true }, () => {
      const address = server.address();
      const bound = typeof address === 'object' && address !== null ? address.port : port;
      server.close(() => resolve(bound));
    });
  });
}

/** One clear message for a port that cannot be had. */
export function portError(host: string, port: number, error: unknown): LaunchError {
  const taken = codeOf(error) === 'EADDRINUSE';
  const reason = taken ? 'is already in use' : `cannot be used: ${messageOf(error)}`;
  return new LaunchError(`port ${port} on ${host} ${reason}`, { cause: error });
}
