/** @file What sibling packages use of @backwire/profiler; not covered by semantic versioning. */
export { chromeTrace, type TraceSource } from './chrome-trace.ts';
export { alignClocks, ClockBook, clockOffset, type ClockLink, type ClockOffset, type ClockSample } from './clock.ts';
export type { RecordedEvent } from './events.ts';
export { mergedTrace, traceSource } from './profile.ts';
export type { WorkerClock } from './now.ts';
export { profilingKey, profilingWithClock } from './profiling.ts';
export { layOut } from './summary.ts';
