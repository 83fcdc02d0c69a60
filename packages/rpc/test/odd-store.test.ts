/** @file Stores that programs give, drawn to answer with anything, late, or not at all: who joins is told so in words and in time. */
import { randomUUID } from 'node:crypto';
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { createAgent, rpcInfo, type Store } from '../src/index.ts';
import { memoryStore } from '../src/stores/memory.ts';

const quiet = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** A store whose `method` is answered with `answer`. */
function answering(method: keyof Store, answer: unknown): Store {
  const real = memoryStore(randomUUID());
  return new Proxy(real, {
    get: (store, name) => {
      if (name === method) return () => Promise.resolve(answer);
      const value = Reflect.get(store, name) as unknown;
      return typeof value === 'function' ? (value.bind(store) as unknown) : value;
    },
  });
}

const join = (store: Store): Promise<unknown> =>
  createAgent({
    name: 'w0',
    membership: 'dynamic',
    store,
    initTimeoutMs: 1_000,
    transports: ['memory'],
    logger: quiet,
  });

describe('a store that was given', () => {
  it.each<[keyof Store, unknown, string]>([
    ['get', 'text', "answered 'text' to get('backwire/default/view'), where a Uint8Array or undefined is due"],
    ['get', null, "answered null to get('backwire/default/view'), where a Uint8Array or undefined is due"],
    ['add', 1, "answered 1 to add('backwire/default/lives/w0'), where a bigint is due"],
    [
      'compareAndSet',
      undefined,
      "answered undefined to compareAndSet('backwire/default/incarnation'), where an object with ok and current is due",
    ],
    [
      'compareAndSet',
      true,
      "answered true to compareAndSet('backwire/default/incarnation'), where an object with ok and current is due",
    ],
    ['lease', {}, 'answered an object of class Object to lease(), where an object with lost and revoke is due'],
  ])('is told what %s answered in place of what is due: %s', async (method, answer, text) => {
    await expect(join(answering(method, answer))).rejects.toMatchObject({
      code: 'failed-precondition',
      message: `the store that was given ${text} [failed-precondition]`,
    });
  });
});

/** What a broken store does in place of one answer. */
const KINDS = ['never', 'late', 'bytes', 'type', 'empty', 'large', 'names', 'number', 'fails'] as const;

/** One that is none, or yields what is no change, and ends, throws or never does anything. */
function oddWatch(random: Random): unknown {
  const one = random.pick([null, 'put', {}, { type: 'put', key: 'k' }, { type: 'resync', key: '' }]);
  const odd = async function* (): AsyncGenerator<unknown> {
    for (let i = random.int(0, 3); i > 0; i--) yield one;
    if (random.chance(0.3)) throw new Error('the store is broken');
    if (random.chance(0.5)) await new Promise(() => undefined);
  };
  return random.chance(0.2) ? one : odd();
}

function broken(random: Random, kinds: readonly (typeof KINDS)[number][], rate: number): Store {
  const other = (value: unknown): unknown => {
    switch (random.pick(kinds)) {
      case 'never':
        return new Promise(() => undefined);
      case 'late':
        return new Promise((resolve) => setTimeout(resolve, random.int(10, 400), value));
      case 'bytes':
        return value instanceof Uint8Array
          ? Uint8Array.from({ length: random.int(0, 99) }, () => random.int(0, 255))
          : value;
      case 'type':
        return random.pick([null, undefined, 5, 'text', [], {}, true]);
      case 'empty':
        return value instanceof Uint8Array ? new Uint8Array(0) : value instanceof Map ? new Map() : value;
      case 'large':
        return value instanceof Uint8Array
          ? new Uint8Array(300_000).fill(91)
          : typeof value === 'bigint'
            ? 2n ** 62n
            : value;
      case 'names':
        return value instanceof Map ? new Map([['__proto__', new Uint8Array(3)]]) : value;
      case 'number':
        return value instanceof Uint8Array ? new TextEncoder().encode('99999999999999999999') : value;
      case 'fails':
        throw new Error('the store is broken');
    }
  };
  return new Proxy(memoryStore(randomUUID()), {
    get: (store, name) => {
      const value = Reflect.get(store, name) as unknown;
      if (typeof value !== 'function') return value;
      if (name === 'watch' && random.chance(rate)) return () => oddWatch(random);
      if (name === 'watch' || name === 'close') return value.bind(store) as unknown;
      return async (...given: unknown[]): Promise<unknown> => {
        const answer = (await Reflect.apply(value, store, given)) as unknown;
        return random.chance(rate) ? other(answer) : answer;
      };
    },
  });
}

describe('a store that is broken', { timeout: 60_000 }, () => {
  it.each([1, 2, 3])('keeps nobody past the time, and ends no process (draw %i)', async (draw) => {
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', note);
    const runs = Array.from({ length: 25 }, async (_, i) => {
      const random = new Random(draw * 1_000 + i);
      const kinds = random.shuffle([...KINDS]).slice(0, random.int(1, 3));
      const store = broken(random.split('answers'), kinds, random.pick([0.05, 0.2, 0.6]));
      const began = performance.now();
      const joined = await Promise.allSettled(
        [0, 1].map((rank) =>
          createAgent({
            name: `w${rank}`,
            rank,
            worldSize: 2,
            store,
            initTimeoutMs: 500,
            transports: ['memory'],
            logger: quiet,
          }),
        ),
      );
      const took = performance.now() - began;
      const odd = joined.flatMap((one) =>
        one.status === 'fulfilled' ||
        rpcInfo(one.reason) !== undefined ||
        String(one.reason).includes('the store is broken')
          ? []
          : [String(one.reason)],
      );
      for (const one of joined)
        if (one.status === 'fulfilled') await one.value.shutdown({ graceful: false }).catch(() => undefined);
      return { kinds, took, odd };
    });
    const all = await Promise.all(runs);
    expect(all.filter(({ odd }) => odd.length > 0)).toEqual([]);
    expect(all.filter(({ took }) => took > 20_000)).toEqual([]);
    await new Promise((resolve) => setTimeout(resolve, 100));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });
});
