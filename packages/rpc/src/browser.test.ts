/** @file A real browser as a member of a group: it is bundled without anything of Node, calls with tensors, and is called. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { build } from 'esbuild';
import { chromium, type Browser, type Page as BrowserPage } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { tensor, type Tensor } from '@backwire/tensor';
import { CHROMIUM, chromiumOptions } from '@backwire/testing';
import { barrier, createAgent, remoteFunction, rpcAsync, rpcFunction, rpcInfo, type RpcAgent } from './index.ts';
import { joinAddress, openStore, serveStore, type StoreServer } from './internal.ts';
import { until } from '../test/cluster.ts';
import type { Page } from '../test/page.ts';

const SECRET = 'a secret of the browser test';

rpcFunction('browser/scale', (x: Tensor, by: number) => x.mul(by));
rpcFunction('browser/fail', (text: string): void => {
  throw new RangeError(text);
});
rpcFunction('browser/hang', () => new Promise<void>(() => undefined));
rpcFunction('browser/count', async function* (to: number) {
  for (let i = 0; i < to; i++) yield i;
});
const double = remoteFunction<(x: Tensor) => Tensor>('page/double');
const who = remoteFunction<() => string>('page/who');
const askBack = remoteFunction<(by: number) => number[]>('page/askBack');

/** The test page as one file. */
async function bundle(): Promise<{ code: string; inputs: string[]; imports: string[] }> {
  const { outputFiles, metafile } = await build({
    entryPoints: [new URL('../test/page.ts', import.meta.url).pathname],
    bundle: true,
    format: 'esm',
    platform: 'browser',
    conditions: ['browser', '@backwire/source'],
    target: 'es2022',
    write: false,
    metafile: true,
    logLevel: 'error',
  });
  // What the bundle still imports when it runs; texts that are programs of Node's threads are none of that.
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path));
  return { code: outputFiles[0]?.text ?? '', inputs: Object.keys(metafile.inputs), imports };
}

test('a bundle for browsers takes nothing of Node along', async () => {
  const { inputs, imports } = await bundle();
  expect(imports).toEqual([]);
  const own = inputs.filter((path) => path.includes('rpc/src') || path.startsWith('src/'));
  const node = /\/(tcp|tls|unix|cma|port|listen|socket|websocket|secret|open|start-node|thread|etcd|redis|file)\.ts$/;
  expect(own.filter((path) => node.test(path) || path.endsWith('security/policy.ts'))).toEqual([]);
  expect(own.some((path) => path.endsWith('start-browser.ts'))).toBe(true);
});

/** What a worker does with the page's functions: it answers through the port that comes with a message. */
const ANSWERS = `
  globalThis.onmessage = async ({ data: [name, ...args], ports: [port] }) => port.postMessage(await backwire[name](...args));
  globalThis.onconnect = ({ ports: [port] }) => (port.onmessage = globalThis.onmessage);`;
/** How each kind of worker is started, and what messages to it go to. */
const STARTED = {
  dedicated: `new Worker('/worker.js', { type: 'module' })`,
  shared: `new SharedWorker('/worker.js', { type: 'module' }).port`,
  service: `(await navigator.serviceWorker.register('/worker.js', { type: 'module' }), (await navigator.serviceWorker.ready).active)`,
};

const described = CHROMIUM === undefined ? describe.skip : describe;
if (CHROMIUM === undefined) console.log('no Chromium is installed: the tests in a browser are skipped');

