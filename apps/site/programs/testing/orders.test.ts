import { findLeaks, rpcSync, tensor } from 'backwire';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { client, start, stop } from './group.ts';
import { order, orderOnce } from './orders.ts';

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
