/** @file The public surface of @backwire/rpc. */
export * from './shared.ts';
export { createAgent, initRpc } from './agent/start-node.ts';
