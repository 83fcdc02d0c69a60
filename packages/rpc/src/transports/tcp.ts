/** @file TCP: reaches any host, neither authenticated nor encrypted by itself. */
import { networkInterfaces } from 'node:os';
import type { AddressInfo, Server } from 'node:net';
import { listenerAt } from './connection-parts.ts';
import { hostText, parseHostPort } from './dialling.ts';
import { KEEP_ALIVE_MS, dialNet, listenNet } from './listen.ts';
import type { Connection, DialOptions, ListenOptions, Listener, Transport } from './transport.ts';

const LOOPBACK = '127.0.0.1';

/** 'tcp://host:port'. */
export function tcpTransport(): Transport {
  return { name: 'tcp', domain: '', isViable: () => true, listen, dial };
}

async function listen(options: ListenOptions, onConnection: (connection: Connection) => void): Promise<Listener> {
  const host = options.host ?? LOOPBACK;
  const where = `tcp://${hostText(host)}:${options.port ?? 0}`;
  const server = await listenNet({ host, port: options.port ?? 0 }, { kind: 'tcp', where }, onConnection);
  return listenerAt(endpointOf('tcp', server, host, options.advertise), options.signal, () => void server.close());
}

/** What others dial to reach a server that is bound to `host`. What is advertised with a scheme is for WebSockets. */
export function endpointOf(scheme: string, server: Server, host: string, advertise?: string): string {
  const told = advertise === undefined || advertise.includes('://') ? reachable(host) : advertise;
  return `${scheme}://${hostText(told)}:${(server.address() as AddressInfo).port}`;
}

async function dial(endpoint: string, options: DialOptions = {}): Promise<Connection> {
  const { host, port } = parseHostPort(endpoint, 'tcp');
  return dialNet(
    { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS },
    { kind: 'tcp', remote: endpoint },
    options,
  );
}

/** An address that peers can dial when `host` means all of this machine's. */
export function reachable(host: string): string {
  if (host !== '0.0.0.0' && host !== '::') return host;
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const outer = all.filter((one) => !one.internal && !one.address.startsWith('fe80:'));
  return (outer.find((one) => one.family === 'IPv4') ?? outer[0])?.address ?? LOOPBACK;
}
