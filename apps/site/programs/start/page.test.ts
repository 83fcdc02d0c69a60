/** @file "A page that is a worker" of "Start in five minutes": the server as a process, the page in a browser. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { CHROMIUM, chromiumOptions, freePorts } from '@backwire/testing';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';
import { expect, it } from 'vitest';

if (CHROMIUM === undefined) console.log('no Chromium is installed: the test in a browser is skipped');

/** page.ts as one file; it says where the store of the guide is. */
async function bundle(storePort: number): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, 'page.ts')],
    bundle: true,
    format: 'esm',
    platform: 'browser',
    conditions: ['browser', '@backwire/source'],
    target: 'es2022',
    write: false,
    logLevel: 'error',
  });
  return (outputFiles[0]?.text ?? '').replace('127.0.0.1:29501', `127.0.0.1:${storePort}`);
}

it.skipIf(CHROMIUM === undefined)('the page shows what the server computed', { timeout: 90_000 }, async () => {
  const [port = 0, storePort = 0] = await freePorts(2);
  const code = await bundle(storePort);
  const site = createServer(({ url }, response) => {
    if (url === '/page.js') response.setHeader('content-type', 'text/javascript').end(code);
    else response.setHeader('content-type', 'text/html').end('<script type="module" src="/page.js"></script>');
  }).listen(0, '127.0.0.1');
  await once(site, 'listening');
  const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  const secret = 'YxHq7pEo2nQw9sKd3vRb6tLm';
  const server = spawn(
    process.execPath,
    ['--import', 'tsx', '--conditions=@backwire/source', join(import.meta.dirname, 'server.ts')],
    {
      env: {
        ...process.env,
        BACKWIRE_SECRET: secret,
        MASTER_ADDR: '127.0.0.1',
        MASTER_PORT: String(port),
        RANK: '0',
        BACKWIRE_STORE_WS: String(storePort),
        BACKWIRE_ALLOWED_ORIGINS: origin,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const ended = once(server, 'exit');
  const browser = await chromium.launch(chromiumOptions);
  try {
    expect(String(await once(server.stdout, 'data'))).toContain('waiting for pages');
    const page = await browser.newPage();
    page.on('dialog', (dialog) => void dialog.accept(secret));
    await page.goto(origin);
    await page.waitForFunction('document.body.textContent.startsWith("[")');
    expect(await page.textContent('body')).toBe('[3,5,7]');
  } finally {
    await browser.close();
    server.kill('SIGINT');
    site.close();
  }
  expect(await ended).toEqual([0, null]);
});
