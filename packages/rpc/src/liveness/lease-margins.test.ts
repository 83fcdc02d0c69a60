/** @file Leases in etcd in a time that is drawn: one request that is lost never ends one, whatever its time and that of the answers. */
import fc from 'fast-check';
import { afterEach, expect, test, vi } from 'vitest';
import { SharedLinks } from './embedded-holder.ts';
import { holderOf } from './lease-holder.ts';
import { turnMs } from './thread.ts';

/** etcd in the time of the test: a request arrives half of `answerMs` after it is made, and its answer as long after that. */
interface Etcd {
  readonly ttlMs: number;
  readonly answerMs: number;
  /** Which of the requests, from 0, never arrives. */
  readonly lost: number;
  requests: number;
  endsAt: number;
  shortestMs: number;
}
let etcd: Etcd;

vi.mock(import('../stores/etcd-http.ts'), async (original) => ({
  ...(await original()),
  post: async (url: string, _: object, signal: AbortSignal) => {
    const half = () =>
      new Promise<void>((resolve, reject) => {
        const timer = setTimeout(resolve, etcd.answerMs / 2);
        signal.addEventListener('abort', () => (clearTimeout(timer), reject(signal.reason as Error)), { once: true });
      });
    const isRenewal = url.endsWith('/v3/lease/keepalive');
    if (etcd.requests++ === etcd.lost)
      return new Promise<never>((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
      );
    await half();
    const now = performance.now();
    const alive = now <= etcd.endsAt;
    if (isRenewal && alive) {
      etcd.shortestMs = Math.min(etcd.shortestMs, etcd.endsAt - now);
      etcd.endsAt = now + etcd.ttlMs;
    }
    await half();
    return { statusCode: 200, result: { TTL: alive ? '1' : '0' } } as never;
  },
  json: async (answer: object) => answer as never,
}));

afterEach(() => vi.useRealTimers());

/** Whether a lease lives through three of its times, held as a thread holds it, and how near its end it was renewed. */
async function live(drawn: Pick<Etcd, 'ttlMs' | 'answerMs' | 'lost'>, lateMs: number, ageMs: number) {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate', 'performance'],
  });
  etcd = { ...drawn, requests: 0, endsAt: performance.now() + drawn.ttlMs, shortestMs: Infinity };
  const ticket = { kind: 'etcd', ttlMs: drawn.ttlMs, endpoints: ['http://etcd'], id: '7', ageKey: 'YWdl' } as const;
  const holder = holderOf(ticket, { again: () => undefined, lost: () => undefined }, new SharedLinks());
  const said: (boolean | undefined)[] = [];
  const hold = (): void =>
    void holder.hold(ageMs).then(
      (is) => said.push(is),
      () => said.push(undefined),
    );
  hold();
  const turns = setInterval(hold, turnMs(drawn.ttlMs) + lateMs);
  await vi.advanceTimersByTimeAsync(3.5 * drawn.ttlMs);
  clearInterval(turns);
  const left = etcd.endsAt - performance.now();
  holder.close();
  await vi.advanceTimersByTimeAsync(1);
  return { lives: left > 0 && !said.includes(false), shortestMs: etcd.shortestMs };
}

test('a request that is lost never ends a lease', { timeout: 60_000 }, async () => {
  const drawn = fc.record({
    ttlMs: fc.integer({ min: 2_000, max: 60_000 }),
    answerMs: fc.integer({ min: 0, max: 100 }),
    lost: fc.integer({ min: 0, max: 12 }),
  });
  await fc.assert(
    fc.asyncProperty(drawn, fc.integer({ min: 0, max: 20 }), fc.constantFrom(0, 5_000), async (etcd, lateMs, ageMs) => {
      const { lives, shortestMs } = await live(etcd, lateMs, ageMs);
      expect(lives, `was renewed ${shortestMs} ms before its end`).toBe(true);
      // What a busy machine may take from it.
      expect(shortestMs).toBeGreaterThan(etcd.ttlMs / 16);
    }),
    { numRuns: 300, examples: [[{ ttlMs: 8_001, answerMs: 0, lost: 3 }, 0, 0]] },
  );
});
