import { rpcInfo } from 'backwire';
import { afterEach, expect, it } from 'vitest';
import { client, start, stop } from './group.ts';
import { orderOnce } from './orders.ts';

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
