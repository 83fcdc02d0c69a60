/** @file The bounds of everything this package keeps or accepts, each with its reason. */

/** Contexts alive on one worker at once; one costs about a kilobyte before its graph, and a leak should show early. */
export const MAX_CONTEXTS = 10_000;
/** Released ids remembered for one creator; past it the oldest are covered by raising the creator's low-water mark. */
export const MAX_TOMBSTONES = 65_536;
/** Calls nested in calls within one context: the causal path grows by one number each. */
export const MAX_PATH = 1_024;
/** Send and receive functions of one context on one worker: a context that runs for ever must fail, not fill the memory. */
export const MAX_FUNCTIONS = 4_000_000;
/** Message ids in one discovery message; more are sent in several. */
export const MAX_DISCOVERED = 65_536;
/** Characters of a failure's text on the wire: a prefix is added at each hop. */
export const MAX_FAILURE_TEXT = 16_384;
/** Gradients in one backward message: as many as a message can carry tensors. */
export const MAX_GRADIENTS = 65_536;
/** Passes of a context whose outcome elsewhere is not known yet: each keeps its gradients apart until it is. */
export const MAX_UNCONFIRMED = 8;
/** Failed passes that an origin names to those of its next pass; their aborts are on the way as well. */
export const MAX_FAILED_NAMED = 64;

/** Send functions beyond a message that its wrap names: one that reaches more leaves it to the pass to find out. */
export const MAX_REACH = 16;
/** Functions of the graph that are looked at for that: it is done for every message. */
export const MAX_REACH_WALK = 64;
/** Send functions in the plan of a pass, which travels with each of its messages. */
export const MAX_PLAN = 64;

/** Messages whose gradients come back with one answer; more are sent by themselves. */
export const MAX_RETURNED = 16;
/** Tensors in an answer with more than one of them. */
export const MAX_RETURNED_TENSORS = 4_096;

/** Contexts that an inspector is shown; the rest is counted. */
export const MAX_INSPECTED = 1_000;
