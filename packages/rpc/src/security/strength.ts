/** @file How hard a secret is to guess, roughly: what people think of is refused, what a generator draws never is. */
import { invalidArgument } from '../base/errors.ts';

/**
 * At a twentieth of a second for each guess (`rootOf` of keys.ts), and again for each group, this many bits are ten days of one processor. It
 * keeps out what everybody tries; who has more to lose takes what the text says.
 */
const LEAST_BITS = 24;
const BITS = {
  /** A word that everybody tries first. */
  common: 6,
  /** A letter of a word, by what is known of English text. */
  letter: 2,
  /** A letter among letters that make no word. */
  randomLetter: 4.7,
  digit: 3.3,
  year: 6,
  /** What comes between words. */
  other: 3,
  /** What has been there before. */
  again: 1,
  /** A character that is the one before it. */
  same: 0.4,
  /** A character that goes on as those before it did: 'aaa', '345'. */
  sequel: 0.5,
  /** A character of a text that changes between letters and digits all the time. */
  mixed: 4,
} as const;

/** Texts that come again, from so many characters on, are no accident. */
const LEAST_REPEAT = 4;
/** Characters that are looked at: there is enough in fewer. */
const MAX_LOOKED_AT = 1_024;
/** Bytes of which it is found out whether they repeat a part. */
const MAX_COMPARED = 16 * 1_024;

const COMMON =
  /passw(?:or)?d|secret|admin|letmein|welcome|change ?me|default|qwert[yz]?(?:uiop)?|asdf(?:ghjkl)?|zxcv(?:bnm)?|iloveyou|monkey|dragon|master|login|root|user|guest|test|demo|example|token|hello|world|backwire|worker|cluster|private|key/y;
const RUN = /[a-z]+|[0-9]+|[^a-z0-9]/gy;
const YEAR = /^(?:19|20)\d\d$/;
/** Digits and signs that stand for letters. */
const STAND_INS: Readonly<Record<string, string>> = { '@': 'a', $: 's', '0': 'o', '1': 'l', '3': 'e', '5': 's' };

/** @throws RpcError 'invalid-argument' for a secret that could be guessed, with how to make one that cannot. */
export function checkStrength(secret: Uint8Array, where: string): void {
  const bits = Math.floor(estimateBits(secret));
  if (bits >= LEAST_BITS) return;
  const text = `${where} is not random enough, about ${bits} bits (at least ${LEAST_BITS} are needed): make one with \`openssl rand -base64 32\``;
  throw invalidArgument(text);
}

/** Bits of what a guesser does not know; bytes that are no text count by how many different ones there are. */
function estimateBits(secret: Uint8Array): number {
  const unit = repeated(secret.subarray(0, MAX_COMPARED));
  if (unit.some((byte) => byte < 0x20 || byte > 0x7e)) return unit.length * Math.log2(new Set(unit).size);
  const drawn = String.fromCharCode(...unit.subarray(0, MAX_LOOKED_AT));
  const text = drawn.toLowerCase();
  return Math.min(...[text, plain(text)].map((each, i) => bitsOfText(each) + i * BITS.other), bitsOfParts(drawn));
}

/** As the parts that are there but once: characters that stand several times in a row, then texts that came before. */
function bitsOfParts(text: string): number {
  const single = text.replace(/(.)\1+/g, '$1');
  let bits = (text.length - single.length) * BITS.same;
  let parts = '';
  for (let at = 0; at < single.length;) {
    const length = lengthOfRepeat(single, at);
    if (length < LEAST_REPEAT) parts += single[at++] ?? '';
    else {
      bits += BITS.again;
      at += length;
    }
  }
  return bits + bitsOfText(parts.toLowerCase());
}

/** How much of what begins at `at` stands before it, too. */
function lengthOfRepeat(text: string, at: number): number {
  let length = 0;
  while (at + length < text.length && text.slice(0, at).includes(text.slice(at, at + length + 1))) length++;
  return length;
}

/** The first part of bytes that only repeat it. */
function repeated(bytes: Uint8Array): Uint8Array {
  for (let length = 1; length <= bytes.length / 2; length++) {
    // From the first that is not compared with itself on: most lengths are over at once.
    if (bytes.subarray(length).every((byte, i) => byte === bytes[i])) return bytes.subarray(0, length);
  }
  return bytes;
}

function plain(text: string): string {
  return text.replace(/[@$0135]/g, (letter) => STAND_INS[letter] ?? letter);
}

function bitsOfText(text: string): number {
  const runs: readonly string[] = text.match(RUN) ?? [];
  // Of what is drawn at random, hex digits too, few characters of a kind stand together.
  const sequels = countSequels(text);
  if (text.length >= 2.8 * runs.length)
    return runs.reduce((sum, run, i) => sum + (runs.indexOf(run) < i ? BITS.again : bitsOfRun(run)), 0);
  return (text.length - sequels) * BITS.mixed + sequels * BITS.sequel;
}

function bitsOfRun(run: string): number {
  if (/^[^a-z0-9]/.test(run)) return BITS.other;
  if (YEAR.test(run)) return BITS.year;
  const sequels = countSequels(run);
  if (/^[0-9]/.test(run)) return (run.length - sequels) * BITS.digit + sequels * BITS.sequel;
  return bitsOfLetters(run, sequels);
}

function bitsOfLetters(run: string, sequels: number): number {
  if (/[^aeiouy]{6}/.test(run) && !COMMON_WITHOUT_VOWELS.test(run))
    return (run.length - sequels) * BITS.randomLetter + sequels * BITS.sequel;
  let bits = 0;
  for (let at = 0; at < run.length;) {
    COMMON.lastIndex = at;
    const common = COMMON.exec(run)?.[0];
    bits += common === undefined ? BITS.letter : BITS.common;
    at += common?.length ?? 1;
  }
  return Math.max(BITS.letter, bits - sequels * (BITS.letter - BITS.sequel));
}

const COMMON_WITHOUT_VOWELS = /sdfghjkl|zxcvbnm/;

/** Characters whose distance from the one before them is that of the pair before, and small. */
function countSequels(text: string): number {
  let sequels = 0;
  for (let i = 2; i < text.length; i++) {
    const step = text.charCodeAt(i) - text.charCodeAt(i - 1);
    if (Math.abs(step) <= 1 && step === text.charCodeAt(i - 1) - text.charCodeAt(i - 2)) sequels++;
  }
  return sequels;
}
