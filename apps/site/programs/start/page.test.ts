/** @file "A page that is a worker" of "Start in five minutes": the server as a process, the page in a browser. */
import { join } from 'node:path';
import { CHROMIUM } from '@backwire/testing';
import { expect, it } from 'vitest';
import { pageGroup } from '../../test/browser.ts';

it.skipIf(CHROMIUM === undefined)('the page shows what the server computed', { timeout: 90_000 }, async () => {
  const group = await pageGroup(join(import.meta.dirname, 'server.ts'), join(import.meta.dirname, 'page.ts'));
  let ended: unknown[];
  try {
    await group.prints(/waiting for pages/);
    const page = await group.open();
    await page.waitForFunction('document.body.textContent.startsWith("[")');
    expect(await page.textContent('body')).toBe('[3,5,7]');
  } finally {
    ended = await group.close();
  }
  expect(ended).toEqual([0, null]);
});
