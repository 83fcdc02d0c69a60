/** @file The bounds of looking at agents, each with its reason. */

/** Inspectors of one agent at once: looking must stay cheap. One more is hung up on. */
export const MAX_INSPECTORS = 16;
/** A question is a few words. */
export const MAX_QUESTION_BYTES = 4_096;
/** A report: its lists are bounded below. */
export const MAX_REPORT_BYTES = 64 * 1024 * 1024;
/** A report that is not taken: the inspector is too slow, and hung up on. */
export const MAX_UNSENT_BYTES = 16 * 1024 * 1024;
/** Rows of a list of calls; how many there are is told beside it. */
export const MAX_ROWS = 1_000;
/** Sessions of one worker: with as many others as ranks can tell apart. */
export const MAX_SESSIONS = 65_536;
/** Finished calls that an agent remembers while somebody watches, */
export const MAX_RECENT_CALLS = 4_096;
/** and how many of them travel in one report. */
export const MAX_RECENT_PER_REPORT = 1_000;
/** Names of functions that metrics keep apart; calls of others count together. */
export const MAX_METHODS = 1_000;
/** Characters of a name or an error's text in a report. */
export const MAX_TEXT = 256;
/** How long an inspector waits for one worker. */
export const ANSWER_TIMEOUT_MS = 3_000;
