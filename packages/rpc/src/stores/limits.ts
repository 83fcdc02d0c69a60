/** @file What a store accepts and holds: checked before memory is taken. */

/** torch's own limits, so that whatever one side may write the other can read. */
export const MAX_KEY_BYTES = 8 * 1024;
export const MAX_VALUE_BYTES = 8 * 1024 * 1024;
export const MAX_KEYS_PER_REQUEST = 131_072;

/** All keys and values together: a group's records are small, so this is a runaway writer. */
export const MAX_STORE_BYTES = 1024 * 1024 * 1024;
export const MAX_STORE_KEYS = 1_000_000;
/** What an entry costs beside its key and value, so that many empty ones count too. */
export const ENTRY_OVERHEAD_BYTES = 64;

/** Clients of one server: a few for each worker of the largest group. */
export const MAX_CLIENTS = 10_000;
/** Waits and watches of one client, */
export const MAX_PARKED_PER_CLIENT = 4_096;
/** the keys that its waits name, in bytes, each with `ENTRY_OVERHEAD_BYTES`, */
export const MAX_PARKED_BYTES_PER_CLIENT = 16 * 1024 * 1024;
/** and its leases: all workers of a process may share one connection. */
export const MAX_LEASES_PER_CLIENT = 4_096;
export const MAX_LEASES = 100_000;
/** Bytes that wait for a client that does not read; past it the client is cut off. */
export const MAX_CLIENT_BACKLOG_BYTES = 64 * 1024 * 1024;
/** Changes that wait for a watcher; past it they are replaced by one `resync`. */
export const MAX_WATCH_BACKLOG = 4_096;

export const MIN_LEASE_MS = 100;
export const MAX_LEASE_MS = 24 * 60 * 60 * 1000;
/**
 * How long a lease outlives the last connection that holds it: enough to connect again, short enough that a killed process is noticed
 * in about a second.
 */
export const ORPHAN_GRACE_MS = 1_000;
