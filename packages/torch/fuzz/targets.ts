/** @file Every decoder of this package as a function of bytes, with captured messages as samples of what it accepts. */
import { readFileSync, readdirSync } from 'node:fs';
import { ByteReader, Served, type ReadProgram } from '@backwire/rpc/internal';
import { Tensor, tensor } from '@backwire/tensor';
import type { FuzzTarget } from '@backwire/testing';
import { protocolError } from '@backwire/wire/internal';
import { Names } from '../src/calls/names.ts';
import { loadTorchFile } from '../src/file/load.ts';
import { ZipArchive, isZip, writeZip } from '../src/file/zip.ts';
import { readGlooAddress } from '../src/gloo/address.ts';
import { GlooOp, glooHead, glooProgram } from '../src/gloo/frame.ts';
import { GlooPair } from '../src/gloo/pair.ts';
import { readAddress, readMembers } from '../src/group/store-text.ts';
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from '../src/limits.ts';
import type { Body } from '../src/messages/commands.ts';
import { readPython } from '../src/pickle/python-reader.ts';
import { framesOf, plainFrames } from '../src/pipe/outgoing.ts';
import { readBrochure, readBrochureAnswer, readDescriptor, readPacket } from '../src/pipe/packets.ts';
import { Pipe } from '../src/pipe/pipe.ts';
import { buildEntries } from '../src/table/build.ts';
import { readTable } from '../src/table/entries.ts';
import { captures, document, type CapturedMessage } from '../test/captures.ts';
import { textOf } from '../test/reading.ts';

/** Small enough that a decoder which respects them stays fast and small. */
const FUZZ_LIMITS: TorchLimits = {
  ...DEFAULT_TORCH_LIMITS,
  maxBodyBytes: 1 << 20,
  maxTableBytes: 1 << 20,
  maxMessageBytes: 1 << 22,
  maxMaterialisedBytes: 1 << 24,
};

/** Memory that refuses what the limits should have refused before. */
const memory = {
  take(nbytes: number): Uint8Array {
    if (nbytes > FUZZ_LIMITS.maxMessageBytes) throw new Error(`${nbytes} bytes taken before the limit was checked`);
    return new Uint8Array(nbytes);
  },
  give: (): void => undefined,
};

/** The decoders. Made once. Half of all inputs go to the first. */
export function targets(): FuzzTarget[] {
  const messages = captures().flatMap((capture) => capture.messages);
  const small = messages.filter(({ storages }) => storages.every(({ length }) => length < 2_000));
  return [
    bodies(messages),
    tables(small),
    ...handshakes(),
    descriptors(messages),
    streams(small),
    plainStreams(small),
    amplified(),
    ...files(),
    ...gloo(),
    storeText(),
  ];
}

/** Bodies of all types, read as deep as they go: pickles, and messages inside of messages, too. */
function bodies(messages: readonly CapturedMessage[]): FuzzTarget {
  const types = [...new Set(messages.map(({ type }) => type))];
  const tensors = Array.from({ length: 16 }, (_, i) => tensor([i]));
  const counts = messages.map(({ storages }) => storages.length);
  return {
    name: 'bodies',
    samples: messages.map(({ type, body }, i) => Uint8Array.of(types.indexOf(type), counts[i] as number, ...body)),
    run(bytes) {
      const type = types[(bytes[0] ?? 0) % types.length] as number;
      const body: Body = { type, body: bytes.subarray(2), tensors: tensors.slice(0, (bytes[1] ?? 0) % 17) };
      textOf(body);
    },
  };
}

