/** @file The public surface of @backwire/rpc in browsers. */
export * from './shared.ts';
export { createAgent, initRpc } from './agent/start-browser.ts';
