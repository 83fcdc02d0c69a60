/** @file The bounds of everything this package keeps or accepts, each with its reason. */

/** Contexts alive on one worker at once; one costs about a kilobyte before its graph, and a leak should show early. */
export const MAX_CONTEXTS = 12_000;
/** Of these one worker may have brought here so many times as many as are free: an eighth is left to the others. */
export const SHARE_OF_CONTEXTS = 7;
/** Released ids remembered for one creator; past it the oldest are covered by raising the creator's low-water mark. */
export const MAX_TOMBSTONES = 65_536;
/** Of contexts that others made, so many ends are remembered of one member that told of them: they matter while what it sent before is under way. */
export const MAX_HEARSAY = 1_024;
/** Send and receive functions of one context on one worker: a context that runs for ever must fail, not fill the memory. */
export const MAX_FUNCTIONS = 4_000_000;
/** Members whose passes are remembered in one context as over, the latest: those who begin passes in it are few, and anybody can name others. */
export const MAX_ORIGINS = 1_024;
/** Passes of one context that are remembered as over on the word of others than their origin, the latest: what was sent in them may still come. */
export const MAX_ENDED = 1_024;
/** Passes of a context whose outcome elsewhere is not known yet: each keeps its gradients apart until it is. */
export const MAX_UNCONFIRMED = 8;

/** Functions of the graph that are looked at for that: it is done for every message. */
export const MAX_REACH_WALK = 64;

/** Tensors in an answer with more than one of them. */
export const MAX_RETURNED_TENSORS = 4_096;

/** Contexts that an inspector is shown; the rest is counted. */
export const MAX_INSPECTED = 1_000;
