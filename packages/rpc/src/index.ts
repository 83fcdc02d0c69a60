/** @file The public surface of @backwire/rpc. */
export * from './surface.ts';
export { createAgent, initRpc } from './start-node.ts';
