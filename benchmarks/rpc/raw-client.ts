/** @file The raw process that measures. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { echoRate, type Payload } from '../measure.ts';
import { serveAsks } from '../processes.ts';
import { FRAME_BYTES, listenRaw, MAX_BODY_BYTES, READ_BYTES, reading, SIZE_BYTES, type Place } from './raw-wire.ts';

// Each reader dials: `net` reads into memory of ours only there. Memory is used again for every message.
const received = Buffer.alloc(MAX_BODY_BYTES, 1);
const sent = Buffer.alloc(MAX_BODY_BYTES, 1);
let landed = 0;
let wanted = Infinity;
let complete = (): void => undefined;
let up: Socket;
let pings: Socket;

serveAsks({
  listen: async (directory: string) => (await listenRaw(directory, 'up', (socket) => (up = socket))).place,
  dial: async (pingPlace: Place, downPlace: Place) => {
    pings = connect({ ...pingPlace, noDelay: true });
    const down = connect(
      reading(downPlace, () => received.subarray(landed, Math.min(landed + READ_BYTES, wanted)), onBytes),
    );
    await Promise.all([once(pings, 'connect'), once(down, 'connect')]);
  },
  latency: (_: Payload, count: number) => latency(count),
  throughput: (_: Payload, count: number, inFlight: number) =>
    inFlight === 0 ? atOnce(count) : closedLoop(count, inFlight),
  echo,
});

function onBytes(bytes: number): void {
  landed += bytes;
  if (landed < wanted) return;
  landed = 0;
  complete();
}

async function echo(mib: number, count: number): Promise<number> {
  const payload = sent.subarray(0, mib * 1_048_576);
  wanted = payload.length;
  const size = Buffer.alloc(SIZE_BYTES);
  size.writeDoubleLE(payload.length);
  const started = performance.now();
  for (let i = 0; i < count; i++) {
    const done = new Promise<void>((resolve) => (complete = resolve));
    pings.write(size);
    up.write(payload);
    await done;
  }
  return echoRate(mib, count, performance.now() - started);
}

function latency(count: number): Promise<number[]> {
  const frame = Buffer.alloc(FRAME_BYTES);
  const samples: number[] = [];
  let started = 0;
  let got = 0;
  return untilDone((done) => {
    const send = (): void => {
      started = performance.now();
      pings.write(frame);
    };
    const read = (bytes: number): void => {
      got += bytes;
      if (got < FRAME_BYTES) return;
      got = 0;
      samples.push((performance.now() - started) * 1_000);
      if (samples.length < count) send();
      else done(samples);
    };
    send();
    return read;
  });
}

/** All frames written in one go, each by itself; Node joins them. */
function atOnce(count: number): Promise<number> {
  const frame = Buffer.alloc(FRAME_BYTES);
  const started = performance.now();
  let got = 0;
  return untilDone((done) => {
    for (let i = 0; i < count; i++) pings.write(frame);
    return (bytes) => {
      got += bytes;
      if (got === count * FRAME_BYTES) done(count / ((performance.now() - started) / 1_000));
    };
  });
}

/** As many frames as came back are sent again, in one piece. */
function closedLoop(count: number, inFlight: number): Promise<number> {
  const frames = Buffer.alloc(FRAME_BYTES * inFlight);
  const total = count * FRAME_BYTES;
  const started = performance.now();
  let got = 0;
  let partly = 0;
  return untilDone((done) => {
    let written = frames.length;
    pings.write(frames);
    return (bytes) => {
      got += bytes;
      partly += bytes;
      const whole = Math.min(partly - (partly % FRAME_BYTES), total - written);
      partly -= whole;
      written += whole;
      if (whole > 0) pings.write(frames.subarray(0, whole));
      if (got === total) done(count / ((performance.now() - started) / 1_000));
    };
  });
}

function untilDone<T>(begin: (done: (value: T) => void) => (bytes: number) => void): Promise<T> {
  return new Promise((resolve) => {
    const read = begin((value) => {
      pings.off('data', listener);
      resolve(value);
    });
    const listener = (chunk: Buffer): void => read(chunk.length);
    pings.on('data', listener);
  });
}
