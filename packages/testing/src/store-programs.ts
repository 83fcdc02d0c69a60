/** @file etcd and Redis as programs of this machine: what each is called, and how it is told where to live. */
import { spawnSync } from 'node:child_process';

export const STORE_PROGRAMS = { etcd: 'etcd', redis: 'redis-server' } as const;

export type StoreProgram = keyof typeof STORE_PROGRAMS;

export function isInstalled(kind: StoreProgram): boolean {
  return spawnSync('which', [STORE_PROGRAMS[kind]]).status === 0;
}

/** The flags of a server with its data in `directory` that listens on `port` of this machine; etcd needs another port for its peers. */
export function storeFlags(kind: StoreProgram, directory: string, port: number, peerPort: number): string[] {
  if (kind === 'redis')
    return ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', directory, '--save', '', '--loglevel', 'warning'];
  const [url, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  return [
    ...['--data-dir', directory, '--listen-client-urls', url, '--advertise-client-urls', url],
    ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer, '--initial-cluster', `default=${peer}`],
  ];
}
