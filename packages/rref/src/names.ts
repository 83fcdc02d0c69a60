/** @file Words that more than one part of this package has to agree on. */

/** The extension's name in handshakes and header tables. */
export const EXTENSION_NAME = 'rref';

/** What an owner says of an RRef that it does not have (any more, or yet). */
export const NOT_HERE = 'is not on worker';
