/** @file The bounds of the launcher, each with its reason. */

/** More processes than this on one host is a mistyped number, not a wish. */
export const MAX_PROCESSES = 4_096;
/** Lines of standard error kept of each worker for the report of a failure. */
export const STDERR_TAIL_LINES = 40;
/** A line longer than this is passed on in pieces, so that a worker without newlines cannot fill the launcher's memory. */
export const MAX_LINE_CHARS = 64 * 1024;
/** Of a kept line, the report shows this much. */
export const MAX_REPORT_LINE_CHARS = 2_000;
/** How long a worker that ended may still hold its output pipes (a child of its own inherited them) before they are closed. */
export const OUTPUT_GRACE_MS = 300;
/** More than a worker that ended can have left in its output pipes, whose buffers the system bounds: what comes after is of others. */
export const MAX_LEFT_BYTES = 64 * 2 ** 20;
/** A launcher that was told to end waits for so long for whoever reads its output, and does not, to take any more of it. */
export const UNREAD_MS = 3_000;
/** Signals that come this soon after the first are the first once more: longer than npm takes to pass one on, shorter than two in earnest are apart. */
export const REPEAT_MS = 500;
/** Between the polite signal and SIGKILL. */
export const DEFAULT_STOP_GRACE_MS = 3_000;
/** How long a launcher waits for those of the other hosts; torchrun's default. */
export const DEFAULT_JOIN_TIMEOUT_MS = 600_000;
/** A launcher that has waited for so long says for whom. */
export const WAIT_NOTICE_MS = 10_000;
/** How long a launcher waits for more hosts once there are enough; torchrun's is 30 s, for machines that start slower than processes. */
export const DEFAULT_LAST_CALL_MS = 5_000;
/** Between two looks at the state of the group. */
export const POLL_MS = 250;
/** A launcher that is not heard of for so long is gone; the workers' own leases are as long. */
export const HOST_LEASE_MS = 10_000;
/** How long a launcher waits for the lease of a host that is in its way; the others have to notice, too. */
export const HOST_PATIENCE_MS = HOST_LEASE_MS + 8 * POLL_MS;
/** How long the host with the store keeps it for the others to hear the last news. */
export const FAREWELL_MS = 2_000;
/** How long a store with a server of its own may be away. */
export const STORE_GRACE_MS = 60_000;
/** More hosts than this cannot be meant: ranks are 16 bits. */
export const MAX_HOSTS = 32_768;
/** Events that the state of a rendezvous remembers: enough for a launcher that looks four times a second. */
export const MAX_EVENTS = 64;
