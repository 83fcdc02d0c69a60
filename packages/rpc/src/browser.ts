/** @file The public surface of @backwire/rpc in browsers. */
export * from './surface.ts';
export { createAgent, initRpc } from './start-browser.ts';
