import { createAgent, type RpcAgent, type RpcOptions } from 'backwire';
import './orders.ts'; // what the shop can be asked

export let client: RpcAgent;
let shop: RpcAgent;
let groups = 0;

/** Two workers in this process: no port, no other process, a few milliseconds. */
export async function start(options: { client?: Partial<RpcOptions>; shop?: Partial<RpcOptions> } = {}): Promise<void> {
  const common = { worldSize: 2, store: `memory://orders-${++groups}`, transports: ['memory'] };
  [client, shop] = await Promise.all([
    createAgent({ name: 'client', rank: 0, ...common, ...options.client }),
    createAgent({ name: 'shop', rank: 1, ...common, ...options.shop }),
  ]);
}

/** Leaves, and fails where a reference is still held. */
export const stop = (): Promise<unknown> =>
  Promise.all([client, shop].map((agent) => agent.shutdown({ timeoutMs: 5_000, onLeak: 'throw' })));
