/** @file Serves the live page on loopback: three files and a stream of events, behind a token that only who started it knows. */
import { timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { RpcError } from '@backwire/rpc';
import { newToken, plainText, type Inspector } from '@backwire/rpc/internal';
import { MAX_CONNECTIONS, MAX_PAGES, MAX_UNSENT_BYTES, REQUEST_MS } from '../inspect/limits.ts';
import { PACKAGE_FOLDER } from '../package-folder.ts';
import { History } from './history.ts';

export interface DashboardOptions {
  readonly inspector: Inspector;
  /** 0 = any free one. */
  readonly port: number;
  readonly intervalMs: number;
}

export interface Dashboard {
  /** With the token: whoever has this address sees the page. */
  readonly url: string;
  close(): Promise<void>;
}

const PAGE = join(PACKAGE_FOLDER, 'page');
const FILES: ReadonlyMap<string, readonly [file: string, type: string]> = new Map([
  ['', ['index.html', 'text/html; charset=utf-8']],
  ['page.css', ['page.css', 'text/css; charset=utf-8']],
  ['page.js', ['page.js', 'text/javascript; charset=utf-8']],
  ['graph.js', ['graph.js', 'text/javascript; charset=utf-8']],
  ['charts.js', ['charts.js', 'text/javascript; charset=utf-8']],
  ['tables.js', ['tables.js', 'text/javascript; charset=utf-8']],
]);
/** The stream of looks. */
const EVENTS = 'events';
const EVENTS_TYPE = 'text/event-stream; charset=utf-8';
const HEADERS = {
  // Nothing from elsewhere, nothing inline.
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
};

/**
 * Looks at the group while a page is open, and only then. Ends with `close`; the inspector stays the caller's.
 * @throws RpcError 'unavailable' when the port is taken.
 */
export async function serveDashboard(options: DashboardOptions): Promise<Dashboard> {
  const token = newToken();
  const pages = new Pages(options.inspector, options.intervalMs);
  const limits = {
    headersTimeout: REQUEST_MS,
    requestTimeout: REQUEST_MS,
    connectionsCheckingInterval: REQUEST_MS / 5,
  };
  const server = createServer(limits, (request, response) => {
    const file = allowed(request, token);
    if (file === EVENTS && request.method === 'GET') pages.open(response);
    else send(request, response, file);
  });
  // Whoever is on this machine may connect, and say nothing.
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) => {
      const text = `port ${options.port} cannot be had on 127.0.0.1: ${cause.message}; without --port any free one is taken`;
      reject(new RpcError('unavailable', text, { cause }));
    });
    server.listen(options.port, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/${token}/`,
    close: async () => {
      pages.close();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      });
    },
  };
}

/** The file that is asked for; undefined for whoever does not know the token, or came by another name of this host. */
function allowed(request: IncomingMessage, token: string): string | undefined {
  // A page elsewhere may have a name of its own that leads here; its browser says so.
  if (!/^(127\.0\.0\.1|localhost)(:\d+)?$/.test(request.headers.host ?? '')) return undefined;
  const [, given = '', file, ...more] = (request.url ?? '').split('?')[0]?.split('/') ?? [];
  const [a, b] = [Buffer.from(given), Buffer.from(token)];
  if (a.length !== b.length || !timingSafeEqual(a, b) || more.length > 0) return undefined;
  return file;
}

function send(request: IncomingMessage, response: ServerResponse, file: string | undefined): void {
  const found = file === undefined ? undefined : FILES.get(file);
  if (found === undefined && file !== EVENTS) {
    response.writeHead(404, HEADERS).end('not found: open the address that the command printed\n');
    return;
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { ...HEADERS, allow: 'GET, HEAD' }).end();
    return;
  }
  const [name, type] = found ?? [undefined, EVENTS_TYPE];
  response.writeHead(200, { ...HEADERS, 'content-type': type });
  response.end(request.method === 'HEAD' || name === undefined ? undefined : readFileSync(join(PAGE, name)));
}

/** How long a page that another takes the place of has to hear of it. */
const REPLACED_MS = 1_000;

/** The pages that are open. States: nobody looks ↔ looks every interval, while at least one page is open; closed. */
class Pages {
  private readonly inspector: Inspector;
  private readonly history: History;
  private readonly all = new Set<ServerResponse>();
  private timer: NodeJS.Timeout | undefined;
  private looking = false;
  /** Said once, and to every page that opens, until a look succeeds again. */
  private lost: { readonly at: number; readonly text: string } | undefined;
  private closed = false;

  constructor(inspector: Inspector, intervalMs: number) {
    this.inspector = inspector;
    this.history = new History(intervalMs);
  }

  open(response: ServerResponse): void {
    if (this.closed) {
      response.writeHead(503, HEADERS).end('the dashboard has ended\n');
      return;
    }
    for (const oldest of [...this.all].slice(0, Math.max(0, this.all.size - MAX_PAGES + 1))) {
      this.all.delete(oldest);
      oldest.end(eventText('replaced', {}));
      // One that does not read is not waited for.
      setTimeout(() => oldest.destroy(), REPLACED_MS).unref();
    }
    response.writeHead(200, { ...HEADERS, 'content-type': EVENTS_TYPE });
    this.all.add(response);
    response.on('close', () => {
      this.all.delete(response);
      if (this.all.size === 0) this.rest();
    });
    response.write(eventText('past', this.history.past));
    if (this.lost !== undefined) response.write(eventText('lost', this.lost));
    if (this.timer === undefined) {
      this.timer = setInterval(() => void this.look(), this.history.intervalMs);
      void this.look();
    }
  }

  close(): void {
    this.closed = true;
    this.rest();
    for (const response of this.all) response.destroy();
    this.all.clear();
  }

  private rest(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  /** One look at a time, however slow the group is. */
  private async look(): Promise<void> {
    if (this.looking) return;
    this.looking = true;
    try {
      const look = await this.inspector.look({ recent: true });
      this.lost = undefined;
      this.tell('look', this.history.add(look));
    } catch (error) {
      if (this.lost !== undefined) return;
      this.lost = { at: Date.now(), text: error instanceof Error ? error.message : String(error) };
      this.tell('lost', this.lost);
    } finally {
      this.looking = false;
    }
  }

  private tell(event: string, data: unknown): void {
    const text = eventText(event, data);
    for (const response of this.all) if (response.writableLength < MAX_UNSENT_BYTES) response.write(text);
  }
}

/** All that a page is told goes by here. Names come from other machines: none of them may turn a line of the page around. */
function eventText(event: string, data: unknown): string {
  const text = JSON.stringify(data, (_, value: unknown) => (typeof value === 'string' ? plainText(value) : value));
  return `event: ${event}\ndata: ${text}\n\n`;
}
