/** @file The metrics of an agent: as text, and over HTTP for Prometheus. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { currentAgent, RpcError, type RpcAgent } from '@backwire/rpc';
import {
  invalidArgument,
  optionNames,
  refuseUnknown,
  show,
  type AgentMetrics,
  type Observers,
} from '@backwire/rpc/internal';
import { ASYNC_DISPOSE } from '@backwire/tensor/internal';
import { MAX_CONNECTIONS, REQUEST_MS } from '../limits.ts';
import { CallHistograms } from './call-histograms.ts';
import { PROMETHEUS_TYPE, prometheusText } from './prometheus.ts';

/** Histograms by agent, from the first time somebody wanted them. */
const collected = new WeakMap<RpcAgent, CallHistograms>();

/**
 * Begins to measure the calls of an agent, for histograms; again does nothing. Until then a call is counted, and not timed.
 * @param agent @default the current one
 * @throws TypeError for what is no agent.
 */
export function measureCalls(agent: RpcAgent = currentAgent()): CallHistograms {
  let found = collected.get(agent);
  if (found === undefined) {
    const { observers } = ((agent as unknown) ?? {}) as { readonly observers?: Observers };
    if (typeof observers?.add !== 'function')
      throw new TypeError(`the agent whose calls are measured is what initRpc() gives, got ${show(agent)}`);
    observers.add((found = new CallHistograms()));
    collected.set(agent, found);
  }
  return found;
}

/** The metrics of an agent in the text format of Prometheus. The first call begins the histograms. */
export function metricsText(agent: RpcAgent = currentAgent()): string {
  const { client, server } = measureCalls(agent);
  return prometheusText({
    worker: agent.name,
    group: agent.group,
    metrics: agent.metrics() as AgentMetrics,
    client,
    server,
  });
}

/** Where `serveMetrics` listens, and whose metrics it gives. */
export interface MetricsServerOptions {
  /** The TCP port to listen on, 0 to 65535. @default 9464, which is Prometheus's for OpenTelemetry; 0 = any free one */
  port?: number;
  /** The address to listen on. Whoever reaches it reads the names of workers and functions. @default '127.0.0.1' */
  host?: string;
  /** Whose metrics are served. @default the current agent */
  agent?: RpcAgent;
}

const OPTIONS = optionNames<MetricsServerOptions>()('port host agent');

/** A server of metrics that listens until it is closed; `await using` closes it, too. */
export interface MetricsServer extends AsyncDisposable {
  /** 'http://127.0.0.1:9464/metrics' */
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Answers `GET /metrics`; on a loopback address only to who calls it by that address, 'localhost' or `host`. It does not keep the process alive. Close it before or after the agent, as you like.
 * @param options `port` (9464; 0 for any free one), `host` (127.0.0.1), `agent`
 * @throws RpcError 'unavailable' when the port is taken, 'failed-precondition' where there is no `node:http`.
 * @example
 * ```ts
 * await initRpc({ name: 'worker0', rank: 0, worldSize: 1, store: 'memory://example-metrics' });
 * const server = await profiler.serveMetrics({ port: 0 });
 * const text = await (await fetch(server.url)).text();
 * console.log(text.includes('backwire_')); // true
 * await server.close();
 * await shutdown();
 * ```
 */
export async function serveMetrics(options: MetricsServerOptions = {}): Promise<MetricsServer> {
  refuseUnknown(options, OPTIONS, 'serveMetrics()');
  const { port = 9464, host = '127.0.0.1', agent = currentAgent() } = options;
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw invalidArgument(`serveMetrics(): port is a whole number from 0 to 65535, got ${show(port)}`);
  // No name at all is every address of this machine, to Node.
  if (typeof host !== 'string' || host === '')
    throw invalidArgument(`serveMetrics(): host is the name or address to listen on, got ${show(host)}`);
  const http = globalThis.process?.getBuiltinModule?.('node:http');
  if (http === undefined) throw new RpcError('failed-precondition', 'there is no HTTP server here; use metricsText()');
  measureCalls(agent);
  let known: ReadonlySet<string> | undefined;
  const limits = {
    headersTimeout: REQUEST_MS,
    requestTimeout: REQUEST_MS,
    connectionsCheckingInterval: REQUEST_MS / 5,
  };
  const server = http.createServer(limits, (request, response) => {
    if (known !== undefined && !comesByName(request.headers.host, known)) {
      response.writeHead(403).end('not by this name\n');
      return;
    }
    answer(agent, request, response);
  });
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    const failed = (cause: Error): void =>
      reject(new RpcError('unavailable', `metrics cannot be served on ${host}:${port}: ${cause.message}`));
    server.once('error', failed);
    server.listen(port, host, () => {
      server.off('error', failed);
      resolve();
    });
  });
  server.unref();
  const address = server.address();
  const bound = typeof address === 'object' && address !== null ? address.port : port;
  if (typeof address === 'object' && address !== null && isLoopback(address.address))
    known = new Set(['localhost', host.toLowerCase()]);
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  const shown = host.includes(':') ? `[${host}]` : host;
  return { url: `http://${shown}:${bound}/metrics`, close, [ASYNC_DISPOSE]: close };
}

function answer(agent: RpcAgent, request: IncomingMessage, response: ServerResponse): void {
  // Whatever a stranger writes is a path here: as a URL it may be none.
  const [path] = (request.url ?? '/').split('?');
  if (path !== '/metrics') {
    response.writeHead(404).end('see /metrics\n');
    return;
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { allow: 'GET, HEAD' }).end();
    return;
  }
  let text: string;
  try {
    text = metricsText(agent);
  } catch {
    // A scrape must never end the worker that it looks at; what went wrong is nobody's business outside.
    response.writeHead(500).end('the metrics cannot be read now\n');
    return;
  }
  response.writeHead(200, { 'content-type': PROMETHEUS_TYPE, 'cache-control': 'no-store' });
  response.end(request.method === 'HEAD' ? undefined : text);
}

/**
 * Whether a request names us as ourselves. A page elsewhere may have a name of its own that leads here; its browser says so. Who sends no
 * name at all is no browser.
 */
function comesByName(header: string | undefined, known: ReadonlySet<string>): boolean {
  if (header === undefined || header === '') return true;
  const name = header
    .replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase();
  return known.has(name) || isLoopback(name);
}

function isLoopback(address: string): boolean {
  return /^(?:::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(address) || address === '::1';
}
