/**
 * @file Names that nobody else has and nobody can guess: one place for all that is drawn at random as a text, by nanoid, which takes its
 * bytes from the platform's cryptographic generator and its letters without bias.
 */
import { customAlphabet, nanoid } from 'nanoid';

/** Safe in file names that ignore case, in keys of stores and at the beginning of an argument: 36 letters. */
const PLAIN = '0123456789abcdefghijklmnopqrstuvwxyz';
/** 25 of 36 letters: 129 bits. */
const ID_LETTERS = 25;
/** 22 of 64 letters: 132 bits. */
const TOKEN_LETTERS = 22;
/** 64 of 64 letters: 384 bits. A file of one that is being written is told by its length. */
export const SECRET_LETTERS = 64;

const plain = customAlphabet(PLAIN, ID_LETTERS);
const encoder = new TextEncoder();

/** An id of a run, a host, a draft, a lease: 25 letters and digits, 129 bits. */
export function newId(): string {
  return plain();
}

/** What proves that one is who began: 22 letters of `A-Za-z0-9_-`, 132 bits. */
export function newToken(): string {
  return nanoid(TOKEN_LETTERS);
}

/** The same as bytes, for the wire. */
export function newTokenBytes(): Uint8Array {
  return encoder.encode(newToken());
}

/** A secret of a group: 64 letters of `A-Za-z0-9_-`, 384 bits. */
export function newSecret(): string {
  return nanoid(SECRET_LETTERS);
}

/**
 * A key for `CallOptions.idempotencyKey`: 22 letters of `A-Za-z0-9_-`, 132 bits from a cryptographic generator, so that no two calls of a
 * group ever draw the same. Drawn once for what is to happen once, and given to each try.
 * @example
 * ```ts workers=worker1
 * let paid = 0;
 * const pay = rpcFunction('example/pay', () => ++paid);
 *
 * const idempotencyKey = newIdempotencyKey();
 * await rpcSync('worker1', pay, [], { idempotencyKey });
 * await rpcSync('worker1', pay, [], { idempotencyKey }); // a second try of the same thing
 * console.log(paid); // 1
 * ```
 */
export function newIdempotencyKey(): string {
  return newToken();
}
