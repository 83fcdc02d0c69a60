/** @file What sibling packages use of @backwire/profiler; not covered by semantic versioning. */
export { chromeTrace, type TraceSource } from './chrome-trace.ts';
export { clockOffset, type ClockOffset, type ClockSample } from './clock.ts';
export type { RecordedEvent } from './events.ts';
export { mergedTrace, traceSource } from './profile.ts';
export { profilingKey } from './profiling.ts';
export { layOut } from './summary.ts';
