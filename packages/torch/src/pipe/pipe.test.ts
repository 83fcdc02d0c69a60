/** @file Pipes: both sides against each other and against what torch sends, in whatever pieces and order the bytes come. */
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { captures, handshakes } from '../../test/captures.ts';
import { PipeWorld } from '../../test/pipes.ts';
import { DEFAULT_TORCH_LIMITS } from '../limits.ts';
import { answerTo } from './handshake.ts';
import { framesOf, plainFrames, type OutgoingMessage } from './outgoing.ts';
import { readBrochure, writeBrochure, writeBrochureAnswer } from './packets.ts';
import type { IncomingMessage } from './message.ts';
import { framed } from './program.ts';

const [plain] = handshakes;

/** The messages that were captured, as they are sent. */
const messages: OutgoingMessage[] = captures().flatMap(({ messages: found }) =>
  found.map(({ type, id, body, table, storages }) => ({ type, id, body, table, storages })),
);

function same(got: readonly IncomingMessage[], sent: readonly OutgoingMessage[]): void {
  expect(got.map(({ type, id }) => ({ type, id }))).toEqual(sent.map(({ type, id }) => ({ type, id })));
  got.forEach((message, i) => {
    const { body, table, storages } = sent[i] as OutgoingMessage;
    expect(Buffer.compare(message.body, body)).toBe(0);
    expect(Buffer.compare(message.table, table)).toBe(0);
    expect(message.storages.map(({ length }) => length)).toEqual(storages.map(({ length }) => length));
    message.storages.forEach((storage, k) => expect(Buffer.compare(storage, storages[k] as Uint8Array)).toBe(0));
  });
}

describe('two workers of this kind', () => {
  const all = ['backwire', 'basic'];
  it.each([
    [all, all, 1],
    [['basic'], all, 3],
    [all, ['basic'], 3],
  ] as const)('that may have %j and %j need %i connections', (dialler, listener, connections) => {
    const world = new PipeWorld({}, listener);
    const { pipe, heard } = world.dial('w0', dialler);
    pipe.send(small, () => undefined);
    world.run();
    expect(world.dialled).toHaveLength(connections);
    const [far] = world.accepted;
    expect([pipe.complete, far?.pipe.complete]).toEqual([true, true]);
    far?.pipe.send(small, () => undefined);
    world.run();
    same(far?.heard.messages ?? [], [small]);
    same(heard.messages, [small]);
  });

  it('refuse an answer by a channel that was not offered', () => {
    const world = new PipeWorld();
    const { heard } = world.dial('w0');
    const far = world.dialled[0]!.other;
    far.written.length = 0;
    far.write([framed(writeBrochureAnswer(answerTo('127.0.0.1:38083', 'backwire', undefined)))]);
    far.deliver(1 << 20);
    expect(heard.closed.map(String)).toEqual([expect.stringMatching(/other connections than one for replies/)]);
  });

  const limits = { maxBodyBytes: 10_000, maxTableBytes: 5_000, maxMessageBytes: 50_000, maxTensors: 100 };
  const head = (count: number, ...lengths: readonly [id: number, body: number, table: number]): Uint8Array => {
    const bytes = new Uint8Array(32);
    const view = new DataView(bytes.buffer);
    view.setUint32(4, count, true);
    lengths.forEach((length, i) => view.setBigUint64(8 + 8 * i, BigInt(length), true));
    return bytes;
  };
  const size = (nbytes: number): Uint8Array => {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setBigUint64(0, BigInt(nbytes), true);
    return bytes;
  };
  it.each<[string, Uint8Array[], RegExp]>([
    ['an id past 2^53', [head(0, 2 ** 60, 0, 0)], /a message with the id/],
    ['a body that is too long', [head(0, 1, 10_001, 0)], /body of a message \(10001 over the limit of 10000\)/],
    ['a table that is too long', [head(0, 1, 0, 2 ** 60)], /tensor table of a message \(.* over the limit of 5000\)/],
    ['too many storages', [head(101, 1, 0, 0)], /storages \(101 over the limit of 100\)/],
    [
      'storages that are too long together',
      [head(2, 1, 0, 0), size(30_000), size(2 ** 60)],
      /message \(.* over the limit of 50000\)/,
    ],
  ])('close the pipe over %s, and take no memory before', (_, frames, message) => {
    const world = new PipeWorld(limits, all);
    const { heard, far } = open(world);
    world.dialled.at(-1)?.write(frames);
    world.run();
    expect(far.heard.closed.map(String)).toEqual([expect.stringMatching(message)]);
    expect(heard.closed.map(String)).toEqual(['Error: the peer closed']);
    expect(world.memory.taken).toEqual([]);
  });

  it('tell what was to be sent when the one connection ends, before and after it was agreed on', () => {
    for (const agreed of [false, true]) {
      const world = new PipeWorld({}, all);
      const { pipe, heard } = world.dial('w0');
      if (agreed) world.run();
      const ends: (Error | undefined)[] = [];
      pipe.send({ ...small, storages: [new Uint8Array(20_000)] }, (error) => ends.push(error));
      if (agreed) world.dialled[0]?.destroy();
      else world.dialled[0]?.other.destroy();
      world.run();
      expect(ends).toEqual([expect.any(Error)]);
      if (!agreed) expect(heard.closed.map(String)).toEqual(['Error: the peer closed']);
      pipe.fail(undefined);
      expect(ends).toHaveLength(1);
    }
  });
});

