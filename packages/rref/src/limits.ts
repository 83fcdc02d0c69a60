/** @file Every bound of this package, with its reason. */

/** Live forks one worker may hold of another, unless the agent says otherwise (`limits.maxLiveForks`): a peer cannot fill the owner's memory. */
export const MAX_FORKS_PER_HOLDER = 1_000_000;

/** RRefs that one member mentions before the call that creates them has arrived. The call is on its way from a live member, so they are few. */
export const MAX_AWAITED = 65_536;

/** Handles that one member has handed on here and whose owner has not answered: an answer is a round trip away, so they are few. */
export const MAX_PENDING_PER_PARENT = 65_536;

/** Deleted forks remembered, per generation (two are kept). Sessions already drop repeated frames; this outlasts what one can replay. */
export const MAX_TOMBSTONES_PER_GENERATION = 8_192;

/** Forks named in one delete message; a tick that drops more sends several, each well under a control frame's 1 MiB. */
export const MAX_DELETES_PER_MESSAGE = 4_096;

/** Bytes of error text that travel with a failed creation or a refused fork. */
export const MAX_FAILURE_TEXT_BYTES = 4_096;

/** Dead members named in one message: members of a group are numbered with 16 bits. */
export const MAX_DEAD_MEMBERS = 65_536;

/** Lives that are over whose workers errors can still name; the oldest are named by their ids. */
export const MAX_FORMER_LIVES = 4_096;

/** The longest a shutdown without a deadline waits for handles to come home, in milliseconds; as in PyTorch. */
export const MAX_DRAIN_MS = 100_000;

/** Streams that were answered with a ticket and not opened yet, per calling worker. */
export const MAX_PARKED_STREAMS_PER_PEER = 1_024;

/** How long such a ticket is good for, in milliseconds: the consumer opens it in its next turn, so only a lost one lasts. */
export const PARKED_STREAM_MS = 60_000;

/** Stack lines kept as the creation site of an RRef. */
export const CREATION_SITE_FRAMES = 4;

/** Control messages kept for a member that a handle names and no view has shown yet: views come within a second or two. */
export const MAX_MESSAGES_TO_STRANGERS = 65_536;

/** RRefs of each side that an inspector is shown; the rest is counted. */
export const MAX_INSPECTED = 1_000;
