/** @file How a pickle is refused. */
import { WireError } from '@backwire/wire/internal';

/** The pickle names something that is not on the list and was not offered. */
export class NotOfferedError extends WireError {
  /** The module and the name in it. */
  readonly global: string;

  constructor(global: string) {
    super('decode-error', `a pickle names '${global}', which is not offered here`);
    this.global = global;
  }
}

/** What a pickle, or another object of torch's, must not be. */
export function refuse(what: string, cause?: unknown): WireError {
  return new WireError('decode-error', what, cause === undefined ? {} : { cause });
}

/** A text of a peer as it may stand in a message: short, and without control characters. */
export function quoted(text: string): string {
  const short = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  // eslint-disable-next-line no-control-regex -- they are what is taken out
  return `'${short.replace(/[\u0000-\u001f\u007f]/g, '?')}'`;
}
