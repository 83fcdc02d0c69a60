import { encodeProto, messageProto, MessageType } from '@backwire/wire/internal';
import { describe, expect, it } from 'vitest';
import * as control from '../src/messages/control-codec.ts';
import * as entries from '../src/messages/entry-codec.ts';
import * as requests from '../src/messages/request-codec.ts';
import { incarnationOf, memberKey, workerOf, type GlobalId } from '../src/protocol/ids.ts';
import type { Carried, Control } from '../src/protocol/messages.ts';

const A = { member: memberKey(0x7fff, 0xffff_fff0), local: 2 ** 53 - 1 };
const B = { member: memberKey(0, 1), local: 0 };

describe('control messages', () => {
  const messages: Control[] = [
    { kind: 'fork-request', rref: A, fork: B },
    { kind: 'fork-ack', fork: A, refused: undefined },
    { kind: 'child-accept', fork: B },
    { kind: 'user-delete', forks: [A, B] },
    { kind: 'create-failed', rref: A, fork: B, failure: { code: 'cancelled', text: 'weggelegt: „ü“' } },
    { kind: 'fence', epoch: 7 * 65_536 + 3, dead: [A.member, B.member] },
    { kind: 'fence-ack', epoch: 7 * 65_536 },
    { kind: 'fence-done', dead: [A.member, B.member] },
  ];

  it.each(messages)('$kind comes back as it was', (message) => {
    const { type, payload } = control.encodeControl(message);
    expect(control.CONTROL_DECODERS.get(type)?.(payload)).toEqual(message);
  });

  it('a refusal says so', () => {
    const { type, payload } = control.encodeControl({
      kind: 'fork-ack',
      fork: A,
      refused: { code: 'rref-released', text: 'x' },
    });
    expect(control.CONTROL_DECODERS.get(type)?.(payload)).toMatchObject({
      fork: A,
      refused: { code: 'rref-released', text: 'x' },
    });
  });

  it('with too much in them are refused', () => {
    const { type, payload } = control.encodeControl({
      kind: 'user-delete',
      forks: Array.from({ length: 5_000 }, () => B),
    });
    expect(() => control.CONTROL_DECODERS.get(type)?.(payload)).toThrow('malformed');
  });

  it('of random bytes never do anything but throw a decode error or mean something', () => {
    let seed = 1;
    const next = (): number => (seed = (seed * 48_271) % 0x7fff_ffff);
    for (const [, decode] of control.CONTROL_DECODERS) {
      for (let i = 0; i < 200; i++) {
        const bytes = Uint8Array.from({ length: next() % 40 }, () => next() % 256);
        try {
          expect(decode(bytes)).toHaveProperty('kind');
        } catch (error) {
          expect(String(error)).toMatch(/malformed|decode|is not a u/);
        }
      }
    }
  });
});

describe('entries of a header table', () => {
  it.each<Carried>([
    { kind: 'create', rref: A, fork: B },
    { kind: 'fork', rref: B, fork: A, owner: B.member },
  ])('$kind comes back as it was', (carried) => {
    expect(entries.decodeCarried(entries.encodeCarried(carried))).toEqual(carried);
  });

  it('of the wrong size or kind are refused', () => {
    const good = entries.encodeCarried({ kind: 'fork', rref: B, fork: A, owner: B.member });
    for (const bad of [
      good.subarray(1),
      good.subarray(0, 20),
      new Uint8Array(0),
      Uint8Array.from([9]),
      new Uint8Array(35).fill(255),
    ]) {
      expect(() => entries.decodeCarried(bad)).toThrow('malformed');
    }
    expect(() => entries.decodeId(new Uint8Array(13))).toThrow('malformed');
    expect(entries.decodeId(entries.encodeId(A))).toEqual(A);
  });
});

it('requests come back as they were', () => {
  expect(requests.decodeCreation(requests.encodeCreation(A, B))).toEqual({ rref: A, fork: B });
  expect(requests.decodeFetch(requests.encodeFetch(A, 3))).toEqual(A);
  for (const contextId of [0n, (5n << 48n) | 17n, (0x7fffn << 48n) | ((1n << 48n) - 1n)]) {
    expect(requests.decodeBackward(requests.encodeBackward(A, contextId, true))).toEqual({
      rref: A,
      contextId,
      retainGraph: true,
    });
  }
  expect(MessageType.RREF_ACK).toBe(0x20e);
});

describe('payloads written by hand', () => {
  const ids = [
    A,
    B,
    { member: 0, local: 0 },
    { member: memberKey(0x7fff, 0xffff_ffff), local: Number.MAX_SAFE_INTEGER },
  ];
  const proto = ({ member, local }: GlobalId) => ({
    worker: workerOf(member),
    incarnation: incarnationOf(member),
    local,
  });

  it('are messages of the schema, byte for byte', () => {
    for (const rref of ids) {
      for (const fork of ids) {
        const bytes = encodeProto(messageProto.RemoteReturn, { rref: proto(rref), fork: proto(fork) });
        expect(requests.encodeCreation(rref, fork)).toEqual(bytes);
        expect(requests.decodeCreation(bytes)).toEqual({ rref, fork });
      }
      const fetch = encodeProto(messageProto.RRefFetch, { rref: proto(rref), worker: 7 });
      expect(requests.encodeFetch(rref, 7)).toEqual(fetch);
      expect(requests.decodeFetch(fetch)).toEqual(rref);
    }
  });

  it('are read past fields of later versions, and refused when they are cut or lack an id', () => {
    const bytes = requests.encodeCreation(A, B);
    expect(requests.decodeCreation(Uint8Array.of(...bytes, 0x7a, 2, 1, 2))).toEqual({ rref: A, fork: B });
    for (let end = 0; end < bytes.length; end++)
      expect(() => requests.decodeCreation(bytes.subarray(0, end))).toThrow('decode-error');
    expect(() => requests.decodeFetch(Uint8Array.of(16, 3))).toThrow('malformed');
    // A worker past 15 bits, and an id whose length lies.
    expect(() => requests.decodeFetch(Uint8Array.of(10, 4, 8, 0x80, 0x80, 4))).toThrow('malformed');
    expect(() => requests.decodeFetch(Uint8Array.of(10, 9, 8, 1))).toThrow('decode-error');
  });
});
