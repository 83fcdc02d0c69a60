/** @file Raw Unix sockets as a contestant: no protocol at all, and memory that is used again for every message. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { echoRate, type Contestant } from '../measure.ts';
import { FRAME_BYTES, MAX_BODY_BYTES, READ_BYTES } from './raw-wire.ts';

/** Starts a second process that sends back what it gets. */
export async function startRaw(): Promise<Contestant> {
  const directory = mkdtempSync(join(tmpdir(), 'bench-'));
  const paths = ['pings', 'up', 'down'].map((name) => join(directory, name)) as [string, string, string];
  // `net` reads into a buffer of ours only where it dials, so the echo uses two connections, each dialled by who reads.
  const up = await listen(paths[1]);
  const child = fork(new URL('./raw-server.ts', import.meta.url), paths, {
    execArgv: ['--import', 'tsx'],
    stdio: ['pipe', 'inherit', 'inherit', 'ipc'],
  });
  const gone = once(child, 'exit');
  const [upSocket] = (await once(up, 'connection')) as [Socket];
  await once(child, 'message');
  const pings = connect(paths[0]);
  const body = Buffer.alloc(MAX_BODY_BYTES);
  let landed = 0;
  let wanted = Infinity;
  let complete = (): void => undefined;
  const down = connect({
    path: paths[2],
    onread: {
      buffer: () => body.subarray(landed, Math.min(landed + READ_BYTES, wanted)),
      callback: (bytes) => {
        landed += bytes;
        if (landed === wanted) {
          landed = 0;
          complete();
        }
        return true;
      },
    },
  });
  await Promise.all([once(pings, 'connect'), once(down, 'connect')]);
  const echo = async (mib: number, count: number): Promise<number> => {
    const payload = Buffer.alloc(mib * 1_048_576, 1);
    wanted = payload.length;
    const size = Buffer.alloc(8);
    size.writeDoubleLE(payload.length);
    const started = performance.now();
    for (let i = 0; i < count; i++) {
      const done = new Promise<void>((resolve) => (complete = resolve));
      pings.write(size);
      upSocket.write(payload);
      await done;
    }
    return echoRate(mib, count, performance.now() - started);
  };
  return {
    name: 'raw Unix socket',
    latency: (count) => latency(pings, count),
    throughput: (count) => throughput(pings, count),
    echo,
    close: async () => {
      for (const socket of [pings, upSocket, down]) socket.destroy();
      up.close();
      child.stdin?.end();
      child.disconnect();
      await gone;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** The memory bandwidth of one copy of `mib` MiB, GiB per second. */
export function copyRate(mib: number, count: number): number {
  const from = Buffer.alloc(mib * 1_048_576, 1);
  const to = Buffer.alloc(from.length);
  from.copy(to);
  const started = performance.now();
  for (let i = 0; i < count; i++) from.copy(to);
  return (mib * count) / 1_024 / ((performance.now() - started) / 1_000);
}

function latency(socket: Socket, count: number): Promise<number[]> {
  const frame = Buffer.alloc(FRAME_BYTES);
  const samples: number[] = [];
  return new Promise((resolve) => {
    let started = 0;
    let got = 0;
    const send = (): void => {
      started = performance.now();
      socket.write(frame);
    };
    const read = (chunk: Buffer): void => {
      got += chunk.length;
      if (got < FRAME_BYTES) return;
      got = 0;
      samples.push((performance.now() - started) * 1_000);
      if (samples.length < count) return send();
      socket.off('data', read);
      resolve(samples);
    };
    socket.on('data', read);
    send();
  });
}

function throughput(socket: Socket, count: number): Promise<number> {
  const frame = Buffer.alloc(FRAME_BYTES);
  return new Promise((resolve) => {
    const started = performance.now();
    let got = 0;
    const read = (chunk: Buffer): void => {
      got += chunk.length;
      if (got < count * FRAME_BYTES) return;
      socket.off('data', read);
      resolve(count / ((performance.now() - started) / 1_000));
    };
    socket.on('data', read);
    for (let i = 0; i < count; i++) socket.write(frame);
  });
}

async function listen(path: string): Promise<Server> {
  const server = createServer().listen(path);
  await once(server, 'listening');
  return server;
}
