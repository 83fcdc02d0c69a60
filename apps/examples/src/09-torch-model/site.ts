/** @file Serves the page, and says where its worker meets the others: at a store for browsers, of this origin only. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { build } from 'esbuild';
import { OptionError } from '../shared/flags.ts';
import { freePort } from '../shared/python.ts';

export interface Site extends AsyncDisposable {
  readonly origin: string;
  /** The environment in which `initRpc` hosts the store that the page knows. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Bundles the page and serves it on this host only: the page has the secret of the group in it, so whoever can open it is a member.
 * @param port 0 = any
 * @throws OptionError for a port that is taken.
 */
export async function serveSite(port: number): Promise<Site> {
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
  const [storePort, doorPort, secret] = [await freePort(), await freePort(), randomBytes(24).toString('base64url')];
  const settings = { store: `ws://127.0.0.1:${doorPort}/backwire`, secret };
  const html = readFileSync(join(import.meta.dirname, 'index.html'), 'utf8');
  const page = html.replace('SETTINGS', JSON.stringify(settings));
  const server = createServer(({ url }, response) => {
    const isCode = url === '/page.js';
    response.setHeader('content-type', isCode ? 'text/javascript' : 'text/html');
    response.end(isCode ? outputFiles[0]?.text : page);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening').catch((error: unknown) => {
    throw new OptionError(`the page cannot be served on port ${port}: ${String(error)}`);
  });
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    origin,
    env: {
      BACKWIRE_SECRET: secret,
      MASTER_ADDR: '127.0.0.1',
      MASTER_PORT: String(storePort),
      RANK: '0',
      BACKWIRE_STORE_WS: String(doorPort),
      BACKWIRE_ALLOWED_ORIGINS: origin,
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
