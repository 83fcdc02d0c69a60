/** @file Everything, with one import: all packages, and an `initRpc` that installs all extensions. */
export * from './surface.ts';
export {
  launch,
  LaunchError,
  UsageError,
  type LaunchOptions,
  type LaunchResult,
  type StartedWorker,
  type Streams,
  type StreamsOf,
  type WorkerEnd,
  type WorkerExit,
} from '@backwire/launch';
