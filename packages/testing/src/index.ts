/** @file The public surface of @backwire/testing. */
export * from './random.ts';
export * from './clock.ts';
export * from './faults.ts';
export { Link, SimNetwork, type ConnectionHandler, type DatagramHandler } from './network.ts';
export type { CloseReason, End } from './connection.ts';
export { SimNodeHost, type NodeEnv, type NodeFactory, type SimNode } from './sim-node.ts';
export * from './simulation.ts';
export * from './trace.ts';
export * from './shrink.ts';
export * from './seeds.ts';
export * from './explorer.ts';
export * from './replay-model.ts';
export * from './canonical.ts';
export { HashSet64 } from './hash-set.ts';