describe('messages over a pipe', () => {
  it.each([1, 3, 1000, 1 << 20].flatMap((piece) => [[piece, 'basic'] as const, [piece, 'backwire'] as const]))(
    'arrive as they were sent, both ways, in pieces of %i bytes and any order, by the channel %s',
    (piece, channel) => {
      const random = new Random(`pipe ${piece}`);
      const world = new PipeWorld({}, [channel]);
      const { pipe, heard } = world.dial('w0');
      // In small pieces the long storages would take minutes.
      const some = messages.filter(({ storages }) => piece > 100 || storages.every(({ length }) => length < 10_000));
      let flushed = 0;
      const done = (error?: Error): void => {
        expect(error).toBeUndefined();
        flushed++;
      };
      // The first ones are sent before any connection is there.
      for (const message of some.slice(0, 50)) pipe.send(message, done);
      world.run(piece, (count) => random.int(0, count));
      for (const message of some.slice(50)) pipe.send(message, done);
      for (const message of some) world.accepted[0]?.pipe.send(message, done);
      world.run(piece, (count) => random.int(0, count));
      same(world.accepted[0]?.heard.messages ?? [], some);
      same(heard.messages, some);
      expect(flushed).toBe(2 * some.length);
      expect(heard.closed).toEqual([]);
    },
  );

  it('are framed as torch frames them', () => {
    for (const { messages: found } of captures())
      for (const { type, id, body, table, storages, descriptor } of found) {
        const frames = framesOf({ type, id, body, table, storages });
        const head = Buffer.alloc(12);
        head.writeInt32LE(type);
        head.writeBigInt64LE(BigInt(id), 4);
        const expected = [descriptor, head.subarray(0, 4), head.subarray(4), body, table].map(framed);
        expect(Buffer.compare(Buffer.concat(frames.descriptors), Buffer.concat(expected))).toBe(0);
        const contents = storages.filter(({ length }) => length > 0).map(framed);
        expect(Buffer.compare(Buffer.concat(frames.storages), Buffer.concat(contents))).toBe(0);
      }
  });

  it('are copied where that is cheaper: what is large goes out as it is, what is small in one piece', () => {
    const [body, storage] = [new Uint8Array(20_000), new Uint8Array(20_000)];
    const large = { type: 0x102, id: 1, body, table: new Uint8Array(3), storages: [storage] };
    for (const frames of [framesOf(large), plainFrames(large)]) {
      expect(frames.copied).toBe(false);
      expect(frames.descriptors).toContain(body);
      expect([...frames.storages, ...frames.descriptors]).toContain(storage);
    }
    const few = { ...large, body: new Uint8Array(20), storages: [new Uint8Array(100), new Uint8Array(50)] };
    expect(framesOf(few)).toMatchObject({ copied: true, descriptors: [{}], storages: [{ length: 166 }] });
    expect(plainFrames(few)).toMatchObject({ copied: true, descriptors: [{ length: 32 + 16 + 173 }], storages: [] });
  });
});