/** A few instructions over and over: what each of them costs, a peer may ask for as often as a body has room. */
function amplified(): FuzzTarget {
  const served = new Served({ worker: 'fuzzed', serve: undefined, builtins: true, maxResultBytes: 1 << 20 });
  const names = new Names(served);
  const context = { tensors: [], names, limits: FUZZ_LIMITS, rref: () => null };
  const pieces = [
    'capp\nThing\n',
    'capp\nThing\n)R',
    'cbuiltins\ngetattr\n',
    'cbuiltins\nset\n)R',
    '](K\x01K\x02e',
    '}K\x01Ns',
  ];
  return {
    name: 'amplified',
    samples: pieces.map((piece) => Uint8Array.from(Buffer.from(piece, 'latin1'))),
    run(bytes) {
      const piece = bytes.subarray(0, 64);
      const content = new Uint8Array(3 + AMPLIFIED * piece.length);
      content.set([0x80, 4]);
      for (let i = 0; i < AMPLIFIED; i++) content.set(piece, 2 + i * piece.length);
      content[content.length - 1] = 0x2e;
      readPython(content, context);
    },
  };
}

/** How often. */
const AMPLIFIED = 10_000;

/** Tables over as many storages of 64 bytes as the first byte says. */
function tables(messages: readonly CapturedMessage[]): FuzzTarget {
  const storages = Array.from({ length: 16 }, () => new Uint8Array(64));
  return {
    name: 'tables',
    samples: messages.map((message) => Uint8Array.of(message.storages.length, ...message.table)),
    run(bytes) {
      const some = storages.slice(0, (bytes[0] ?? 0) % 17).map((storage) => storage.slice());
      const sizes = some.map(({ length }) => length);
      const entries = readTable(bytes.subarray(1), sizes, FUZZ_LIMITS);
      for (const made of buildEntries(entries, some)) {
        if (made instanceof Tensor && made.size < 10_000) made.toArray();
        made.dispose();
      }
    },
  };
}

interface Handshake {
  readonly captures: readonly { readonly frames: readonly { readonly what: string; readonly hex: string }[] }[];
}

function handshakes(): FuzzTarget[] {
  const frames = (document('handshake.json') as Handshake).captures.flatMap((capture) => capture.frames);
  const of = (what: RegExp): Uint8Array[] =>
    frames.filter((frame) => what.test(frame.what)).map(({ hex }) => Uint8Array.from(Buffer.from(hex, 'hex')));
  return [
    { name: 'packets', samples: of(/^Packet/), run: (bytes) => void readPacket(bytes, FUZZ_LIMITS) },
    { name: 'brochures', samples: of(/^Brochure$/), run: (bytes) => void readBrochure(bytes, FUZZ_LIMITS) },
    { name: 'answers', samples: of(/^BrochureAnswer/), run: (bytes) => void readBrochureAnswer(bytes, FUZZ_LIMITS) },
  ];
}

function descriptors(messages: readonly CapturedMessage[]): FuzzTarget {
  return {
    name: 'descriptors',
    samples: messages.map(({ descriptor }) => descriptor),
    run: (bytes) => void readDescriptor(bytes, FUZZ_LIMITS),
  };
}

