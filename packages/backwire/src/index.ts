/** @file Everything, with one import: all packages, and an `initRpc` that installs all extensions. */
export * from '@backwire/tensor';
export * from '@backwire/wire';
export * from '@backwire/rpc';
export * from '@backwire/rref';
export * as distAutograd from '@backwire/dist-autograd';
export * as profiler from '@backwire/profiler';
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
// Named exports win over `export *`: these are the ones with the extensions installed.
export { createAgent, initRpc } from './agent.ts';
