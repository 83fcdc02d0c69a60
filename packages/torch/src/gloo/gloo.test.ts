/** @file Gloo: addresses, who dials, and collectives of every size, against a model and against torch's own conversation. */
import { ByteReader } from '@backwire/rpc/internal';
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { document } from '../../test/captures.ts';
import { writePython } from '../pickle/python-writer.ts';
import { PyTuple } from '../values/containers.ts';
import { dials, readGlooAddress, writeGlooAddress } from './address.ts';
import { GlooOp, glooHead, glooProgram, type GlooSink } from './frame.ts';
import { GlooMesh } from './mesh.ts';
import { GlooPair } from './pair.ts';

interface StaticGroup {
  readonly captures: readonly [
    {
      readonly workers: readonly {
        readonly worker: string;
        readonly operations: readonly { op: string; key?: string; value?: string }[];
      }[];
    },
    { readonly connections: readonly { readonly sequence: string; readonly frames: readonly CapturedFrame[] }[] },
  ];
}
interface CapturedFrame {
  readonly direction: 'dialer' | 'listener';
  readonly opcode: number;
  readonly slot: string;
  readonly length: number;
  readonly data: string;
}
const [store, gloo] = (document('static-group.json') as StaticGroup).captures;

/** The addresses that the three ranks published. */
const published = [0, 1, 2].map((rank) => {
  const operations = store.workers.flatMap((worker) => worker.operations);
  const set = operations.find(({ op, key }) => op === 'SET' && key === `/rpc_prefix_0/0/${rank}`);
  return Uint8Array.from(Buffer.from(set?.value?.slice(2) ?? '', 'hex'));
});

/** Ranks in memory: what one writes waits on its wire until the test delivers it. */
class Ring {
  readonly meshes: GlooMesh[];
  /** By sender and receiver: bytes on their way, and all that were ever sent. */
  readonly wires = new Map<string, { bytes: Uint8Array[]; log: Uint8Array[]; reader: ByteReader }>();

  constructor(size: number) {
    this.meshes = Array.from({ length: size }, (_, rank) => {
      return new GlooMesh(rank, size, {
        write: (to, chunks) => {
          const wire = this.wires.get(`${rank} ${to}`);
          for (const chunk of chunks) {
            wire?.bytes.push(chunk.slice());
            wire?.log.push(chunk.slice());
          }
        },
      });
    });
    for (let from = 0; from < size; from++)
      for (let to = 0; to < size; to++) {
        if (from === to) continue;
        const reader = new ByteReader(glooProgram(this.meshes[to]!.sink(from)), () => undefined);
        this.wires.set(`${from} ${to}`, { bytes: [], log: [], reader });
      }
  }

  run(random: Random, piece: number): void {
    for (;;) {
      const ready = [...this.wires.values()].filter(({ bytes }) => bytes.length > 0);
      if (ready.length === 0) return;
      const { bytes, reader } = random.pick(ready);
      const chunk = bytes.shift()!;
      for (let at = 0; at < chunk.length;) {
        const room = reader.nextBuffer();
        const count = Math.min(room.length, chunk.length - at, random.int(1, piece + 1));
        room.set(chunk.subarray(at, at + count));
        reader.received(count);
        at += count;
      }
    }
  }
}

