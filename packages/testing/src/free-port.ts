/** @file TCP ports that nothing listens on. */
import { createServer, type AddressInfo } from 'node:net';

/**
 * A port on `host` that was free a moment ago. Another process may take it first: prefer to listen on port 0 and pass the port on,
 * and use this only for programs that must be told their port before they start.
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

function listen(host: string) {
  return new Promise<ReturnType<typeof createServer>>((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, host, () => resolve(server));
  });
}
