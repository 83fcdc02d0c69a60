/** @file Counts the sends that an agent lets fail, or holds back, on purpose, by what its logger is told. */

/** How many sends of each message type have failed so far, and how many were held back. */
export interface InjectedFaults {
  readonly failed: ReadonlyMap<string, number>;
  readonly held: ReadonlyMap<string, number>;
}

/** A logger for an agent with `faults`, and what it has been told of them. Everything else it is told is dropped. */
export function countInjectedFaults(): InjectedFaults & { readonly logger: CountingLogger } {
  const failed = new Map<string, number>();
  const held = new Map<string, number>();
  const counts = new Map([
    ['a send fails on purpose', failed],
    ['a send is held back on purpose', held],
  ]);
  const none = (): void => undefined;
  const debug = ({ type }: { readonly type?: unknown }, text: string): void => {
    const count = counts.get(text);
    if (typeof type === 'string') count?.set(type, (count.get(type) ?? 0) + 1);
  };
  return { logger: { debug, info: none, warn: none, error: none }, failed, held };
}

interface CountingLogger {
  debug(about: { readonly type?: unknown }, text: string): void;
  info(): void;
  warn(): void;
  error(): void;
}
