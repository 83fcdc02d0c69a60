/** @file The first bytes of a connection: both sides prove that they hold the group's secret. Pure: records in, records out. */
import { invalidArgument, RpcError } from '../base/errors.ts';
import { hmacSha256, sameBytes, sha256 } from './digest.ts';
import { deriveKey, KEY_ID_BYTES, keyIdBytes, keyIdIn, type Key, type Keys } from './keys.ts';

/*
 * Records, each `4 bytes magic ‖ u8 version ‖ u8 type ‖ u16 body length (little-endian) ‖ body`:
 *
 *   dialer → acceptor   HELLO      mode u8 (0x80: checksums follow) ‖ key id 8 ‖ nonce 32 ‖ claim
 *   acceptor → dialer   CHALLENGE  nonce 32 ‖ claim
 *   dialer → acceptor   AUTH       HMAC(k, 'dialer'   ‖ th)
 *   acceptor → dialer   WELCOME    HMAC(k, 'acceptor' ‖ th)
 *   acceptor → dialer   REJECT     empty; instead of WELCOME or CHALLENGE, the same whatever was wrong
 *
 * th = SHA-256(HELLO ‖ CHALLENGE ‖ channel binding), the records with their heads; k = HKDF(scrypt(secret, group), 'hmac'). Fresh nonces
 * stop replay, the labels stop reflection, the transcript stops a change of version, mode or claim. Without a secret (mode 'plain':
 * TLS has done the proof, or security is off) the proofs are SHA-256 digests with the group in place of the key: they still tell a wrong group.
 * A record is read by its exact length, so nothing of what follows the handshake is ever taken from the stream.
 */

/** The part of a record before its body. */
export const RECORD_HEAD_BYTES = 8;
/** What each side may claim of itself. */
export const MAX_CLAIM_BYTES = 1_024;
/** From the first byte to the last of the handshake. */
export const HANDSHAKE_TIMEOUT_MS = 5_000;
/** Connections that have not proved themselves yet; one more closes the oldest. All other members of a large group may come at once. */
export const MAX_HALF_OPEN = 1_024;
export const NONCE_BYTES = 32;
/** In place of a group where the store is concerned: many groups may share one. */
export const STORE_GROUP = 'store';

const encoder = new TextEncoder();
const MAGIC = Uint8Array.of(0x42, 0x4b, 0x57, 0x52);
const VERSION = 2;
const HELLO = 1;
const CHALLENGE = 2;
const AUTH = 3;
const WELCOME = 4;
const REJECT = 5;
const PLAIN = 0;
const HMAC = 1;
/** In the mode of HELLO: what follows the handshake carries checksums, both ways. */
const CHECKED = 0x80;
const NO_KEY_ID = new Uint8Array(KEY_ID_BYTES);
const NOTHING = new Uint8Array(0);
const LABELS = { dialer: encoder.encode('dialer'), acceptor: encoder.encode('acceptor') } as const;
const PROOF_BYTES = 32;

export interface HandshakeOptions {
  readonly role: 'dialer' | 'acceptor';
  readonly group: string;
  /** undefined = no proof of a secret: the channel proved it, or security is off. */
  readonly keys?: Keys | undefined;
  /** What this side says of itself, bound into the proof: name, incarnation. At most `MAX_CLAIM_BYTES`. */
  readonly claim?: Uint8Array | undefined;
  /** 32 fresh random bytes. */
  readonly nonce: Uint8Array;
  /** Bytes that both ends of the same TLS connection know and no other does. */
  readonly channelBinding?: Uint8Array | undefined;
  /** The dialer's wish: whether what follows the handshake carries checksums. */
  readonly checksums?: boolean | undefined;
  /** Why what the peer claims cannot be, whatever it holds: its certificate says otherwise. Asked before this side gives its proof. */
  readonly mistaken?: ((claim: Uint8Array) => RpcError | undefined) | undefined;
}

/** What to do after an event. `failed` means: close the connection once what is to be sent has been sent. */
export type HandshakeEffect =
  | { readonly type: 'send'; readonly record: Uint8Array }
  | { readonly type: 'done'; readonly claim: Uint8Array; readonly keyId: string | undefined; readonly checked: boolean }
  | { readonly type: 'failed'; readonly error: RpcError };