describe('addresses', () => {
  it("are read and written as torch's, byte for byte", () => {
    published.forEach((bytes) => {
      const address = readGlooAddress(bytes, 3);
      expect(address).toMatchObject({ hostname: 'vm', host: Uint8Array.of(127, 0, 0, 1), sequences: [0, 1, 2] });
      expect(writeGlooAddress(address)).toEqual(bytes);
    });
    expect(published.map((bytes) => readGlooAddress(bytes, 3).port)).toEqual([0xa57b, 0xa835, 0x9999]);
  });

  it('say who dials: exactly one of two, as torch chose it', () => {
    const [a, b, c] = published.map((bytes) => readGlooAddress(bytes, 3)) as [Address, Address, Address];
    expect([dials(c, a), dials(c, b), dials(a, b)]).toEqual([true, true, true]);
    expect([dials(a, c), dials(b, c), dials(b, a)]).toEqual([false, false, false]);
    const far = { ...a, host: Uint8Array.of(10, 0, 0, 200) };
    const near = { ...c, host: Uint8Array.of(10, 0, 0, 3) };
    expect([dials(far, near), dials(near, far)]).toEqual([true, false]);
    // Every connection began with the number that its listener lists for the dialler.
    expect(gloo.connections.map(({ sequence }) => Buffer.from(sequence, 'hex').readBigInt64LE())).toEqual([2n, 2n, 0n]);
  });

  it.each([
    ['one that is cut off', (b: Uint8Array) => b.slice(0, 100), /cut off/],
    ['of a group of another size', (b: Uint8Array) => b.slice(0, -8), /another size than 3/],
    ['of IPv6', (b: Uint8Array) => b.with(18, 10), /family 10/],
    ['with a host name of a gigabyte', (b: Uint8Array) => b.with(3, 64), /host name of a rank/],
    ['with a negative number', (b: Uint8Array) => b.with(b.length - 1, 0x80), /the number -/],
    ['with a socket address of another size', (b: Uint8Array) => b.with(10, 16), /another size/],
  ] as const)('%s is refused', (_, damage, message) => {
    expect(() => readGlooAddress(damage(published[0]!), 3)).toThrow(message);
  });
});
type Address = ReturnType<typeof readGlooAddress>;

describe('collectives', () => {
  it.each(Array.from({ length: 16 }, (_, i) => i + 1))(
    'of %i ranks gather everything in order, whatever comes first',
    (size) => {
      const random = new Random(`gloo ${size}`);
      const ring = new Ring(size);
      const lengths = [0, 1, 2, 7, 8, 33];
      const own = (rank: number, length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => rank * 16 + i);
      const got: Uint8Array[][] = ring.meshes.map(() => []);
      const objects: Uint8Array[][] = [];
      ring.meshes.forEach((mesh, rank) => {
        for (const length of lengths) mesh.allGather(own(rank, length), (all) => got[rank]!.push(all));
        mesh.allGatherObjects(own(rank, rank), (all) => (objects[rank] = all));
      });
      ring.run(random, 50);
      ring.meshes.forEach((_, rank) => {
        lengths.forEach((length, i) => {
          const expected = Buffer.concat(ring.meshes.map((__, other) => own(other, length)));
          expect(Buffer.compare(got[rank]![i]!, expected)).toBe(0);
        });
        expect(objects[rank]).toEqual(ring.meshes.map((__, other) => own(other, other)));
      });
    },
  );

  it.each(Array.from({ length: 16 }, (_, i) => i + 1))(
    'of %i ranks let nobody pass a barrier before all have come',
    (size) => {
      const random = new Random(`barrier ${size}`);
      for (let last = 0; last < size; last++) {
        const ring = new Ring(size);
        const passed: number[] = [];
        const come = (rank: number): void => ring.meshes[rank]!.barrier(() => passed.push(rank));
        for (let rank = 0; rank < size; rank++) if (rank !== last) come(rank);
        ring.run(random, 100);
        expect(passed).toEqual([]);
        come(last);
        ring.run(random, 100);
        expect(passed.toSorted((a, b) => a - b)).toEqual(ring.meshes.map((_, rank) => rank));
      }
    },
  );

  it('say on every connection what torch says while a static group starts', () => {
    const ring = new Ring(3);
    let done = 0;
    ring.meshes.forEach((mesh, rank) => {
      const own = writePython(PyTuple.of<unknown>(`w${rank}`, 0, {}, [])).bytes;
      mesh.allGatherObjects(own, (all) => {
        expect(all.map((bytes) => Buffer.from(bytes).toString('latin1'))).toEqual(
          [0, 1, 2].map((i) => expect.stringContaining(`w${i}`)),
        );
        mesh.barrier(() => done++);
      });
    });
    ring.run(new Random('torch'), 1000);
    expect(done).toBe(3);
    const sides = [
      [2, 0],
      [2, 1],
      [0, 1],
    ] as const;
    gloo.connections.forEach(({ frames }, i) => {
      const [dialler, listener] = sides[i]!;
      for (const [direction, key] of [
        ['dialer', `${dialler} ${listener}`],
        ['listener', `${listener} ${dialler}`],
      ] as const) {
        const torchs = frames
          .filter((frame) => frame.direction === direction)
          .map(({ opcode, slot, length, data }) => ({ opcode, slot, length, data }));
        const ours = framesIn(ring.wires.get(key)!.log);
        // When data go out depends on who was quicker; what is said of each kind does not.
        for (const opcode of Object.values(GlooOp))
          expect(ours.filter((frame) => frame.opcode === opcode)).toEqual(
            torchs.filter((frame) => frame.opcode === opcode),
          );
      }
    });
  });
});

