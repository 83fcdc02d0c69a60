/** @file The public surface of @backwire/profiler. */
export type { ChromeTrace, TraceClocks } from './chrome-trace.ts';
export type { ProfileEvent, ProfileOptions } from './events.ts';
export { mergeChromeTraces } from './merged-trace.ts';
export {
  measureCalls,
  metricsText,
  serveMetrics,
  type MetricsServer,
  type MetricsServerOptions,
} from './metrics/serve.ts';
export type { CallHistograms, Histogram } from './metrics/call-histograms.ts';
export { openTelemetry, type OpenTelemetryOptions } from './opentelemetry.ts';
export { profile, recordFunction, type Label, type Profile } from './profile.ts';
export { profiling } from './profiling.ts';
export { ServerProfiler } from './server-profiler.ts';
export { writeChromeTrace } from './trace-file.ts';
