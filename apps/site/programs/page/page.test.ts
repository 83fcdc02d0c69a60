/** @file The pages of the guide: tabs come and go, and the coordinator gets all rounds. */
import { join } from 'node:path';
import { CHROMIUM } from '@backwire/testing';
import { expect, it } from 'vitest';
import { pageGroup } from '../../test/browser.ts';

it.skipIf(CHROMIUM === undefined)('tabs work for the coordinator, and one may close', { timeout: 90_000 }, async () => {
  const group = await pageGroup(join(import.meta.dirname, 'coordinator.ts'), join(import.meta.dirname, 'page.ts'));
  let ended: unknown[];
  try {
    await group.prints(/waiting for pages/);
    const first = await group.open();
    const [, name = ''] = await group.prints(/(page-\S+) is here/);
    await first.close();
    await group.prints(new RegExp(`${name} is gone: [a-z-]+`));
    await group.open();
    const [, pi = ''] = await group.prints(/pi is about ([\d.]+)/);
    expect(Number(pi)).toBeCloseTo(Math.PI, 1);
  } finally {
    ended = await group.close();
  }
  expect(ended).toEqual([0, null]);
});
