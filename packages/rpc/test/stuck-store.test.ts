/** @file A store that stops answering while a worker joins: initRpc ends with its time, and leaves nothing behind. */
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { createAgent, type Store } from '../src/index.ts';
import { memoryStore } from '../src/stores/memory.ts';

type Method = 'get' | 'set' | 'add' | 'compareAndSet' | 'lease';

/** One whose `method` is answered `times` times, and then never again, nor `revoke` of its leases; `close` neither. */
function stuck(method: Method, times: number): Store {
  const real = memoryStore(randomUUID());
  let left = times;
  const never = (): Promise<never> => new Promise(() => undefined);
  return new Proxy(real, {
    get: (store, name) => {
      const value = Reflect.get(store, name) as unknown;
      if (typeof value !== 'function') return value;
      if (name === 'close') return never;
      return (...given: unknown[]): unknown => {
        if (name === method && left-- <= 0) return never();
        const answer = Reflect.apply(value, store, given) as unknown;
        if (name !== 'lease') return answer;
        return (answer as Promise<object>).then((lease) => Object.assign(lease, { revoke: never }));
      };
    },
  });
}

describe('a worker whose store stops answering while it joins', () => {
  it.each<[Method, number, number]>([
    ['get', 0, 300],
    ['get', 1, 300],
    ['add', 0, 300],
    ['compareAndSet', 0, 300],
    ['lease', 0, 300],
    ['set', 0, 300],
    // It has joined by then, and waits for the other: of one that could not in time, the other is said to be missing.
    ['get', 3, 2_000],
  ])('is told so when its time is over: %s, after %i answers', async (method, times, initTimeoutMs) => {
    const began = performance.now();
    const joining = createAgent({
      name: 'w0',
      rank: 0,
      worldSize: 2,
      store: stuck(method, times),
      initTimeoutMs,
      transports: ['memory'],
    });
    await expect(joining).rejects.toMatchObject({
      code: 'deadline-exceeded',
      message: `worker 'w0' has not joined its group in ${initTimeoutMs} ms: the store does not answer, or too late; see to that, or give another [deadline-exceeded]`,
    });
    expect(performance.now() - began).toBeLessThan(8_000);
  });

  it('says nothing more of its waiting once it has been told', { timeout: 30_000 }, async () => {
    const said: unknown[] = [];
    const note = (...words: unknown[]): void => void said.push(words);
    const joining = createAgent({
      name: 'w0',
      rank: 0,
      worldSize: 2,
      store: stuck('add', 0),
      initTimeoutMs: 300,
      transports: ['memory'],
      logger: { debug: note, info: note, warn: note, error: note },
    });
    await expect(joining).rejects.toMatchObject({ code: 'deadline-exceeded' });
    // A worker that waits says so after ten seconds.
    await new Promise((resolve) => setTimeout(resolve, 10_000));
    expect(said).toEqual([]);
  });
});
