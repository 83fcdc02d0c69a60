import { createAgent, findLeaks, rpcInfo, rpcSync, tensor, type RpcAgent, type RpcOptions } from 'backwire';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { order, orderOnce } from './orders.ts';

// #region group
let client: RpcAgent;
let shop: RpcAgent;
let groups = 0;

/** Two workers in this process: no port, no other process, a few milliseconds. */
async function start(options: { client?: Partial<RpcOptions>; shop?: Partial<RpcOptions> } = {}): Promise<void> {
  const common = { worldSize: 2, store: `memory://orders-${++groups}`, transports: ['memory'] };
  [client, shop] = await Promise.all([
    createAgent({ name: 'client', rank: 0, ...common, ...options.client }),
    createAgent({ name: 'shop', rank: 1, ...common, ...options.shop }),
  ]);
}

/** Leaves, and fails where a reference is still held. */
const stop = (): Promise<unknown> =>
  Promise.all([client, shop].map((agent) => agent.shutdown({ timeoutMs: 5_000, onLeak: 'throw' })));
// #endregion group

// #region calls
describe('an order', () => {
  beforeEach(() => start());
  afterEach(stop);

  it('is taken by the shop', async () => {
    expect(await client.run(() => orderOnce('tea'))).toMatch(/^tea no\. \d+$/);
  });

  it('leaves no tensor behind', async () => {
    const { leaks } = await findLeaks(async () => {
      using x = tensor([1]);
      await client.run(() => rpcSync('shop', order, [String(x.item())]));
    });
    expect(leaks).toEqual([]);
  });
});
// #endregion calls

// #region faults
describe('what fails on the way', () => {
  afterEach(stop);

  it('a call that never left is made again', async () => {
    await start({ client: { faults: { failFirst: { PYTHON_CALL: 2 } } } });
    expect(await client.run(() => orderOnce('tea'))).toMatch(/^tea/);
    expect(client.debugInfo()['agent.injected_faults']).toBe(2);
  });

  it('an answer that was lost is asked for again, and the order is not taken twice', async () => {
    await start({ shop: { faults: { failFirst: { PYTHON_RET: 1 } } } });
    const number = (text: string): number => Number(text.split(' ').at(-1));
    const first = number(await client.run(() => orderOnce('tea')));
    const second = number(await client.run(() => orderOnce('tea')));
    expect(second).toBe(first + 1);
  });

  it('a slow shop is not waited for beyond the time limit', async () => {
    await start({ shop: { faults: { delayMs: { PYTHON_RET: 2_000 } } } });
    const error: unknown = await client.run(() => orderOnce('tea')).catch((error: unknown) => error);
    expect(rpcInfo(error)).toMatchObject({ code: 'deadline-exceeded', executed: 'maybe' });
  });
});
// #endregion faults
