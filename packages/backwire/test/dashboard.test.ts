/**
 * @file The live page about a running job, in a real browser: workers, rates, a killed worker, references. With BACKWIRE_SCREENSHOTS=1 it
 * also writes the pictures in docs/images.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chromium, type Browser, type Page } from 'playwright-core';
import { CHROMIUM, chromiumOptions, freePort, TestCluster } from '@backwire/testing';

const job = new URL('./job.ts', import.meta.url);
const cli = new URL('../src/cli.ts', import.meta.url);
const images = join(import.meta.dirname, '../../../../docs/images');
const WAIT = { timeout: 20_000 };

if (CHROMIUM === undefined) console.warn('no Chromium here: the test of the dashboard is skipped');

describe.skipIf(CHROMIUM === undefined)('the dashboard in a browser', { timeout: 90_000 }, () => {
  let workers: TestCluster;
  let command: TestCluster;
  let browser: Browser;
  let page: Page;
  let url: string;
  const requests: string[] = [];
  const complaints: string[] = [];

  beforeAll(async () => {
    const endpoint = `127.0.0.1:${await freePort()}`;
    const [MASTER_ADDR, MASTER_PORT] = endpoint.split(':');
    const env = { MASTER_ADDR, MASTER_PORT, BACKWIRE_SECRET: 'a secret for tests only' };
    workers = new TestCluster({ program: job, worldSize: 4, env });
    await Promise.all(workers.workers.map((worker) => worker.line(/^ready/, { timeoutMs: 100_000 })));
    command = new TestCluster({ program: cli, worldSize: 1, args: ['dashboard', endpoint, '--interval', '0.5'], env });
    url = /http:\S+/.exec(await command.worker(0).line(/http:/))?.[0] ?? '';
    browser = await chromium.launch(chromiumOptions);
    const context = await browser.newContext({
      viewport: { width: 1400, height: 1180 },
      colorScheme: 'dark',
      deviceScaleFactor: 1,
    });
    page = await context.newPage();
    page.on('request', (request) => requests.push(request.url()));
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(url);
  }, 120_000);
  afterAll(async () => {
    await browser?.close();
    await command?.dispose();
    await workers?.dispose();
  });

  const state = (name: string): Promise<string | null> =>
    page.locator(`#graph .worker[data-worker="${name}"]`).getAttribute('data-state');
  const figure = (series: string): Promise<string> => page.locator(`.tile[data-series="${series}"] output`).innerText();
  const until = async (what: string, holds: () => Promise<boolean>): Promise<void> => {
    const end = Date.now() + WAIT.timeout;
    while (!(await holds())) {
      if (Date.now() > end) throw new Error(`waited too long for ${what}\n${await page.locator('body').innerText()}`);
      await sleep(100);
    }
  };
  const shot = async (name: string): Promise<void> => {
    if (process.env['BACKWIRE_SCREENSHOTS'] !== '1') return;
    mkdirSync(images, { recursive: true });
    await page.screenshot({ path: join(images, name), fullPage: true });
  };

  it('sees the four workers, and that they call each other', async () => {
    await page.locator('#graph .worker').nth(3).waitFor(WAIT);
    for (const rank of [0, 1, 2, 3]) expect(await state(`worker${rank}`)).toBe('up');
    await until('a rate above zero', async () => Number.parseFloat(await figure('calls')) > 0);
    await until('a way with calls', async () => (await page.locator('#graph .link.active').count()) >= 12);
    expect(Number.parseFloat(await figure('bytes'))).toBeGreaterThan(0);
    await until(
      'calls on the timeline',
      async () => Number.parseInt((await page.locator('#timeline').getAttribute('aria-label')) ?? '0') > 20,
    );
    expect(await page.locator('#timeline .call').count()).toBeGreaterThan(0);
    await until('the table', async () => (await page.locator('#worker-table tbody tr').count()) === 4);
    expect(await page.locator('#status').getAttribute('data-state')).toBe('live');
    expect(await page.locator('#status').innerText()).toContain('4 of 4 workers');
  });

  it('sees a failed call, and one that does not end', async () => {
    await until('a failure', async () => (await page.locator('#notes').innerText()).includes('job/flaky: TypeError'));
    expect(await page.locator('#notes').innerText()).not.toContain('this happens now and then');
    workers.worker(0).send('stick');
    await until('the call in flight', async () =>
      (await page.locator('#open-table').innerText()).includes('job/stuck'),
    );
  });

  it('sees a reference appear and go', async () => {
    expect(await figure('rrefs')).toBe('0');
    for (const rank of [0, 0, 1, 3]) workers.worker(rank).send('hold');
    await until('the references', async () => (await figure('rrefs')) === '4');
    await until('their rows', async () => (await page.locator('#rref-table tbody tr').count()) === 4);
    expect(await page.locator('#rref-table').innerText()).toMatch(/worker2\s+Tensor\s+worker0/);
    await sleep(Number(process.env['BACKWIRE_SCREENSHOTS'] === '1') * 8_000);
    await shot('dashboard-dark.png');
    await page.locator('#theme').click();
    for (const rank of [0, 1, 3]) workers.worker(rank).send('drop');
    await until('no reference', async () => (await figure('rrefs')) === '0');
  });

  it('turns a killed worker red', async () => {
    workers.worker(3).kill('SIGKILL');
    await until('the dead worker', async () => (await state('worker3')) === 'dead');
    const dead = await page
      .locator('#graph .worker[data-worker="worker3"] .disc')
      .evaluate((disc) => getComputedStyle(disc).stroke);
    const well = await page
      .locator('#graph .worker[data-worker="worker0"] .disc')
      .evaluate((disc) => getComputedStyle(disc).stroke);
    const [red = 0, green = 0, blue = 0] = dead.match(/\d+/g)?.map(Number) ?? [];
    expect(red).toBeGreaterThan(2 * Math.max(green, blue));
    expect(well).not.toBe(dead);
    expect(await page.locator('#notes').innerText()).toContain('worker3 died');
    expect(await page.locator('#status').innerText()).toContain('3 of 4 workers');
    await until('calls among the others', async () => Number.parseFloat(await figure('calls')) > 0);
    await shot('dashboard-lost-worker.png');
  });

  it('can be read without seeing colours, and on a small screen', async () => {
    expect(await page.locator('h1').count()).toBe(1);
    for (const graphic of await page.locator('svg:not([aria-hidden]):visible').all())
      expect(
        await graphic.getAttribute('aria-label'),
        await graphic.evaluate((element) => element.outerHTML.slice(0, 90)),
      ).toBeTruthy();
    // A list stays a list, and nothing that changes every second is read out.
    expect(await page.getByRole('log', { name: 'Errors and changes' }).getByRole('list').count()).toBe(1);
    expect(await page.locator('output:not([aria-live="off"])').count()).toBe(0);
    // Whatever scrolls can be scrolled by keyboard.
    for (const place of await page.locator('.scroll:visible, .notes').all())
      expect(await place.evaluate((element: HTMLElement) => element.tabIndex)).toBe(0);
    const said = await page.locator('#graph .worker[data-worker="worker3"]').getAttribute('aria-label');
    expect(said).toBe('worker3, dead');
    const themes = new Set<string | undefined>();
    for (let round = 0; round < 2; round++) {
      const theme = await page.evaluate(() => document.documentElement.dataset['theme']);
      themes.add(theme);
      // WCAG AA for text.
      for (const selector of ['.hint', '.tile h2', '#worker-table td', '#status'])
        expect(await contrast(page, selector), `${selector} when ${theme ?? ''}`).toBeGreaterThan(4.5);
      await page.locator('#theme').click();
    }
    expect([...themes].sort()).toEqual(['dark', 'light']);
    await page.setViewportSize({ width: 420, height: 800 });
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    expect(overflow).toBeLessThanOrEqual(0);
  });

  it('asked nobody else for anything, and broke no rule of its own', async () => {
    const { origin } = new URL(url);
    expect(requests.length).toBeGreaterThan(5);
    for (const request of requests.filter((each) => !each.startsWith('data:')))
      expect(new URL(request).origin).toBe(origin);
    expect(complaints).toEqual([]);
    // Without the token there is nothing to see, nor under another name of this host.
    expect((await fetch(`${origin}/`)).status).toBe(404);
    expect((await fetch(`${origin}/${'0'.repeat(32)}/events`)).status).toBe(404);
    const page_ = await fetch(url);
    expect(page_.headers.get('content-security-policy')).toMatch(/^default-src 'none'/);
    expect(page_.headers.get('content-security-policy')).not.toContain('unsafe');
    expect((await fetch(`${url}..%2fpackage.json`)).status).toBe(404);
    expect((await fetch(url, { method: 'POST' })).status).toBe(405);
  });

  it('lets as many tabs be opened as one likes, and tells the oldest that it is one too many', async () => {
    const tabs = await Promise.all(Array.from({ length: 5 }, () => page.context().newPage()));
    try {
      for (const tab of tabs) {
        await tab.goto(url, WAIT);
        await tab.locator('#graph .worker').nth(3).waitFor(WAIT);
      }
      await until('the notice', async () => (await page.locator('#status').innerText()).includes('reload it'));
      await page.reload(WAIT);
      await page.locator('#graph .worker').nth(3).waitFor(WAIT);
    } finally {
      await Promise.all(tabs.map((tab) => tab.close()));
    }
  });

  it('says so when the command has ended', async () => {
    command.worker(0).kill('SIGINT');
    expect((await command.worker(0).exited()).code).toBe(0);
    await until('the loss', async () => (await page.locator('#status').getAttribute('data-state')) === 'lost');
    expect(complaints.filter((text) => !text.includes('ERR_'))).toEqual([]);
  });
});

/** The contrast of an element's text on the panel or page behind it, from 1 to 21. */
function contrast(page: Page, selector: string): Promise<number> {
  // In one go: the page changes twice a second.
  return page.evaluate((wanted) => {
    const channels = (colour: string): number[] => colour.match(/[\d.]+/g)?.map(Number) ?? [];
    const light = (colour: string): number => {
      const [r = 0, g = 0, b = 0] = channels(colour).map((value) => {
        const part = value / 255;
        return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const element = document.querySelector(wanted) ?? document.body;
    let behind: Element | null = element;
    while (behind !== null && channels(getComputedStyle(behind).backgroundColor)[3] === 0)
      behind = behind.parentElement;
    const [one, other] = [
      light(getComputedStyle(element).color),
      light(getComputedStyle(behind ?? document.body).backgroundColor),
    ];
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  }, selector);
}
