/** @file The gRPC process that measures. */
import { credentials, makeGenericClientConstructor, type Client } from '@grpc/grpc-js';
import { echoRate, type Payload } from '../measure.ts';
import { serveAsks } from '../processes.ts';
import { ECHO_SERVICE, UNLIMITED } from './grpc-server.ts';

type Echo = (bytes: Buffer, done: (error: Error | null, value?: Buffer) => void) => void;

const EchoClient = makeGenericClientConstructor(ECHO_SERVICE, 'Echo');
const PAYLOADS: Readonly<Record<string, Buffer>> = { nothing: Buffer.alloc(0), tensor: Buffer.alloc(16, 1) };
let client: Client & { echo: Echo };

serveAsks({
  dial: (address: string) => {
    client = new EchoClient(address, credentials.createInsecure(), UNLIMITED) as unknown as typeof client;
  },
  latency,
  throughput: (payload: Payload, count: number, inFlight: number) =>
    throughput(bytesOf(payload), count, inFlight === 0 ? count : inFlight),
  echo,
  close: () => client.close(),
});

function bytesOf(payload: Payload): Buffer {
  return PAYLOADS[payload] ?? Buffer.alloc(0);
}

function call(bytes: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    client.echo(bytes, (error, value) => (error === null ? resolve(value as Buffer) : reject(error)));
  });
}

async function latency(payload: Payload, count: number): Promise<number[]> {
  const bytes = bytesOf(payload);
  const samples: number[] = [];
  for (let i = 0; i < count; i++) {
    const started = performance.now();
    await call(bytes);
    samples.push((performance.now() - started) * 1_000);
  }
  return samples;
}

async function throughput(bytes: Buffer, count: number, inFlight: number): Promise<number> {
  let left = count;
  const one = async (): Promise<void> => {
    while (left-- > 0) await call(bytes);
  };
  const started = performance.now();
  await Promise.all(Array.from({ length: inFlight }, one));
  return count / ((performance.now() - started) / 1_000);
}

async function echo(mib: number, count: number): Promise<number> {
  const bytes = Buffer.alloc(mib * 1_048_576, 1);
  const started = performance.now();
  for (let i = 0; i < count; i++) {
    const back = await call(bytes);
    if (back.length !== bytes.length) throw new Error('other bytes came back');
  }
  return echoRate(mib, count, performance.now() - started);
}
