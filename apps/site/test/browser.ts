/** @file A page of a guide in Chromium, where there is one, and the worker in Node that it meets. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CHROMIUM, chromiumOptions, freePorts } from '@backwire/testing';
import { build } from 'esbuild';
import { chromium, type Page } from 'playwright-core';

if (CHROMIUM === undefined) console.log('no Chromium is installed: the test in a browser is skipped');

const SECRET = 'YxHq7pEo2nQw9sKd3vRb6tLm';

/** The group that the pages join. */
export interface PageGroup {
  /** Opens a tab of its own; it gives the secret when it is asked. */
  open(): Promise<Page>;
  /** Resolves with the first match in what the worker in Node prints. */
  prints(pattern: RegExp): Promise<RegExpExecArray>;
  /** Interrupts the worker, closes the browser, and gives how the worker ended: code and signal. */
  close(): Promise<unknown[]>;
}

/** Starts the program `server`, which hosts the store, serves `page` bundled to a browser, and has both meet. */
export async function pageGroup(server: string, page: string): Promise<PageGroup> {
  const [port = 0, storePort = 0] = await freePorts(2);
  const code = await bundle(page, storePort);
  const site = createServer(({ url }, response) => {
    if (url === '/page.js') response.setHeader('content-type', 'text/javascript').end(code);
    else response.setHeader('content-type', 'text/html').end('<script type="module" src="/page.js"></script>');
  }).listen(0, '127.0.0.1');
  await once(site, 'listening');
  const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  const child = spawn(process.execPath, ['--import', 'tsx', '--conditions=@backwire/source', server], {
    env: {
      ...process.env,
      BACKWIRE_SECRET: SECRET,
      MASTER_ADDR: '127.0.0.1',
      MASTER_PORT: String(port),
      RANK: '0',
      BACKWIRE_STORE_WS: String(storePort),
      BACKWIRE_ALLOWED_ORIGINS: origin,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const browser = await chromium.launch(chromiumOptions);
  return {
    async open() {
      const tab = await browser.newPage();
      tab.on('dialog', (dialog) => void dialog.accept(SECRET));
      await tab.goto(origin);
      return tab;
    },
    async prints(pattern) {
      const until = Date.now() + 40_000;
      for (;;) {
        const found = pattern.exec(text);
        if (found !== null) return found;
        if (Date.now() > until || child.exitCode !== null)
          throw new Error(`${String(pattern)} was not printed:\n${text}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    async close() {
      await browser.close();
      child.kill('SIGINT');
      site.close();
      return ended;
    },
  };
}

/** The page as one file; it says where the store of the guide is. */
async function bundle(page: string, storePort: number): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [page],
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
