/** @file Every bound of the agent that is not an option, with its reason. */

const KIB = 1024;
const MIB = 1024 * KIB;

/** Calls open at once in one agent: what a call id can name. */
export const MAX_OPEN_CALLS = 2 ** 20;
/** Frames that one peer has not acknowledged, in bytes: bounds what is kept for a replay. */
export const SESSION_WINDOW_BYTES = 32 * MIB;
/** The same in frames: small ones cost more than their bytes. */
export const SESSION_WINDOW_FRAMES = 2 ** 18;
/** A pure acknowledgement after so many frames, bytes or milliseconds without a frame that carries it. */
export const ACK_FRAMES = 4096;
export const ACK_BYTES = MIB;
export const ACK_MS = 20;
/** Frames written in one turn of the program go out when there are so many bytes of them, not at its end. */
export const EARLY_FLUSH_BYTES = 64 * KIB;
/** With so many bytes of answers on their way to a peer, no further call of it is started and no stream goes on. */
export const CONGESTED_BYTES = 16 * MIB;
/** Storages of answers that a peer has not confirmed, from which on it counts as congested too: far above what small calls should wait for. */
export const CONGESTED_BODY_BYTES = 256 * MIB;
/**
 * Results and control that wait because the window is full; past it the session is given up, for nothing of it may be dropped. Results are
 * those of handlers that were running when the peer became congested.
 */
export const MAX_CONTROL_BACKLOG_BYTES = 512 * MIB;
/** The same as a number: a peer that asks for acknowledgements and reads none makes them of a few bytes each, and each takes memory of its own. */
export const MAX_CONTROL_BACKLOG_FRAMES = 262_144;
/** Bytes handed to the operating system that a peer has not taken, past which its pings are not answered: what waits is a sign of life itself. */
export const MAX_UNREAD_BYTES = MIB;
/** Answers to how far a storage is, on top of so many bytes: a peer has a handful of such questions open, and asks no more before it has read. */
export const MAX_UNREAD_ANSWERS = 16_384;
/** Pings of one peer that are answered within a second: it sends one every two, and one for each time that it stood still. */
export const MAX_PONGS_PER_SECOND = 100;
/** A piece of a storage: long enough to be fast, short enough that a small call does not wait for it. */
export const BODY_CHUNK_BYTES = MIB;
/** Pieces of storages handed to the connection and not yet taken by the operating system. */
export const BODY_WINDOW_BYTES = 4 * MIB;
/** Names a peer may intern in one session. */
export const MAX_INTERNED_NAMES = 65_535;
/** From the end of authentication to the first frame of an open link. */
export const HELLO_TIMEOUT_MS = 5_000;
/** Dials and handshakes of one process that go on at once: both sides of each compute, */
export const MAX_DIALS = 32;
/** and one that takes longer waits for its peer, so that the next may start. */
export const SLOW_DIAL_MS = 1_000;
/** HELLOs that are parked or being answered at once; one more closes the oldest. */
export const MAX_PENDING_HELLOS = 256;
/** Names of workers that died or left, so that errors can say so; the oldest are forgotten first. */
export const MAX_FORMER_MEMBERS = 4_096;
/** Outcomes kept for idempotency keys, */
export const MAX_IDEMPOTENT_OUTCOMES = 10_000;
/** of this many bytes together, */
export const MAX_IDEMPOTENT_BYTES = 256 * MIB;
/** each for so long after its call is over, */
export const IDEMPOTENT_KEEP_MS = 300_000;
/** and with a key of this many characters at most. */
export const MAX_IDEMPOTENCY_KEY_LENGTH = 256;
/** A trace context that a caller sends along: a traceparent is 55 bytes, a tracestate may have 512. */
export const MAX_TRACE_BYTES = KIB;
/** Listeners of one event of an agent: more is a leak of the program. */
export const MAX_EVENT_LISTENERS = 1_000;
/** Groups of one process that wait in a collective at once. */
export const MAX_OPEN_COLLECTIVES = 4_096;
/** Tags that a value of a collective carries: a layer that uses collectives adds one or two. */
export const MAX_COLLECTIVE_TAGS = 8;
/** Replicas that one member has given up, kept for when this worker comes to an exchange of them; */
export const MAX_FAILED_REPLICAS = 256;
/** characters of what they are known by and of the reasons, all of one member's together; */
export const MAX_FAILED_REPLICA_TEXT = 512 * KIB;
/** characters of the names of the workers of one, which a member may make up; */
export const MAX_REPLICA_NAMES_TEXT = 128 * KIB;
/** and what is told of why, in characters. */
export const MAX_REPLICA_FAILURE_TEXT = 1_024;
/** Lines of meetings that are remembered as of the living, */
export const MAX_LIVING_LINES = 1_024;
/** each of so many characters with its members: who comes may name what lines it likes. */
export const MAX_LIVING_LINE_LENGTH = 1_024;
/** The longest remote stack that is kept, in characters. */
export const MAX_REMOTE_STACK = 16 * KIB;
/** A refused call is told at most this much about why, in characters. */
export const MAX_ERROR_TEXT = 64 * KIB;
/** What travels of an error beside its message, in bytes, */
export const MAX_ERROR_DETAILS = 64 * KIB;
/** and how many of the errors inside an AggregateError. */
export const MAX_ERRORS_INSIDE = 64;
/** Own properties of an error that travel, */
export const MAX_ERROR_PROPERTIES = 64;
/** how many values one of them may hold, all levels together, */
export const MAX_PROPERTY_VALUES = 4_096;
/** and how many causes, one inside the other, */
export const MAX_ERROR_CAUSES = 8;
/** each with a message and a stack of so many characters. */
export const MAX_CAUSE_TEXT = 4 * KIB;
/** What is shown of a thrown object that is no error, in characters. */
export const MAX_THROWN_TEXT = KIB;
/** Items of a stream that may wait for their consumer: what a producer is let ahead of it. */
export const MAX_HIGH_WATER_ITEMS = 2 ** 20;
/** What a process group is asked for waits so long for the others where nothing else is said: as long as PyTorch's groups on the cpu. */
export const GROUP_TIMEOUT_MS = 30 * 60_000;
/** A wait of the program that lasts so long is told, */
export const SILENCE_MS = 10_000;
/** and again after so long; */
export const SILENCE_AGAIN_MS = 60_000;
/** so many calls or workers of it by name. */
export const MAX_WAITS_SHOWN = 8;
/** Lines of the program that are noted of a call. */
export const MAX_CALL_SITE_FRAMES = 4;
/** How many calls a second note them, unless all do: about 10 µs each, and few enough that the slowest hundredth of many is no other. */
export const MAX_CALL_SITES_A_SECOND = 200;
/** A call of a name that nobody has is told the nearest that there is, of at most so many names, */
export const MAX_NAMES_COMPARED = 256;
/** each of at most so many characters, */
export const MAX_COMPARED_NAME = 60;
/** and only so often a second: it takes as long as a few hundred calls, and anybody may ask. */
export const MAX_NAME_ADVICE_A_SECOND = 10;
