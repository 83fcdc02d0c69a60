/** @file Everything, with one import, but for what only Node can do. */
export * from '@backwire/tensor';
export * from '@backwire/wire';
export * from '@backwire/rpc';
export * from '@backwire/rref';
export * as distAutograd from '@backwire/dist-autograd';
export * as profiler from '@backwire/profiler';
// Named exports win over `export *`: these are the ones with the extensions installed.
export { createAgent, initRpc } from './agent.ts';
