import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { initRpc, remoteFunction, rpcInfo, rpcStream, rpcSync, shutdown, tensor, type RpcErrorCode } from 'backwire';
import type * as model from './model.ts'; // its types alone: the weights are in the workers
import { Pool } from './pool.ts';

const score = remoteFunction<typeof model.score>('service/score');
const generate = remoteFunction<typeof model.generate>('service/generate');

class BadRequest extends Error {}
const STATUS: Partial<Record<RpcErrorCode, number>> = {
  'deadline-exceeded': 504,
  'resource-exhausted': 429,
  unavailable: 503,
  draining: 503,
  'peer-died': 503,
};

await initRpc({ name: 'http', membership: 'dynamic', serve: [] }); // calls, and is not called
const pool = new Pool('model', 64);
let leaving = false;

const server = createServer((request, response) => {
  const left = new AbortController();
  response.once('close', () => left.abort(new Error('the client has left')));
  answer(request, response, left.signal).catch((error: unknown) => refuse(response, error));
});

async function answer(request: IncomingMessage, response: ServerResponse, signal: AbortSignal): Promise<void> {
  if (request.url === '/health') return void response.end();
  if (request.url === '/ready') return void response.writeHead(leaving || pool.size === 0 ? 503 : 200).end();
  const body = await read(request);
  if (request.url === '/score') {
    using rows = tensor(rowsOf(body));
    using scores = await pool.call((worker) => rpcSync(worker, score, [rows], { timeoutMs: 5_000, signal }));
    response.setHeader('content-type', 'application/json').end(JSON.stringify(scores.toArray()));
  } else if (request.url === '/generate') {
    const { prompt, count } = (body ?? {}) as { prompt?: unknown; count?: unknown };
    if (typeof prompt !== 'string' || typeof count !== 'number') throw new BadRequest('prompt and count are needed');
    const words = pool.stream((worker) =>
      rpcStream(worker, generate, [prompt, count], { signal, idleTimeoutMs: 5_000, timeoutMs: 60_000 }),
    );
    response.setHeader('content-type', 'text/event-stream');
    for await (const word of words) if (!response.write(`data: ${word}\n\n`)) await once(response, 'drain', { signal }); // a slow client slows the model down
    response.end();
  } else response.writeHead(404).end();
}

/** What the client is told. */
function refuse(response: ServerResponse, error: unknown): void {
  const code = rpcInfo(error)?.code;
  const status = error instanceof BadRequest ? 400 : ((code && STATUS[code]) ?? 500);
  if (response.headersSent || response.destroyed) return void response.destroy(); // half an answer has no status any more
  if (status === 500) console.error(error);
  const text = status === 500 ? 'internal error' : (error as Error).message;
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error: text }));
}

async function read(request: IncomingMessage, limit = 1_000_000): Promise<unknown> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) {
    text += chunk;
    if (text.length > limit) throw new BadRequest(`more than ${limit} characters`);
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new BadRequest('not JSON', { cause });
  }
}

function rowsOf(body: unknown): number[][] {
  const fits = (one: unknown): boolean => typeof one === 'number' && Number.isFinite(Math.fround(one)); // 1e39 is no float32
  const isRow = (row: unknown): boolean => Array.isArray(row) && row.length === 4 && row.every(fits);
  if (!Array.isArray(body) || body.length === 0 || !body.every(isRow)) throw new BadRequest('rows of four numbers');
  return body as number[][];
}

server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1');
await once(server, 'listening');
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
process.on('SIGTERM', () => {
  leaving = true;
  server.close();
  shutdown({ timeoutMs: 2_000 }).catch((error: Error) => console.error(error.message));
});
