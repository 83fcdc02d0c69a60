import { setTimeout as delay } from 'node:timers/promises';
import { newIdempotencyKey, rpcFunction, rpcInfo, rpcSync } from 'backwire';

let orders = 0;

/** Takes an order; called twice it takes two. */
export const order = rpcFunction('shop/order', (what: string) => `${what} no. ${++orders}`);

/** Orders once, however often it has to ask. */
export async function orderOnce(what: string): Promise<string> {
  const idempotencyKey = newIdempotencyKey(); // one key for all tries
  for (let tries = 1; ; tries++) {
    try {
      return await rpcSync('shop', order, [what], { idempotencyKey, timeoutMs: 1_000 });
    } catch (error) {
      if (tries === 5 || rpcInfo(error)?.code !== 'unavailable') throw error;
      await delay(10 * 2 ** tries);
    }
  }
}