const small: OutgoingMessage = {
  type: 0x102,
  id: 7,
  body: Uint8Array.of(1, 2),
  table: Uint8Array.of(3),
  storages: [new Uint8Array(100).fill(9)],
};

/** Opens a pipe and gives both ends. */
function open(world: PipeWorld): ReturnType<PipeWorld['dial']> & { readonly far: PipeWorld['accepted'][number] } {
  const near = world.dial('w0');
  world.run();
  return { ...near, far: world.accepted.at(-1) as PipeWorld['accepted'][number] };
}

/** One connection of the last pipe that was dialled: the dialler's end. */
function connection(world: PipeWorld, use: 'descriptors' | 'replies' | 'channel'): PipeWorld['dialled'][number] {
  return world.dialled.at({ descriptors: -3, replies: -2, channel: -1 }[use]) as PipeWorld['dialled'][number];
}

function head(length: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  return bytes;
}

describe('a peer that breaks the protocol', () => {
  const strangers: [string, Uint8Array[], RegExp][] = [
    ['a frame that is too long', [head(65_537)], /a packet of 65537 bytes, over the limit of 65536/],
    ['a frame of 2^63 bytes', [head(2 ** 63)], /over the limit/],
    ['garbage instead of a packet', [framed(Uint8Array.of(1, 2, 3))], /no variant/],
    ['a packet of a third kind', [framed(Uint8Array.of(0xb8, 2, 0xb9, 1, 0))], /a packet of kind 2/],
    ['a packet that is cut off', [framed(plain[0]!.slice(0, -1))], /cut off/],
    ['a packet with more behind it', [framed(Uint8Array.of(...plain[0]!, 0))], /1 bytes after the object/],
    ['a connection that nobody asked for', [framed(plain[3]!)], /nobody asked for/],
    ['an offer that is none', [framed(plain[0]!), framed(Uint8Array.of(0))], /no structure/],
    [
      'an offer without the transport',
      [
        framed(plain[0]!),
        framed(
          writeBrochure({ ...readBrochure(plain[1]!, DEFAULT_TORCH_LIMITS), transports: new Map([['shm', 'x']]) }),
        ),
      ],
      /offers the transports 'shm', and not uv/,
    ],
    [
      'an offer without the channel',
      [
        framed(plain[0]!),
        framed(writeBrochure({ ...readBrochure(plain[1]!, DEFAULT_TORCH_LIMITS), channels: new Map() })),
      ],
      /and not basic for the cpu/,
    ],
  ];

  it.each(strangers)('%s ends its connection alone', (_, frames, message) => {
    const world = new PipeWorld();
    const { pipe, heard, far } = open(world);
    const end = world.connect();
    end.write(frames);
    world.run();
    expect(world.refused.map(String)).toEqual([expect.stringMatching(message)]);
    expect(end.ended).toBeDefined();
    pipe.send(small, () => undefined);
    world.run();
    expect(far.heard.messages).toHaveLength(1);
    expect(heard.closed).toEqual([]);
  });

  it('a name that is not admitted gets no pipe', () => {
    const world = new PipeWorld();
    world.banned.add('w9');
    const { heard } = world.dial('w9');
    world.run();
    expect(world.refused.map(String)).toEqual(['Error: w9 is no member']);
    expect(world.accepted).toEqual([]);
    expect(heard.closed.map(String)).toEqual(['Error: the peer closed']);
  });

  it('more connections that are awaited than there may be are not taken', () => {
    const world = new PipeWorld({ maxAwaitedConnections: 4 });
    const offer = (): void => {
      world.connect().write(plain.slice(0, 2).map(framed));
      world.run();
    };
    offer();
    offer();
    expect(world.listener.awaitedConnections).toBe(4);
    offer();
    expect(world.refused.map(String)).toEqual([
      expect.stringMatching(/connections that are awaited \(6 over the limit of 4\)/),
    ]);
    // A pipe that is closed awaits nothing any more.
    world.accepted[0]?.pipe.fail(undefined);
    expect(world.listener.awaitedConnections).toBe(2);
    offer();
    expect(world.accepted).toHaveLength(3);
  });

  const descriptor = (payloads: readonly number[], storages: readonly number[] = []): Uint8Array =>
    framesDescriptor(payloads, storages);
  const members: [string, 'descriptors' | 'replies' | 'channel', () => Uint8Array[], RegExp][] = [
    [
      'a descriptor that is too long',
      'descriptors',
      () => [head(5_000_000)],
      /a descriptor of 5000000 bytes, over the limit of 4194304/,
    ],
    ['a descriptor that is none', 'descriptors', () => [framed(Uint8Array.of(5))], /no structure/],
    ['no descriptor at all', 'descriptors', () => [head(0)], /cut off/],
    ['five payloads', 'descriptors', () => [descriptor([4, 8, 0, 0, 0])], /a message of 5 payloads/],
    ['a type of another size', 'descriptors', () => [descriptor([5, 8, 0, 0])], /payload 0 of 5 bytes/],
    ['a body that is too long', 'descriptors', () => [descriptor([4, 8, 10_001, 0])], /payload 2 of 10001 bytes/],
    ['a table that is too long', 'descriptors', () => [descriptor([4, 8, 0, 5_001])], /payload 3 of 5001 bytes/],
    [
      'storages that are too long together',
      'descriptors',
      () => [descriptor([4, 8, 0, 0], [30_000, 30_000])],
      /a message of 60012 bytes, over the limit of 50000/,
    ],
    [
      'more storages than there may be',
      'descriptors',
      () => [descriptor([4, 8, 0, 0], new Array<number>(101).fill(0))],
      /entries \(101 over the limit of 100\)/,
    ],
    [
      'a payload of another length',
      'descriptors',
      () => [descriptor([4, 8, 2, 1]), payloads([4, 8, 1, 2])],
      /a payload of 1 bytes that was announced with 2/,
    ],
    [
      'a storage of another length',
      'channel',
      () => [framed(new Uint8Array(5))],
      /a storage of 5 bytes that was announced with 4/,
    ],
    ['a storage of no bytes', 'channel', () => [head(0)], /a storage of no bytes/],
    [
      'a storage that is too long',
      'channel',
      () => [head(50_001)],
      /a storage of 50001 bytes, over the limit of 50000/,
    ],
    [
      'storages that no message has',
      'channel',
      () => [50_000, 50_000, 1].map((size) => framed(new Uint8Array(size))),
      /100001 bytes that wait/,
    ],
    ['bytes where none are expected', 'replies', () => [Uint8Array.of(1)], /bytes on the connection for replies/],
  ];
  const limits = { maxBodyBytes: 10_000, maxTableBytes: 5_000, maxMessageBytes: 50_000, maxTensors: 100 };

  it.each(members)('%s closes the pipe, and takes no memory before', (title, use, frames, message) => {
    const world = new PipeWorld(limits);
    const { heard, far } = open(world);
    if (title === 'a storage of another length')
      connection(world, 'descriptors').write([descriptor([4, 8, 0, 0], [4]), payloads([4, 8, 0, 0])]);
    world.run();
    connection(world, use).write(frames());
    world.run();
    expect(far.heard.closed.map(String)).toEqual([expect.stringMatching(message)]);
    expect(far.pipe.closed).toBe(true);
    // The other side hears of it, on all connections.
    expect(heard.closed.map(String)).toEqual(['Error: the peer closed']);
    expect(world.dialled.slice(-3).map((end) => end.ended)).not.toContain(undefined);
    expect(world.memory.out).toBe(0);
    expect(world.memory.taken.every((size) => size <= limits.maxMessageBytes)).toBe(true);
  });

  it('messages without their storages are bounded', () => {
    const world = new PipeWorld({ maxWaitingMessages: 3 });
    const { far } = open(world);
    for (let i = 0; i < 4; i++)
      connection(world, 'descriptors').write([descriptor([4, 8, 0, 0], [4]), payloads([4, 8, 0, 0])]);
    world.run();
    expect(far.heard.closed.map(String)).toEqual([expect.stringMatching(/3 messages without their storages/)]);
  });

  it('a storage for a device that is not here is refused', () => {
    const world = new PipeWorld();
    const { far } = open(world);
    const cuda = Buffer.from(framesDescriptor([4, 8, 0, 0], [4]));
    // The last device in the descriptor: the target's type has the length of 'cpu'.
    cuda.write('gpu', cuda.lastIndexOf('cpu'));
    connection(world, 'descriptors').write([cuda]);
    world.run();
    expect(far.heard.closed.map(String)).toEqual([expect.stringMatching(/a storage for gpu:0/)]);
  });
});

