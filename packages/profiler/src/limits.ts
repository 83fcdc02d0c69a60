/** @file The bounds of the profiler, each with its reason. */

/** Events of one profile; about 200 bytes each. What comes after is counted and dropped. */
export const MAX_EVENTS = 1_000_000;
/** Events that travel back with one reply: a profile must not make a small reply large. */
export const MAX_EVENTS_PER_REPLY = 10_000;
/** Characters of an event's name; keys nest over hops and must not grow without end. */
export const MAX_NAME_CHARS = 4_096;
/** Characters to which the cells of a table are made equally wide: one name that is longer would make every row as long, and the text longer than a string may be. */
export const MAX_PADDED = 160;
/** Dimensions of a shape, and shapes of an event, that are taken from a peer. */
export const MAX_SHAPES = 64;
export const MAX_DIMS = 64;
/** Profiled calls that wait for their reply. What comes after is recorded on this side only. */
export const MAX_PENDING_CALLS = 65_536;
/** Characters from which a piece of a trace's text is written: what is small makes many calls of the system. */
export const MIN_PIECE_CHARS = 1_048_576;
/** Classes of errors of one function that metrics keep apart: codes are few, but handlers throw classes of their own. */
export const MAX_OUTCOMES = 32;
/** Connections of the server of metrics at once: it must not take the files of a worker whose strangers say nothing. */
export const MAX_CONNECTIONS = 64;
/** A scraper says what it wants at once: who has not by then is hung up on. */
export const REQUEST_MS = 5_000;