described('a page in Chromium', { timeout: 60_000 }, () => {
  let browser: Browser;
  let tab: BrowserPage;
  let site: Server;
  let server: StoreServer;
  const agents: RpcAgent[] = [];

  beforeAll(async () => {
    const { code } = await bundle();
    site = createServer((request, response) => {
      if (request.url === '/page.js') response.setHeader('content-type', 'text/javascript').end(code);
      else if (request.url === '/worker.js')
        response.setHeader('content-type', 'text/javascript').end(`${code}\n${ANSWERS}`);
      else
        response
          .setHeader('content-type', 'text/html')
          .end('<!doctype html><script type=module src=/page.js></script>');
    });
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
    const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
    process.env['BACKWIRE_ALLOWED_ORIGINS'] = origin;
    server = await serveStore({ secret: SECRET, webSocket: { allowedOrigins: [origin] } });
    const security = { mode: 'hmac', secret: SECRET } as const;
    for (const name of ['a', 'b']) {
      const store = `tcp://127.0.0.1:${server.port}`;
      const opened = await openStore(store, {
        rank: 9,
        security: (await import('./security/policy.ts')).resolveSecurity(security),
      });
      const agent = await createAgent({
        name,
        membership: 'dynamic',
        transports: ['unix', 'ws'],
        security,
        store: opened.store,
      });
      agents.push(agent);
    }
    browser = await chromium.launch(chromiumOptions);
    tab = await browser.newPage();
    tab.on('pageerror', (error) => console.error('in the page:', error));
    await tab.goto(origin);
    await tab.waitForFunction('globalThis.backwire !== undefined');
  }, 60_000);
  afterAll(async () => {
    delete process.env['BACKWIRE_ALLOWED_ORIGINS'];
    await browser?.close();
    await Promise.all(agents.map((agent) => agent.shutdown({ graceful: false })));
    await server?.close();
    site?.close();
  });

  /** Calls a function of the page. */
  function page<K extends keyof Page>(name: K, ...args: Parameters<Page[K]>): Promise<Awaited<ReturnType<Page[K]>>> {
    return tab.evaluate(`globalThis.backwire[${JSON.stringify(name)}](...${JSON.stringify(args)})`);
  }
  const first = (): RpcAgent => agents[0] as RpcAgent;

  test('with another secret, or of another origin, is told at once, and so are we', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    const store = server.webSocketEndpoint as string;
    // The default: five minutes.
    const wait = 300_000;
    await expect(page('join', 'stranger', store, 'another secret, also long', wait)).rejects.toThrow(
      /the secret is not the group's.*unauthenticated/,
    );
    const { port } = site.address() as AddressInfo;
    const foreign = await browser.newPage();
    // Another origin, the same page.
    await foreign.goto(`http://localhost:${port}`);
    await foreign.waitForFunction('globalThis.backwire !== undefined');
    const join = `globalThis.backwire.join('stranger', ${JSON.stringify(store)}, ${JSON.stringify(SECRET)}, ${wait})`;
    await expect(foreign.evaluate(join)).rejects.toThrow(/pages of this origin are not allowed.*unauthenticated/);
    await foreign.close();
    expect(warn.mock.calls.map(([text]) => String(text))).toEqual([
      `[backwire] a WebSocket of "http://127.0.0.1:${port}" was refused: the secret is not the group's`,
      expect.stringContaining(`a WebSocket of "http://localhost:${port}" was refused: pages of this origin are not`),
    ]);
    warn.mockRestore();
  });

  test('reaches the store by an address that holds all', async () => {
    const address = joinAddress(server.endpoint, 'elsewhere/', server.webSocketEndpoint);
    expect(await page('join', 'alone', address, SECRET)).toEqual(['alone']);
    await page('leave');
    await expect(page('join', 'alone', server.endpoint, SECRET)).rejects.toThrow('BACKWIRE_STORE_WS');
  });

  test('joins the group and calls with tensors, small and large', async () => {
    const names = await page('join', 'page', server.webSocketEndpoint as string, SECRET);
    expect(names.sort()).toEqual(['a', 'b', 'page']);
    expect(await page('scale', 'a', 4, 2)).toEqual([4, 3, 3]);
    expect(await page('scale', 'b', 1_000_000, 3)).toEqual([1_000_000, 4.5, 4.5]);
  });

  test('gets errors as what they were, and its own deadlines', async () => {
    expect(await page('errors', 'a')).toEqual([true, 'too far: é', 'deadline-exceeded', 'not-found']);
  });

  test('reads a stream', async () => {
    expect(await page('stream', 'b')).toEqual(Array.from({ length: 50 }, (_, i) => i));
  });

  test('is called by the others, with tensors too, and calls back', async () => {
    await first().run(async () => {
      const y = await rpcAsync('page', double, [tensor(new Float32Array(200_000).fill(4))]);
      expect([y.size, y.dataSync()[199_999]]).toEqual([200_000, 8]);
      expect(await rpcAsync('page', who)).toBe('a at http:');
      expect(await Promise.all([1, 2, 3].map((by) => rpcAsync('page', askBack, [by])))).toEqual([
        [1, 2],
        [2, 4],
        [3, 6],
      ]);
    });
  });

  test('meets the others', async () => {
    const workers = ['a', 'b', 'page'];
    const all = agents.map((agent) => agent.run(() => barrier({ workers, timeoutMs: 10_000 })));
    expect(await page('meet', workers)).toBe('met');
    await Promise.all(all);
  });

  test.each(['dedicated', 'shared', 'service'] as const)('its %s worker is a member too', async (kind) => {
    const { port } = site.address() as AddressInfo;
    const other = await browser.newPage();
    await other.goto(`http://127.0.0.1:${port}`);
    await other.evaluate(`(async () => {
      const worker = ${STARTED[kind]};
      globalThis.ask = (...message) => new Promise((resolve) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = ({ data }) => resolve(data);
        worker.postMessage(message, [port2]);
      });
    })()`);
    const ask = (...message: unknown[]): Promise<unknown> => other.evaluate(`ask(...${JSON.stringify(message)})`);
    expect(await ask('join', kind, server.webSocketEndpoint, SECRET)).toContain(kind);
    expect(await ask('scale', 'a', 4, 2)).toEqual([4, 3, 3]);
    await first().run(async () => expect(await rpcAsync(kind, who)).toBe('a at http:'));
    await ask('leave');
    await other.close();
  });

  test('comes back when its connection breaks', async () => {
    const peer = (
      first() as unknown as { members: { find(name: string): { reset(error: Error): void; up: boolean } } }
    ).members.find('page');
    peer.reset(new Error('cut by the test'));
    expect(await page('scale', 'a', 4, 2)).toEqual([4, 3, 3]);
    await first().run(async () => expect(await rpcAsync('page', who)).toBe('a at http:'));
  });

  test('leaves, and the others know', async () => {
    await page('leave');
    await until(() => first().debugInfo()['agent.peers'] === 1, 'the page has left');
  });

  test('that is closed is noticed by name', async () => {
    await page('join', 'page2', server.webSocketEndpoint as string, SECRET);
    await until(() => first().debugInfo()['agent.peers'] === 2, 'the page is there');
    const down = new Promise<string>((resolve) => void first().on('peer-down', (peer) => resolve(peer.name)));
    const waiting = first().run(() =>
      rpcAsync('page2', who).then(() => rpcAsync('page2', remoteFunction<() => void>('page/never'))),
    );
    await waiting.catch(() => undefined);
    const started = performance.now();
    await tab.close();
    expect(await down).toBe('page2');
    console.log(`a closed page: dead after ${Math.round(performance.now() - started)} ms`);
    const late: unknown = await first()
      .run(() => rpcAsync('page2', who))
      .catch((error: unknown) => error);
    expect(rpcInfo(late)?.code).toBe('peer-died');
  });
});