/**
 * One side of the handshake. States: *start* → *waiting* for the other side's next record → *done* or *failed*, both final.
 * Feed it whole records; `bodyLength` tells how long the body is from a head.
 */
export class Handshake {
  private readonly options: HandshakeOptions;
  private expected: number;
  private hello: Uint8Array = NOTHING;
  private challenge: Uint8Array = NOTHING;
  /** The digest of both, once both are there. */
  private transcript: Uint8Array | undefined;
  /** The one that is used. */
  private key: Key | undefined;
  private peerClaim: Uint8Array = NOTHING;
  private finished = false;
  private checked = false;

  constructor(options: HandshakeOptions) {
    if (options.nonce.byteLength !== NONCE_BYTES) throw invalidArgument(`a nonce has ${NONCE_BYTES} bytes`);
    if ((options.claim?.byteLength ?? 0) > MAX_CLAIM_BYTES) {
      throw invalidArgument(`a claim has at most ${MAX_CLAIM_BYTES} bytes`);
    }
    this.options = options;
    this.key = options.role === 'dialer' ? options.keys?.[0] : undefined;
    this.expected = options.role === 'dialer' ? CHALLENGE : HELLO;
  }

  /** The dialer's first record; nothing for the acceptor. */
  start(): HandshakeEffect[] {
    if (this.options.role === 'acceptor') return [];
    this.checked = this.options.checksums === true;
    const mode = (this.options.keys === undefined ? PLAIN : HMAC) | (this.checked ? CHECKED : 0);
    const keyId = this.key === undefined ? NO_KEY_ID : keyIdBytes(this.key, this.options.group);
    this.hello = record(HELLO, [Uint8Array.of(mode), keyId, this.options.nonce, this.options.claim ?? NOTHING]);
    return [{ type: 'send', record: this.hello }];
  }

  /** The length of the body that follows `head`, or an error for anything but the record that is due. */
  bodyLength(head: Uint8Array): number | RpcError {
    if (MAGIC.some((byte, i) => head[i] !== byte)) return refusal('the peer does not speak this protocol');
    if (head[4] !== VERSION)
      return new RpcError('version-mismatch', `handshake version ${head[4] ?? -1}, this side has ${VERSION}`);
    const length = (head[6] ?? 0) | ((head[7] ?? 0) << 8);
    if (head[5] === REJECT && this.options.role === 'dialer') {
      return refusal(
        'the peer refused: the secret, group or security mode differ, or it does not take the certificate of this worker, or that has another name',
      );
    }
    if (head[5] !== this.expected) return refusal('a handshake record out of order');
    const [least, most] = bounds(this.expected);
    return length < least || length > most ? refusal('a handshake record of the wrong length') : length;
  }

  /** A whole record, head and body, whose head passed `bodyLength`. */
  receive(bytes: Uint8Array): HandshakeEffect[] {
    if (this.finished) return [];
    const body = bytes.subarray(RECORD_HEAD_BYTES);
    switch (this.expected) {
      case HELLO:
        return this.onHello(bytes, body);
      case CHALLENGE:
        return this.onChallenge(bytes, body);
      case AUTH:
        return this.onAuth(body);
      default:
        return this.onWelcome(body);
    }
  }

  private onHello(bytes: Uint8Array, body: Uint8Array): HandshakeEffect[] {
    const mode = (body[0] as number) & ~CHECKED;
    this.checked = ((body[0] as number) & CHECKED) !== 0;
    const offered = body.subarray(1, 1 + KEY_ID_BYTES);
    const wanted = this.options.keys === undefined ? PLAIN : HMAC;
    if (mode !== wanted) return this.fail('the peer wants another security mode');
    // An unknown key id goes on like a known one and fails at the proof, so that a stranger learns nothing from when it ends.
    this.key = this.options.keys?.find((key) => sameBytes(keyIdBytes(key, this.options.group), offered));
    this.hello = Uint8Array.from(bytes);
    this.peerClaim = this.hello.subarray(RECORD_HEAD_BYTES + 1 + KEY_ID_BYTES + NONCE_BYTES);
    this.challenge = record(CHALLENGE, [this.options.nonce, this.options.claim ?? NOTHING]);
    this.expected = AUTH;
    return [{ type: 'send', record: this.challenge }];
  }

