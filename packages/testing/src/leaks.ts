/** @file Finds what a test leaves behind: sockets, servers, timers, child processes, memory. */

/** Resources that keep the event loop alive, by kind. */
type Resources = Readonly<Record<string, number>>;

/** The resources that are open now, as Node counts them. */
function openResources(): Resources {
  const counts: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

/** What noLeaks ignores unless told otherwise: the test runner's own pipes and timers. */
const RUNNER_KINDS: readonly string[] = [
  'Timeout',
  'Immediate',
  'PipeWrap',
  'TTYWrap',
  'FSReqCallback',
  'FSReqPromise',
  'CloseReq',
  'TickObject',
];

/** Settings of `noLeaks`. */
export interface LeakOptions {
  /** Kinds that are not compared. @default the kinds a test runner uses itself, PipeWrap and Timeout among them */
  readonly ignore?: readonly string[];
  /** How long resources may take to go away, milliseconds. @default 5000 */
  readonly timeoutMs?: number;
}

/** Runs `action` and throws when sockets, servers or child processes it opened are still open some time after it ended. */
export async function noLeaks<T>(action: () => T | Promise<T>, options: LeakOptions = {}): Promise<T> {
  const ignore = new Set(options.ignore ?? RUNNER_KINDS);
  const before = openResources();
  const result = await action();
  const end = performance.now() + (options.timeoutMs ?? 5_000);
  for (;;) {
    const after = openResources();
    const left = Object.entries(after).filter(([kind, count]) => !ignore.has(kind) && count > (before[kind] ?? 0));
    if (left.length === 0) return result;
    if (performance.now() > end) {
      throw new Error(`left open: ${left.map(([kind, count]) => `${count - (before[kind] ?? 0)} ${kind}`).join(', ')}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Polls until `look` gives something other than undefined and false; rejects with `what` when the time is over. */
export async function eventually<T>(
  what: string,
  look: () => T | Promise<T>,
  timeoutMs = 10_000,
): Promise<Exclude<T, undefined | false>> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found as Exclude<T, undefined | false>;
    if (performance.now() > end) throw new Error(`${what}: not so within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
