/** @file What the two raw processes agree on. */

/** A ping: as long as the frame of an empty call. */
export const FRAME_BYTES = 48;
/** The largest body that is echoed. */
export const MAX_BODY_BYTES = 256 * 1_048_576;
/** Most bytes of one read. */
export const READ_BYTES = 1_048_576;