function framesIn(chunks: readonly Uint8Array[]): Omit<CapturedFrame, 'direction'>[] {
  const bytes = Buffer.concat(chunks);
  const frames: Omit<CapturedFrame, 'direction'>[] = [];
  for (let at = 0; at < bytes.length;) {
    const total = Number(bytes.readBigUInt64LE(at));
    frames.push({
      opcode: Number(bytes.readBigUInt64LE(at + 8)),
      slot: `0x${bytes
        .readBigUInt64LE(at + 16)
        .toString(16)
        .padStart(16, '0')}`,
      length: Number(bytes.readBigUInt64LE(at + 32)),
      data: bytes.toString('hex', at + 48, at + total),
    });
    at += total;
  }
  return frames;
}

describe('a rank that breaks the protocol', () => {
  const sink = (): { pair: GlooPair; feed: (bytes: Uint8Array) => void } => {
    const pair = new GlooPair({ write: () => undefined, sent: () => undefined, received: () => undefined });
    const reader = new ByteReader(glooProgram(pair), () => undefined);
    return {
      pair,
      feed: (bytes) => {
        const room = reader.nextBuffer();
        room.set(bytes);
        reader.received(bytes.length);
      },
    };
  };
  const cases: [string, (feed: (bytes: Uint8Array) => void, pair: GlooPair) => void, RegExp][] = [
    ['bytes that nobody waits for', (feed) => feed(glooHead(GlooOp.DATA, 5n, 1 << 30)), /nobody waits for/],
    [
      'bytes of another length',
      (feed, pair) => (pair.receive(5n, 4), feed(glooHead(GlooOp.DATA, 5n, 1 << 30))),
      /1073741824 bytes where 4 are waited for/,
    ],
    ['a kind that there is not', (feed) => feed(glooHead(9, 5n, 0)), /kind 9/],
    [
      'a length that does not fit',
      (feed) => feed(glooHead(GlooOp.SEND_READY, 5n, 0).with(0, 49)),
      /a message of 49 bytes/,
    ],
    ['a length past 2^53', (feed) => feed(glooHead(GlooOp.SEND_READY, 5n, 0).with(39, 255)), /a message of \d+ bytes/],
    [
      'more slots than collectives',
      (feed) => {
        for (let i = 0n; i < 65n; i++) feed(glooHead(GlooOp.SEND_READY, i, 0));
      },
      /more slots/,
    ],
    [
      'more sends than are taken',
      (feed) => {
        for (let i = 0; i < 65; i++) feed(glooHead(GlooOp.SEND_READY, 1n, 0));
      },
      /more sends/,
    ],
    [
      'more receives than are answered',
      (feed) => {
        for (let i = 0; i < 65; i++) feed(glooHead(GlooOp.RECEIVE_READY, 1n, 0));
      },
      /more receives/,
    ],
  ];
  it.each(cases)('%s: its connection is refused', (_, act, message) => {
    const { pair, feed } = sink();
    expect(() => act(feed, pair)).toThrow(message);
  });

  it('objects that are too long are refused before memory is taken', () => {
    const ring = new Ring(2);
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigInt64(0, 1n << 40n, true);
    ring.meshes[0]!.allGatherObjects(Uint8Array.of(1), () => undefined);
    ring.meshes[1]!.allGather(length, () => undefined);
    expect(() => ring.run(new Random('long'), 100)).toThrow(
      /object of a rank \(1099511627776 over the limit of 1048576\)/,
    );
  });

  it('a sink is for other ranks only', () => {
    expect((): GlooSink => new GlooMesh(0, 2, { write: () => undefined }).sink(0)).toThrow(/no pair with rank 0/);
  });
});
