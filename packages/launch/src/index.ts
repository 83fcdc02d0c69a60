/** @file The public surface of @backwire/launch. */
export { LaunchError, UsageError } from './errors.ts';
export { launch, type LaunchResult } from './launch.ts';
export { main } from './main.ts';
export type { LaunchOptions } from './options.ts';
export type { Streams, StreamsOf } from './output-spec.ts';
export type { StartedWorker, WorkerEnd, WorkerExit } from './worker-process.ts';