describe('a peer that goes away', () => {
  it.each(['descriptors', 'replies', 'channel'] as const)(
    'on the connection of %s ends the pipe, and what was to be sent',
    (use) => {
      const world = new PipeWorld();
      const { pipe, heard, far } = open(world);
      const ends: (Error | undefined)[] = [];
      far.pipe.send(small, (error) => ends.push(error));
      connection(world, use).close();
      world.run();
      expect(heard.closed).toHaveLength(1);
      expect(far.heard.closed.map(String)).toEqual(['Error: the peer closed']);
      expect(ends).toHaveLength(1);
      pipe.send(small, (error) => ends.push(error));
      expect(String(ends[1])).toMatch(/the pipe is closed/);
      expect(pipe.closed && far.pipe.closed).toBe(true);
    },
  );

  it('before the answer: what waits for the connections is told', () => {
    const world = new PipeWorld();
    const { pipe, heard } = world.dial('w0');
    const ends: (Error | undefined)[] = [];
    pipe.send(small, (error) => ends.push(error));
    world.dialled[0]?.other.destroy();
    world.run();
    expect(ends.map(String)).toEqual(['Error: the peer closed']);
    expect(heard.closed.map(String)).toEqual(['Error: the peer closed']);
    expect(pipe.complete).toBe(false);
  });

  it('between descriptor and storages: the memory of the storages that came goes back', () => {
    const world = new PipeWorld();
    const { far } = open(world);
    connection(world, 'descriptors').write([framesDescriptor([4, 8, 0, 0], [4, 4]), payloads([4, 8, 0, 0])]);
    connection(world, 'channel').write([framed(new Uint8Array(4))]);
    world.run();
    expect(world.memory.out).toBe(1);
    connection(world, 'channel').close();
    world.run();
    expect(far.heard.closed).toHaveLength(1);
    expect(far.heard.messages).toEqual([]);
    expect(world.memory.out).toBe(0);
  });

  it('an end in good order is no error', () => {
    const world = new PipeWorld();
    const { pipe, heard } = open(world);
    pipe.fail(undefined);
    pipe.fail(new Error('again'));
    expect(heard.closed).toEqual([undefined]);
    expect(world.dialled.slice(-3).map((end) => end.ended)).toEqual(['closed', 'closed', 'closed']);
  });
});

function framesDescriptor(payloadSizes: readonly number[], storages: readonly number[]): Uint8Array {
  // Not `writeDescriptor`, which writes no message that is too large.
  const device = [0xb9, 2, 0xbd, 3, 0x63, 0x70, 0x75, 0];
  const uint = (value: number): number[] => [
    0x82,
    value & 0xff,
    (value >> 8) & 0xff,
    (value >> 16) & 0xff,
    value >>> 24,
  ];
  const entries = storages.flatMap((size) => [0xb9, 4, ...uint(size), ...device, ...device, 0xbd, 0]);
  const parts = payloadSizes.flatMap((size) => [0xb9, 2, ...uint(size), 0xbd, 0]);
  return framed(
    Uint8Array.of(0xb9, 3, 0xbd, 0, 0xba, payloadSizes.length, ...parts, 0xba, ...uint(storages.length), ...entries),
  );
}

function payloads(sizes: readonly number[]): Uint8Array {
  return Buffer.concat(sizes.map((size) => framed(new Uint8Array(size))));
}
