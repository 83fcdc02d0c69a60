/** @file The handshake, byte by byte: what is proved, and what changes of it on the way are noticed. */
import { describe, expect, test } from 'vitest';
import { RpcError } from '../base/errors.ts';
import { Handshake, MAX_CLAIM_BYTES, NONCE_BYTES, RECORD_HEAD_BYTES, type HandshakeEffect } from './handshake.ts';
import { findKeys, keyIdIn, type Keys } from './secret.ts';

const ours = findKeys({ secret: 'sixteen bytes and more', env: {} }) as Keys;

describe('the handshake itself', () => {
  const nonce = (fill: number): Uint8Array => new Uint8Array(NONCE_BYTES).fill(fill);
  const sent = (effects: readonly HandshakeEffect[]): Uint8Array => {
    const found = effects.find((effect) => effect.type === 'send');
    if (found?.type !== 'send') throw new Error('nothing was sent');
    return found.record;
  };
  const failed = (effects: readonly HandshakeEffect[]): boolean => effects.some((effect) => effect.type === 'failed');
  const dialer = (extra = {}): Handshake =>
    new Handshake({ role: 'dialer', group: 'g', keys: ours, nonce: nonce(1), claim: Buffer.from('c'), ...extra });
  const acceptor = (extra = {}): Handshake =>
    new Handshake({ role: 'acceptor', group: 'g', keys: ours, nonce: nonce(2), claim: Buffer.from('s'), ...extra });

  test('a recorded one is worth nothing against a fresh nonce', () => {
    const [d, a] = [dialer(), acceptor()];
    const hello = sent(d.start());
    const auth = sent(d.receive(sent(a.receive(hello))));
    expect(failed(a.receive(auth))).toBe(false);
    const fresh = acceptor({ nonce: nonce(3) });
    fresh.receive(hello);
    expect(failed(fresh.receive(auth))).toBe(true);
  });

  test('a mirror is not a peer', () => {
    const d = dialer();
    const hello = sent(d.start());
    const challenge = Uint8Array.from(Buffer.concat([Buffer.from('BKWR'), Buffer.from([2, 2, 32, 0]), nonce(1)]));
    expect(d.bodyLength(challenge)).toBe(32);
    expect(failed(d.receive(challenge))).toBe(true);
    expect(hello.byteLength).toBe(RECORD_HEAD_BYTES + 41 + 1);
  });

  test('proof of one side does not do for the other', () => {
    const [d, a] = [dialer(), acceptor()];
    const auth = sent(d.receive(sent(a.receive(sent(d.start())))));
    const reflected = Uint8Array.from(auth);
    reflected[5] = 4;
    expect(failed(d.receive(reflected))).toBe(true);
  });

  test.each([
    ['the claim', 8 + 41],
    ['the key', 10],
    ['the nonce', 30],
  ])('a change of %s on the way is noticed', (_, at) => {
    const [d, a] = [dialer(), acceptor()];
    const hello = Uint8Array.from(sent(d.start()));
    hello[at] = (hello[at] as number) ^ 1;
    const auth = sent(d.receive(sent(a.receive(hello))));
    expect(failed(a.receive(auth))).toBe(true);
  });

  test('a proof made on one TLS connection does not hold on another', () => {
    const d = dialer({ channelBinding: nonce(8) });
    const a = acceptor({ channelBinding: nonce(9) });
    expect(failed(a.receive(sent(d.receive(sent(a.receive(sent(d.start())))))))).toBe(true);
  });

  test('nonces and claims have limits', () => {
    expect(() => dialer({ nonce: new Uint8Array(4) })).toThrow(RpcError);
    expect(() => dialer({ claim: new Uint8Array(MAX_CLAIM_BYTES + 1) })).toThrow(RpcError);
  });

  test('the bytes are fixed', () => {
    const [d, a] = [dialer(), acceptor()];
    const hello = sent(d.start());
    expect(Buffer.from(hello).toString('hex')).toBe(`424b575202012a0001${keyIdIn(ours[0], 'g')}${'01'.repeat(32)}63`);
    const challenge = sent(a.receive(hello));
    expect(Buffer.from(challenge).toString('hex')).toBe(`424b575202022100${'02'.repeat(32)}73`);
  });
});
