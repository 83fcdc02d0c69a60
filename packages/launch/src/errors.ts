/** @file The two ways a launch goes wrong before any worker runs. */

/** The command line, or an option, is not one the launcher understands. The command ends with exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The group cannot be started: no such program, a taken port, no way to run TypeScript. The command ends with exit code 1. */
export class LaunchError extends Error {
  override readonly name = 'LaunchError';
}

/** The text of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The `code` of a system error ('EADDRINUSE'), if it has one. */
export function codeOf(error: unknown): string | undefined {
  const code: unknown = typeof error === 'object' && error !== null ? (error as { code?: unknown }).code : undefined;
  return typeof code === 'string' ? code : undefined;
}
