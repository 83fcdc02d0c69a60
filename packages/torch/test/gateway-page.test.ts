/** @file A page behind a gateway: its bundle has nothing of Node, and in Chromium it calls into the torch group. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createAgent, rpcClass, rpcFunction } from '@backwire/rpc';
import { openStore, resolveSecurity, serveStore } from '@backwire/rpc/internal';
import { rrefs } from '@backwire/rref';
import { rpcName, type Tensor } from '@backwire/tensor';
import { CHROMIUM, chromiumOptions } from '@backwire/testing';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';
import { expect, it, vi } from 'vitest';
import type { Agent } from '../src/agent.ts';
import { py, serveGateway } from '../src/index.ts';
import type { Page } from './gateway-page.ts';
import { group, leave } from './group.ts';

const SECRET = 'a secret of the page behind a gateway';

rpcFunction('page.scale', (x: Tensor, by: number) => x.mul(by));
rpcFunction('page.same', (value: unknown) => value);
class Counter {
  static readonly [rpcName] = 'page.Counter';
  count: number;
  constructor(start: number) {
    if (start < 0) throw new RangeError('below zero');
    this.count = start;
  }
  add(n: number): number {
    return (this.count += n);
  }
}
rpcClass(Counter, { methods: ['add'] });

async function bundle(): Promise<{ code: string; inputs: string[]; imports: string[] }> {
  const { outputFiles, metafile } = await build({
    entryPoints: [new URL('gateway-page.ts', import.meta.url).pathname],
    bundle: true,
    format: 'esm',
    platform: 'browser',
    conditions: ['browser', '@backwire/source'],
    target: 'es2022',
    write: false,
    metafile: true,
    logLevel: 'error',
  });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path));
  return { code: outputFiles[0]?.text ?? '', inputs: Object.keys(metafile.inputs), imports };
}

it('is a bundle without anything of Node, or of what speaks to torch', { timeout: 60_000 }, async () => {
  const { inputs, imports } = await bundle();
  expect(imports).toEqual([]);
  const own = inputs
    .map((path) => /(?:^|packages\/torch\/)src\/(.*)$/.exec(path)?.[1])
    .filter((path) => path !== undefined);
  expect(own).toContain('gateway/client.ts');
  expect(
    own.filter(
      (path) =>
        !/^(gateway|py|values\/.*|calls\/targets|pickle\/refusal|gateway\/(client|names|values))\.ts$/.test(path),
    ),
  ).toEqual([]);
});

if (CHROMIUM === undefined) console.log('no Chromium is installed: the test in a browser is skipped');

it.skipIf(CHROMIUM === undefined)(
  'calls, holds objects, and is refused what is not served',
  { timeout: 120_000 },
  async () => {
    const { code } = await bundle();
    const site = createServer(({ url }, response) => {
      if (url === '/page.js') response.setHeader('content-type', 'text/javascript').end(code);
      else
        response
          .setHeader('content-type', 'text/html')
          .end('<!doctype html><script type=module src=/page.js></script>');
    }).listen(0, '127.0.0.1');
    await once(site, 'listening');
    const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
    process.env['BACKWIRE_ALLOWED_ORIGINS'] = origin;
    const store = await serveStore({ secret: SECRET, webSocket: { allowedOrigins: [origin] } });
    const security = { mode: 'hmac', secret: SECRET } as const;
    const opened = await openStore(`tcp://127.0.0.1:${store.port}`, { rank: 9, security: resolveSecurity(security) });
    const gateway = await createAgent({
      name: 'gateway',
      membership: 'dynamic',
      transports: ['unix', 'ws'],
      security,
      store: opened.store,
      serve: [],
      extensions: [rrefs()],
    });
    const torch = await group(2);
    const browser = await chromium.launch(chromiumOptions);
    try {
      serveGateway(torch[0] as Agent, {
        serve: [py('page.scale'), py('page.same'), { make: py('page.Counter'), methods: ['add'] }],
        agent: gateway,
      });
      const tab = await browser.newPage();
      tab.on('pageerror', (error) => console.error('in the page:', error));
      await tab.goto(origin);
      await tab.waitForFunction('globalThis.page !== undefined');
      const page = <K extends keyof Page>(
        name: K,
        ...args: Parameters<Page[K]>
      ): Promise<Awaited<ReturnType<Page[K]>>> =>
        tab.evaluate(`globalThis.page[${JSON.stringify(name)}](...${JSON.stringify(args)})`);
      await page('join', store.webSocketEndpoint as string, SECRET);
      expect(await page('scale', 4, 2)).toEqual([4, 12]);
      expect(await page('scale', 1_000_000, 2)).toEqual([1_000_000, 3_000_000]);
      expect(await page('same')).toBe(true);
      expect(await page('count')).toEqual(['gateway', 41, 42]);
      expect(await page('refused')).toEqual(['permission-denied', true, 'below zero']);
      const owned = (): unknown => (torch[1] as Agent).rrefs.debugInfo()['num_owner_rrefs'];
      expect(owned()).toBeGreaterThan(0);
      await page('drop');
      // What it did not let go of goes with the page itself.
      await tab.close();
      await vi.waitFor(() => expect(owned()).toBe(0), { timeout: 15_000 });
    } finally {
      await browser.close();
      await gateway.shutdown({ graceful: false });
      await leave(torch);
      await store.close();
      site.close();
      delete process.env['BACKWIRE_ALLOWED_ORIGINS'];
    }
  },
);
