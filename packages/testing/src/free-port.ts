/** @file TCP ports that nothing listens on. */
import { randomInt } from 'node:crypto';
import { createServer, type AddressInfo, type Server } from 'node:net';

/**
 * Systems give ports from 32768 on to whoever listens on port 0 or connects. A free one of those may be somebody's in the next moment,
 * who then gets what is meant for another: stock torch ends with the first wrong byte.
 */
const [LOW, HIGH] = [10_000, 32_000];
const TRIES = 100;
/** Somebody listens there, or a system keeps the port for itself. */
const TAKEN: ReadonlySet<string | undefined> = new Set(['EADDRINUSE', 'EACCES']);

/**
 * A port on `host` that was free a moment ago, and that no system gives away by itself. Another program may take it first all the same:
 * prefer to listen on port 0 and pass the port on, and use this only for programs that must be told their port before they start.
 */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  const [port] = await freePorts(1, host);
  return port as number;
}

/** `count` different free ports. */
export async function freePorts(count: number, host = '127.0.0.1'): Promise<number[]> {
  const servers = await Promise.all(Array.from({ length: count }, () => listen(host)));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))));
  return ports;
}

async function listen(host: string): Promise<Server> {
  for (let left = TRIES; ; left--)
    try {
      return await listenOn(host, randomInt(LOW, HIGH));
    } catch (error) {
      if (left === 0 || !TAKEN.has((error as NodeJS.ErrnoException).code)) throw error;
    }
}

function listenOn(host: string, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(port, host, () => resolve(server));
  });
}
