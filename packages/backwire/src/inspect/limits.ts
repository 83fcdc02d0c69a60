/** @file The bounds of `backwire inspect` and `backwire dashboard`, each with its reason. */

/** Rows of a list on a screen; `--json` has all. */
export const MAX_SHOWN = 40;
/** Characters of a function's name or a creation site on a screen. */
export const MAX_CELL = 72;
/** Between two looks of `--watch`, in seconds, when not said otherwise. */
export const DEFAULT_WATCH_S = 1;
/** Between two looks of the dashboard, in milliseconds, */
export const DEFAULT_INTERVAL_MS = 1_000;
/** and the shortest that may be asked for: looking must stay cheap. */
export const MIN_INTERVAL_MS = 100;
/** The longest time that a flag may name, in seconds: a day, which timers can still sleep. */
export const MAX_SECONDS = 86_400;
/** Looks whose sums are kept for the charts: five minutes at the default. */
export const MAX_HISTORY = 300;
/** Calls of one second that travel to the page, which draws twenty times as many. */
export const MAX_CALLS_PER_SECOND = 200;
/** Ways between workers that travel to the page: a browser draws no more of them a second. */
export const MAX_LINKS_PER_SNAPSHOT = 300;
/** References, contexts and open calls of one look that travel to the page. */
export const MAX_ROWS_PER_SNAPSHOT = 200;
/** Failed calls and losses of workers that the page is told of when it opens. */
export const MAX_NOTES = 100;
/** Workers that are gone and stay on the page: of a group that grows and shrinks for weeks there may be any number. */
export const MAX_GONE = 100;
/** Pages open at once: a browser opens six connections to one address, and one has to be left for a page that is loaded. */
export const MAX_PAGES = 5;
/** Bytes that a page has not taken: it is asleep, and is told again when it comes back. */
export const MAX_UNSENT_BYTES = 4 * 1024 * 1024;
/** Connections of the page's server at once: pages, their files, and no more. */
export const MAX_CONNECTIONS = 64;
/** A browser says what it wants at once: who has not by then is hung up on. */
export const REQUEST_MS = 5_000;
/** Characters of a text that an extension shows, */
export const MAX_TEXT = 1_024;
/** and names of a list: holders of one value, workers of one context. */
export const MAX_NAMES = 10_000;
