/** @file Counts the sends that an agent lets fail on purpose, by what its logger is told. */

/** A logger for an agent with `faults`, and how many sends of each message type have failed so far. Everything else it is told is dropped. */
export function countInjectedFaults(): {
  readonly logger: CountingLogger;
  readonly failed: ReadonlyMap<string, number>;
} {
  const failed = new Map<string, number>();
  const none = (): void => undefined;
  const debug = ({ type }: { readonly type?: unknown }, text: string): void => {
    if (text === 'a send fails on purpose' && typeof type === 'string') failed.set(type, (failed.get(type) ?? 0) + 1);
  };
  return { logger: { debug, info: none, warn: none, error: none }, failed };
}

interface CountingLogger {
  debug(about: { readonly type?: unknown }, text: string): void;
  info(): void;
  warn(): void;
  error(): void;
}
