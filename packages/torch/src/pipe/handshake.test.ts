/** @file The handshake of a pipe: its bytes are torch's, and an answer that chose what was not offered is refused. */
import { describe, expect, it } from 'vitest';
import { handshakes } from '../../test/captures.ts';
import { PipeWorld } from '../../test/pipes.ts';
import { writtenBy } from '../../test/wires.ts';
import { DEFAULT_TORCH_LIMITS } from '../limits.ts';
import {
  readBrochure,
  readBrochureAnswer,
  readPacket,
  writeBrochure,
  writeBrochureAnswer,
  writePacket,
} from './packets.ts';
import { framed } from './program.ts';

const [plain, own] = handshakes;

describe('the handshake of torch', () => {
  it('is read and written again, byte for byte', () => {
    for (const frames of [plain, own]) {
      const [packet, brochure, answer, ...requested] = frames as [Uint8Array, Uint8Array, Uint8Array, ...Uint8Array[]];
      const limits = DEFAULT_TORCH_LIMITS;
      expect(writePacket(readPacket(packet, limits))).toEqual(packet);
      expect(writeBrochure(readBrochure(brochure, limits))).toEqual(brochure);
      expect(writeBrochureAnswer(readBrochureAnswer(answer, limits))).toEqual(answer);
      for (const request of requested) expect(writePacket(readPacket(request, limits))).toEqual(request);
    }
  });

  it('is what a dialler and a listener say, where torch is told to use uv and basic', () => {
    const world = new PipeWorld();
    world.dial('w0');
    world.run();
    const [first, reply, channel] = world.dialled;
    expect(writtenBy(first!)).toEqual(Buffer.concat(plain.slice(0, 2).map(framed)));
    expect(writtenBy(first!.other)).toEqual(Buffer.from(framed(plain[2]!)));
    expect(writtenBy(reply!)).toEqual(Buffer.from(framed(plain[3]!)));
    expect(writtenBy(channel!)).toEqual(Buffer.from(framed(plain[4]!)));
    expect(world.accepted.map(({ name, pipe }) => ({ name, complete: pipe.complete }))).toEqual([
      { name: 'w0', complete: true },
    ]);
    expect(world.listener.awaitedConnections).toBe(0);
  });

  it("chooses uv and basic of torch's own offer", () => {
    const world = new PipeWorld();
    const end = world.connect();
    end.write(own.slice(0, 2).map(framed));
    world.run();
    expect(writtenBy(end.other)).toEqual(Buffer.from(framed(plain[2]!)));
    expect(world.accepted.map(({ name }) => name)).toEqual(['w1']);
  });
});

describe('an answer that chose what was not offered', () => {
  const answer = readBrochureAnswer(plain[2]!, DEFAULT_TORCH_LIMITS);
  const cases: [string, Partial<typeof answer>, RegExp][] = [
    ['another transport', { transport: 'shm' }, /chose the transport 'shm'/],
    ['another domain', { domain: 'x' }, /chose the transport/],
    [
      'a new descriptor connection',
      {
        registrations: new Map([
          [0, 1],
          [1, 2],
        ]),
      },
      /other connections than one for replies/,
    ],
    ['no reply connection', { registrations: new Map() }, /other connections/],
    ['another channel', { channelRegistrations: new Map([['cma', [1, 2]]]) }, /chose the channels 'cma'/],
    [
      'two connections for the channel',
      { channelRegistrations: new Map([['basic', [1, 2]]]) },
      /chose the channels 'basic'/,
    ],
    ['no channel for the cpu', { pairs: new Map() }, /no channel for the cpu/],
  ];
  it.each(cases)('%s closes the pipe', (_, change, message) => {
    const world = new PipeWorld();
    const { heard } = world.dial('w0');
    const far = world.dialled[0]!.other;
    far.written.length = 0;
    far.write([framed(writeBrochureAnswer({ ...answer, ...change }))]);
    far.deliver(1 << 20);
    expect(heard.closed.map(String)).toEqual([expect.stringMatching(message)]);
  });
});
