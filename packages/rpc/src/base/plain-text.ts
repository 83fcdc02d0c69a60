/** @file Names that come from other workers, so that a line which holds them stays one line and reads from left to right. */

// Control characters, separators of lines, and what turns the direction of a text.
// eslint-disable-next-line no-control-regex
const MOVING = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
/** Those of them that `JSON.stringify` writes as they are. */
const MOVING_IN_JSON = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** The text with a blank for each character that would move a cursor, break the line or turn it around. */
export function plainText(text: string): string {
  return text.replaceAll(MOVING, ' ');
}

/** JSON for a screen as well as for a program: such characters are written as `\u202e`, which reads as what it was. */
export function plainJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replaceAll(
    MOVING_IN_JSON,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
