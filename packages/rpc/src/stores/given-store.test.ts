/** @file The watch of a store that a program gave, which may yield anything, end, throw, or hear nothing of its end. */
import { randomUUID } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Logger } from '../base/options.ts';
import { givenStore } from './given-store.ts';
import { memoryStore } from './memory.ts';
import type { Store, StoreEvent } from './store.ts';

const lines: string[] = [];
const note = (_: object, text: string): void => void lines.push(text);
const logger: Logger = { debug: note, info: note, warn: note, error: note };

/** A store whose first watches come to these; later ones are its own. */
function watching(...first: readonly (() => unknown)[]): Store {
  const real = memoryStore(randomUUID());
  const left = [...first];
  const watch: Store['watch'] = (prefix, options) =>
    (left.shift() ?? (() => real.watch(prefix, options)))() as AsyncIterable<StoreEvent>;
  lines.length = 0;
  return givenStore({ ...bound(real), watch }, logger);
}

function bound(store: Store): Store {
  return new Proxy(store, {
    ownKeys: () => ['set', 'get', 'wait', 'add', 'compareAndSet', 'delete', 'list', 'watch', 'lease', 'close'],
    getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }),
    get: (one, name) => (Reflect.get(one, name) as (...args: unknown[]) => unknown).bind(one),
  });
}

async function* yields(...values: unknown[]): AsyncGenerator<unknown> {
  yield* values;
}
// eslint-disable-next-line require-yield -- as programs write them
async function* throws(error: Error): AsyncGenerator<unknown> {
  throw error;
}
const never = (): unknown => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }) });

describe('the watch of a store that was given', () => {
  const put = { type: 'put', key: 'k', value: new Uint8Array(1) };

  it.each<[string, unknown, string]>([
    ['nothing', undefined, "answered undefined to watch('k'), where an async iterable is due"],
    ['a list', [], "answered a list to watch('k'), where an async iterable is due"],
    [
      'no iterator',
      { [Symbol.asyncIterator]: () => 5 },
      "answered 5 to the iteration of watch('k'), where an object with next is due",
    ],
  ])('is told that it is none: %s', (_, answer, text) => {
    expect(() => watching(() => answer).watch('k')).toThrow(`the store that was given ${text} [failed-precondition]`);
  });

  it.each<[unknown, string]>([
    [null, 'null'],
    ['put', "'put'"],
    [{}, 'an object of class Object'],
    [{ type: 'put', key: 'k' }, 'an object of class Object'],
    [{ type: 'put', key: 'k', value: 'text' }, 'an object of class Object'],
    [{ type: 'delete' }, 'an object of class Object'],
    [{ type: 'else', key: 'k' }, 'an object of class Object'],
  ])('is told that it yields what is no change: %j', async (value, shown) => {
    const store = watching(() => yields(put, value));
    const events = store.watch('k')[Symbol.asyncIterator]();
    expect(await events.next()).toEqual({ value: put, done: false });
    await expect(events.next()).rejects.toMatchObject({
      code: 'failed-precondition',
      message: `the store that was given answered ${shown} to watch('k'), where a change with type, key and value is due [failed-precondition]`,
    });
    expect(await events.next()).toEqual({ value: undefined, done: true });
  });

  it('begins again where it ends by itself, and says that changes may have been missed', async () => {
    const store = watching(
      () => yields(put),
      () => yields(),
    );
    const events = store.watch('k')[Symbol.asyncIterator]();
    const kinds: unknown[] = [];
    for (let i = 0; i < 3; i++) kinds.push((await events.next()).value?.type);
    expect(kinds).toEqual(['put', 'resync', 'resync']);
    await store.set('k', new Uint8Array(2));
    expect((await events.next()).value).toMatchObject({ type: 'put', value: new Uint8Array(2) });
    await events.return?.();
    expect(await events.next()).toEqual({ value: undefined, done: true });
  });

  it('begins again where it throws, and says so in the log', async () => {
    const store = watching(
      () => throws(new Error('the line is down')),
      () => {
        throw new Error('and still is');
      },
    );
    const events = store.watch('k')[Symbol.asyncIterator]();
    expect((await events.next()).value).toEqual({ type: 'resync', key: 'k' });
    expect(lines).toEqual(new Array(2).fill('the watch of the store that was given failed, and begins again'));
    await store.set('k', new Uint8Array(2));
    expect((await events.next()).value).toMatchObject({ type: 'put', value: new Uint8Array(2) });
    await events.return?.();
  });

  it('ends with its signal, also where the store hears nothing of that', async () => {
    const stop = new AbortController();
    const events = watching(never).watch('k', { signal: stop.signal })[Symbol.asyncIterator]();
    const waits = events.next();
    await turn();
    stop.abort();
    expect(await waits).toEqual({ value: undefined, done: true });
    const over = watching(never).watch('k', { signal: stop.signal })[Symbol.asyncIterator]();
    expect(await over.next()).toEqual({ value: undefined, done: true });
  });

  it('of a store that is closed begins no more', async () => {
    const store = watching();
    const events = store.watch('k')[Symbol.asyncIterator]();
    const waits = events.next();
    await store.close();
    await expect(waits).rejects.toMatchObject({ code: 'failed-precondition', message: /the store is closed/ });
  });
});
