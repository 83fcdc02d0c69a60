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
/** Between the polite signal and SIGKILL. */
export const DEFAULT_STOP_GRACE_MS = 3_000;
/** How long a launcher waits for those of the other hosts; torchrun's default. */
export const DEFAULT_JOIN_TIMEOUT_MS = 600_000;
