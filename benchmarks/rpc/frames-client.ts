/** @file The process that measures bare frames. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { FrameKind } from '@backwire/wire/internal';
import type { Payload } from '../measure.ts';
import { serveAsks } from '../processes.ts';
import { FrameEnd } from './frames-wire.ts';
import type { Place } from './raw-wire.ts';

let end: FrameEnd;
let arrived: (id: number) => void = () => undefined;

serveAsks({
  dial: async (place: Place, how: 'bare' | 'session') => {
    const socket = connect({ ...place, noDelay: true });
    await once(socket, 'connect');
    end = new FrameEnd(socket, (id) => arrived(id), how);
  },
  latency: (_: Payload, count: number) => latency(count),
  throughput: (_: Payload, count: number, inFlight: number) => throughput(count, inFlight === 0 ? count : inFlight),
});

function latency(count: number): Promise<number[]> {
  const samples: number[] = [];
  return new Promise((resolve) => {
    let started = performance.now();
    arrived = () => {
      samples.push((performance.now() - started) * 1_000);
      if (samples.length === count) return resolve(samples);
      started = performance.now();
      end.send(FrameKind.CALL, 1);
    };
    end.send(FrameKind.CALL, 1);
  });
}

function throughput(count: number, inFlight: number): Promise<number> {
  const started = performance.now();
  return new Promise((resolve) => {
    let sent = 0;
    let got = 0;
    const send = (): void => end.send(FrameKind.CALL, ++sent);
    arrived = () => {
      if (++got === count) resolve(count / ((performance.now() - started) / 1_000));
      else if (sent < count) send();
    };
    while (sent < inFlight) send();
  });
}