  private onChallenge(bytes: Uint8Array, body: Uint8Array): HandshakeEffect[] {
    // Its own nonce back would let a mirror answer for us.
    if (sameBytes(body.subarray(0, NONCE_BYTES), this.options.nonce)) return this.fail('the peer mirrored the nonce');
    this.challenge = Uint8Array.from(bytes);
    this.peerClaim = this.challenge.subarray(RECORD_HEAD_BYTES + NONCE_BYTES);
    const mistaken = this.options.mistaken?.(this.peerClaim);
    if (mistaken !== undefined) return this.fail(mistaken);
    this.expected = WELCOME;
    return [{ type: 'send', record: record(AUTH, [this.proof('dialer')]) }];
  }

  private onAuth(body: Uint8Array): HandshakeEffect[] {
    const right = sameBytes(body, this.proof('dialer'));
    if (!right || (this.options.keys !== undefined && this.key === undefined))
      return this.fail('the peer does not hold the secret');
    const mistaken = this.options.mistaken?.(this.peerClaim);
    if (mistaken !== undefined) return this.fail(mistaken);
    this.finished = true;
    return [{ type: 'send', record: record(WELCOME, [this.proof('acceptor')]) }, this.done()];
  }

  private onWelcome(body: Uint8Array): HandshakeEffect[] {
    if (!sameBytes(body, this.proof('acceptor'))) return this.fail('the peer does not hold the secret');
    this.finished = true;
    return [this.done()];
  }

  get role(): 'dialer' | 'acceptor' {
    return this.options.role;
  }

  /** Ends it with an error; the acceptor says no, in a record of its version. */
  refuse(error: RpcError): HandshakeEffect[] {
    return this.fail(error);
  }

  private done(): HandshakeEffect {
    return {
      type: 'done',
      checked: this.checked,
      claim: this.peerClaim,
      keyId: this.key === undefined ? undefined : keyIdIn(this.key, this.options.group),
    };
  }

  private fail(why: string | RpcError): HandshakeEffect[] {
    this.finished = true;
    const failed: HandshakeEffect = { type: 'failed', error: typeof why === 'string' ? refusal(why) : why };
    return this.options.role === 'acceptor' ? [{ type: 'send', record: rejection() }, failed] : [failed];
  }

  private proof(label: 'dialer' | 'acceptor'): Uint8Array {
    const { keys, group, channelBinding } = this.options;
    const th = (this.transcript ??= sha256(this.hello, this.challenge, channelBinding ?? NOTHING));
    if (keys === undefined) return sha256(encoder.encode(`${label}\0${group}\0`), th);
    return hmacSha256(deriveKey(this.key ?? keys[0], group, 'hmac'), LABELS[label], th);
  }
}

/** What an acceptor says to whom it does not even hear: no. */
export function rejection(): Uint8Array {
  return record(REJECT, []);
}

function refusal(why: string): RpcError {
  return new RpcError('unauthenticated', why);
}

/** The least and most bytes of a body. */
function bounds(type: number): readonly [number, number] {
  if (type === HELLO) return [1 + KEY_ID_BYTES + NONCE_BYTES, 1 + KEY_ID_BYTES + NONCE_BYTES + MAX_CLAIM_BYTES];
  if (type === CHALLENGE) return [NONCE_BYTES, NONCE_BYTES + MAX_CLAIM_BYTES];
  return [PROOF_BYTES, PROOF_BYTES];
}

function record(type: number, parts: readonly Uint8Array[]): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.byteLength, 0);
  const bytes = new Uint8Array(RECORD_HEAD_BYTES + length);
  bytes.set(MAGIC);
  bytes.set([VERSION, type, length & 0xff, length >> 8], MAGIC.byteLength);
  let at = RECORD_HEAD_BYTES;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.byteLength;
  }
  return bytes;
}
