/**
 * @file Leases in a time that is drawn: a request to etcd that is lost, or a connection to Redis that falls silent, never ends one, whatever its
 * time and that of the answers.
 */
import { EventEmitter } from 'node:events';
import fc from 'fast-check';
import { afterEach, expect, test, vi } from 'vitest';
import type { LeaseTicket } from '../stores/ticket.ts';
import { SharedLinks } from './embedded-holder.ts';
import { holderOf } from './lease-holder.ts';
import { turnMs } from './thread.ts';

/** The store in the time of the test: a request arrives half of `answerMs` after it is made, and its answer as long after that. */
interface Server {
  readonly ttlMs: number;
  readonly answerMs: number;
  /** Which of the requests, from 0, never arrives; of a Redis nor does what comes after it on that connection. */
  readonly lost: number;
  requests: number;
  endsAt: number;
  shortestMs: number;
}
let server: Server;

/** Whether the lease is still there, which is renewed if it `isRenewal`. */
function arrived(isRenewal: boolean): boolean {
  const now = performance.now();
  const alive = now <= server.endsAt;
  if (!isRenewal || !alive) return alive;
  server.shortestMs = Math.min(server.shortestMs, server.endsAt - now);
  server.endsAt = now + server.ttlMs;
  return true;
}

vi.mock(import('../stores/etcd-http.ts'), async (original) => ({
  ...(await original()),
  post: async (url: string, _: object, signal: AbortSignal) => {
    const half = () =>
      new Promise<void>((resolve, reject) => {
        const timer = setTimeout(resolve, server.answerMs / 2);
        signal.addEventListener('abort', () => (clearTimeout(timer), reject(signal.reason as Error)), { once: true });
      });
    if (server.requests++ === server.lost)
      return new Promise<never>((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
      );
    await half();
    const alive = arrived(url.endsWith('/v3/lease/keepalive'));
    await half();
    return { statusCode: 200, result: { TTL: alive ? '1' : '0' } } as never;
  },
  json: async (answer: object) => answer as never,
}));

vi.mock(import('node:net'), async (original) => ({ ...(await original()), connect: (() => new RedisLink()) as never }));

/** A connection to Redis. */
class RedisLink extends EventEmitter {
  private silent = false;

  constructor() {
    super();
    setTimeout(() => this.emit('connect'), server.answerMs);
  }

  write(): void {
    this.silent ||= server.requests++ === server.lost;
    if (this.silent) return;
    setTimeout(() => {
      const alive = arrived(true);
      setTimeout(() => this.emit('data', Buffer.from(`*1\r\n:${Number(alive)}\r\n`)), server.answerMs / 2);
    }, server.answerMs / 2);
  }

  destroy(): void {
    this.silent = true;
    setTimeout(() => this.emit('close'), 0);
  }

  setNoDelay(): void {
    /* As it is. */
  }

  setTimeout(): void {
    /* Connections come about. */
  }
}

afterEach(() => vi.useRealTimers());

type Drawn = Pick<Server, 'ttlMs' | 'answerMs' | 'lost'>;

/** Whether a lease lives through three of its times, held as a thread holds it, and how near its end it was renewed. */
async function live(drawn: Drawn, lateMs: number, ageMs: number, ticket: LeaseTicket) {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate', 'performance'],
  });
  server = { ...drawn, requests: 0, endsAt: performance.now() + drawn.ttlMs, shortestMs: Infinity };
  const said: (boolean | undefined)[] = [];
  const hold = (): void =>
    void holder.hold(ageMs).then(
      (is) => said.push(is),
      () => said.push(undefined),
    );
  const holder = holderOf(ticket, { again: hold, lost: () => said.push(false) }, new SharedLinks());
  hold();
  const turns = setInterval(hold, turnMs(drawn.ttlMs) + lateMs);
  await vi.advanceTimersByTimeAsync(3.5 * drawn.ttlMs);
  clearInterval(turns);
  const left = server.endsAt - performance.now();
  holder.close();
  await vi.advanceTimersByTimeAsync(1);
  return { lives: left > 0 && !said.includes(false), shortestMs: server.shortestMs };
}

const script = { text: '', sha: 'e0e1', parameters: [] };

test.each<[string, (ttlMs: number) => LeaseTicket]>([
  ['etcd', (ttlMs) => ({ kind: 'etcd', ttlMs, endpoints: ['http://etcd'], id: '7', ageKey: 'YWdl' })],
  ['redis', (ttlMs) => ({ kind: 'redis', ttlMs, url: 'redis://redis', script, id: '7', ageKey: 'age' })],
])('what is lost never ends a lease in %s', { timeout: 60_000 }, async (_, ticketOf) => {
  const drawn = fc.record({
    ttlMs: fc.integer({ min: 2_000, max: 60_000 }),
    answerMs: fc.integer({ min: 0, max: 100 }),
    lost: fc.integer({ min: 0, max: 12 }),
  });
  await fc.assert(
    fc.asyncProperty(drawn, fc.integer({ min: 0, max: 20 }), fc.constantFrom(0, 5_000), async (one, lateMs, ageMs) => {
      const { lives, shortestMs } = await live(one, lateMs, ageMs, ticketOf(one.ttlMs));
      expect(lives, `was renewed ${shortestMs} ms before its end`).toBe(true);
      // What a busy machine may take from it.
      expect(shortestMs).toBeGreaterThan(one.ttlMs / 16);
    }),
    { numRuns: 300, examples: [[{ ttlMs: 8_001, answerMs: 0, lost: 3 }, 0, 0]] },
  );
});