/** What comes over both connections of a pipe: the first two bytes say how much of it is descriptors'. */
function streams(messages: readonly CapturedMessage[]): FuzzTarget {
  const samples = messages.map((_, i) => {
    const some = messages.slice(i, i + 3).map(({ type, id, body, table, storages }) => {
      return framesOf({ type, id, body, table, storages });
    });
    const first = Buffer.concat(some.flatMap((frames) => frames.descriptors));
    const second = Buffer.concat(some.flatMap((frames) => frames.storages));
    return Uint8Array.of(first.length >> 8, first.length & 0xff, ...first, ...second);
  });
  return {
    name: 'streams',
    samples,
    run(bytes) {
      const split = 2 + (((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0));
      const pipe = new Pipe({ limits: FUZZ_LIMITS, memory }, { message: () => undefined, closed: () => undefined });
      feed(pipe.channelProgram(), bytes.subarray(split));
      feed(pipe.descriptorProgram(), bytes.subarray(2, split));
      pipe.fail(undefined);
    },
  };
}

/** What comes over the one connection of a plain pipe. */
function plainStreams(messages: readonly CapturedMessage[]): FuzzTarget {
  const samples = messages.map((_, i) =>
    Buffer.concat(
      messages.slice(i, i + 3).flatMap(({ type, id, body, table, storages }) => {
        return plainFrames({ type, id, body, table, storages }).descriptors;
      }),
    ),
  );
  return {
    name: 'plain streams',
    samples: samples.map((bytes) => new Uint8Array(bytes)),
    run(bytes) {
      const pipe = new Pipe({ limits: FUZZ_LIMITS, memory }, { message: () => undefined, closed: () => undefined });
      const connection = { write: () => undefined, close: () => undefined, destroy: () => undefined };
      feed(pipe.run(connection, true), bytes);
      pipe.fail(undefined);
    },
  };
}

/** Runs a program over bytes. */
function feed(program: ReadProgram, bytes: Uint8Array): void {
  const reader = new ByteReader(program, () => undefined);
  for (let at = 0; at < bytes.length;) {
    const room = reader.nextBuffer();
    const count = Math.min(room.length, bytes.length - at);
    room.set(bytes.subarray(at, at + count));
    reader.received(count);
    at += count;
  }
}

/** Whole files, of which the checksums tell nearly everything; and the pickles in them, with a right checksum. */
function files(): FuzzTarget[] {
  const folder = new URL('../golden/files/', import.meta.url);
  const samples = readdirSync(folder).map((name) => new Uint8Array(readFileSync(new URL(name, folder))));
  const archives = samples.filter(isZip).map((bytes) => new ZipArchive(bytes, 1_000));
  const pickles = archives.flatMap((archive) => {
    const name = archive.names().find((entry) => entry.endsWith('/data.pkl'));
    return [archive.read(name ?? '') ?? new Uint8Array(0)];
  });
  const storages = Array.from({ length: 20 }, (_, i): [string, Uint8Array] => [
    `archive/data/${i}`,
    new Uint8Array(64),
  ]);
  return [
    { name: 'files', samples, run: (bytes) => void loadTorchFile(bytes, { limits: FUZZ_LIMITS }) },
    {
      name: 'files, the pickle',
      samples: pickles,
      run(bytes) {
        const contents = new Map([['archive/data.pkl', bytes], ...storages]);
        loadTorchFile(writeZip(contents, 64), { limits: FUZZ_LIMITS });
      },
    },
  ];
}

function gloo(): FuzzTarget[] {
  const address = (
    document('static-group.json') as {
      captures: readonly [{ workers: readonly { operations: readonly { value?: string }[] }[] }];
    }
  ).captures[0].workers
    .flatMap((worker) => worker.operations)
    .find(({ value }) => value?.startsWith('0x') === true)?.value;
  const conversation = Buffer.concat([
    glooHead(GlooOp.SEND_READY, 1n, 4),
    glooHead(GlooOp.RECEIVE_READY, 1n, 4),
    glooHead(GlooOp.DATA, 1n, 4),
    Uint8Array.of(1, 2, 3, 4),
    glooHead(GlooOp.DATA, 2n, 0),
  ]);
  return [
    {
      name: 'gloo addresses',
      samples: [Uint8Array.from(Buffer.from(address?.slice(2) ?? '', 'hex'))],
      run: (bytes) => void readGlooAddress(bytes, 3),
    },
    {
      name: 'gloo messages',
      samples: [new Uint8Array(conversation)],
      run(bytes) {
        const pair = new GlooPair({ write: () => undefined, sent: () => undefined, received: () => undefined });
        pair.receive(1n, 4);
        pair.receive(2n, 0);
        pair.send(1n, Uint8Array.of(9));
        feed(glooProgram(pair), bytes);
      },
    },
  ];
}

function storeText(): FuzzTarget {
  const samples = ['d0-0,d1-1,', 'uv://127.0.0.1:46147', 'uv://[::1]:80'].map((text) => new TextEncoder().encode(text));
  return {
    name: 'store text',
    samples,
    run(bytes) {
      const text = new TextDecoder().decode(bytes);
      const refused = [readMembers, readAddress].flatMap((read) => {
        try {
          read(text);
          return [];
        } catch (error) {
          return [error];
        }
      });
      if (refused.length === 2) throw refused[0] ?? protocolError('unreachable');
    },
  };
}
