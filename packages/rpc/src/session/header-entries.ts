/** @file The entries of a frame's header table that are the agent's own; all others belong to extensions. */

/** The idempotency key of a call. */
export const KEY_ENTRY = 'rpc.key';
/** How many items of a stream may be sent at first. */
export const ITEMS_ENTRY = 'rpc.items';
/** The trace context of the caller. */
export const TRACE_ENTRY = 'rpc.trace';
