/** @file Damaged and random bytes: a store and a handshake lose the connection that sent them, and nothing else. */
import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { RpcError } from '../base/errors.ts';
import { Handshake, NONCE_BYTES, RECORD_HEAD_BYTES } from '../security/handshake.ts';
import { resolveSecurity } from '../security/policy.ts';
import { findKeys, type Keys } from '../security/secret.ts';
import { embeddedStore } from './embedded.ts';
import { serveStore } from './embedded-server.ts';
import { Op, blob, frame, i64, u32, u8 } from './protocol.ts';

/** The same bytes in every run: a hash of the seed and a counter. */
function generator(seed: string): (below: number) => number {
  let counter = 0;
  return (below) => createHash('sha256').update(`${seed}/${counter++}`).digest().readUInt32LE(0) % below;
}

const str = (text: string): Buffer => {
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
  return Buffer.concat([head, Buffer.from(text)]);
};
const count = (n: number): Buffer => str('x'.repeat(n)).subarray(0, 8);
const greeting = Buffer.from('00cef7853c0d01020304', 'hex');

/** One of each kind of request, ours and torch's. */
const requests: Uint8Array[] = [
  frame(Op.GET, 1, [blob(Buffer.from('/k'))]),
  frame(Op.SET, 2, [blob(Buffer.from('/k')), blob(Buffer.from('v')), u32(0)]),
  frame(Op.ADD, 3, [blob(Buffer.from('/n')), i64(5n)]),
  frame(Op.COMPARE_AND_SET, 4, [
    blob(Buffer.from('/c')),
    u8(1),
    blob(Buffer.from('x')),
    blob(Buffer.from('y')),
    u32(0),
  ]),
  frame(Op.LIST, 5, [blob(Buffer.from('/'))]),
  frame(Op.WAIT, 6, [u32(2), blob(Buffer.from('/a')), blob(Buffer.from('/b'))]),
  frame(Op.WATCH, 7, [blob(Buffer.from('/'))]),
  frame(Op.CANCEL, 7, []),
  frame(Op.GRANT, 8, [u32(1000)]),
  frame(Op.HOLD, 9, [u32(1), blob(new Uint8Array(8)), blob(Buffer.from('/age')), blob(Buffer.from('1'))]),
  frame(Op.REVOKE, 10, [u32(1), blob(new Uint8Array(8))]),
  Buffer.concat([Buffer.from([1]), str('/k'), str('v')]),
  Buffer.concat([Buffer.from([2]), str('/k'), str('v'), str('w')]),
  Buffer.concat([Buffer.from([6]), count(1), str('/z')]),
  Buffer.concat([Buffer.from([0x0b]), count(1), str('/k'), str('v')]),
  Buffer.concat([Buffer.from([0x0e]), str('/q'), str('item')]),
  Buffer.concat([Buffer.from([0x12]), str('/bar'), count(3)]),
];

function damage(bytes: Uint8Array, random: (below: number) => number): Uint8Array {
  const changed = Uint8Array.from(bytes);
  for (let i = 1 + random(3); i > 0; i--) changed[random(changed.length)] = random(256);
  return random(4) === 0 ? changed.subarray(0, random(changed.length)) : changed;
}

test('a store survives damaged requests', { timeout: 60_000 }, async () => {
  const server = await serveStore({ security: resolveSecurity({ mode: 'none', iUnderstand: true }) });
  const store = await embeddedStore({ endpoint: server.endpoint });
  const random = generator('store');
  await store.set('mine', Buffer.from('untouched'));
  for (let round = 0; round < 150; round++) {
    const socket = connect(server.port, '127.0.0.1').on('error', () => undefined);
    const gone = new Promise((resolve) => socket.once('close', resolve));
    socket.resume();
    socket.write(random(8) === 0 ? damage(greeting, random) : greeting);
    for (let i = random(6); i >= 0; i--) {
      const request = requests[random(requests.length)] as Uint8Array;
      socket.write(random(2) === 0 ? request : damage(request, random));
    }
    socket.end();
    await gone;
  }
  expect(Buffer.from((await store.get('mine')) ?? []).toString()).toBe('untouched');
  await expect.poll(() => server.clients).toBe(1);
  await store.close();
  await server.close();
});

test('a handshake ends in refusal for every damaged record, and throws for none', () => {
  const keys = findKeys({ secret: 'sixteen bytes and more', env: {} }) as Keys;
  const random = generator('handshake');
  const nonce = (fill: number): Uint8Array => new Uint8Array(NONCE_BYTES).fill(fill);
  const feed = (side: Handshake, bytes: Uint8Array): 'on' | 'refused' | 'done' => {
    if (bytes.byteLength < RECORD_HEAD_BYTES) return 'on';
    const length = side.bodyLength(bytes);
    if (length instanceof RpcError || bytes.byteLength !== RECORD_HEAD_BYTES + length) return 'refused';
    const effects = side.receive(bytes);
    return effects.some(({ type }) => type === 'failed')
      ? 'refused'
      : effects.some(({ type }) => type === 'done')
        ? 'done'
        : 'on';
  };
  const record = (side: Handshake, bytes?: Uint8Array): Uint8Array => {
    const effect = (bytes === undefined ? side.start() : side.receive(bytes)).find(({ type }) => type === 'send');
    return effect?.type === 'send' ? effect.record : new Uint8Array(0);
  };
  for (let round = 0; round < 2_000; round++) {
    const dialer = new Handshake({ role: 'dialer', group: 'g', keys, nonce: nonce(1), claim: Buffer.from('a#1') });
    const acceptor = new Handshake({ role: 'acceptor', group: 'g', keys, nonce: nonce(2), claim: Buffer.from('b#1') });
    const hello = record(dialer);
    const broken = random(3);
    const sentHello = broken === 0 ? damage(hello, random) : hello;
    if (Buffer.compare(sentHello, hello) !== 0) {
      if (feed(acceptor, sentHello) !== 'on') continue;
      // It may still be a HELLO, of another key, nonce or claim: then the proof fails.
      if (sentHello.byteLength !== hello.byteLength) continue;
      const auth = record(
        dialer,
        record(
          new Handshake({ role: 'acceptor', group: 'g', keys, nonce: nonce(2), claim: Buffer.from('b#1') }),
          hello,
        ),
      );
      expect(feed(acceptor, auth)).toBe('refused');
      continue;
    }
    const auth = record(dialer, record(acceptor, hello));
    const sentAuth = broken === 1 ? damage(auth, random) : auth;
    if (Buffer.compare(sentAuth, auth) !== 0) {
      expect(feed(acceptor, sentAuth)).not.toBe('done');
      continue;
    }
    const welcome = record(acceptor, auth);
    const sentWelcome = broken === 2 ? damage(welcome, random) : welcome;
    const outcome = feed(dialer, sentWelcome);
    if (Buffer.compare(sentWelcome, welcome) === 0) expect(outcome).toBe('done');
    else expect(outcome).not.toBe('done');
  }
});
