/** @file A store that a program gave: what it answers is looked at before it is used. */
import { RpcError } from '../base/errors.ts';
import { show, type Logger } from '../base/options.ts';
import { GivenWatch } from './given-watch.ts';
import type { Lease, Store, StoreEvent } from './store.ts';
import { canTicket } from './ticket.ts';

/** `store`, which fails 'failed-precondition' where it answers with something of another kind than a store does. */
export function givenStore(store: Store, logger: Logger): Store {
  const due = <T>(answer: T, asked: string, kind: string, isOne: boolean): T => {
    if (isOne) return answer;
    const text = `the store that was given answered ${show(answer)} to ${asked}, where ${kind} is due`;
    throw new RpcError('failed-precondition', text, { executed: 'maybe' });
  };
  const answered: Store = {
    set: async (key, value, options) => store.set(key, value, options),
    get: async (key) => {
      const value = await store.get(key);
      return due(value, `get('${key}')`, 'a Uint8Array or undefined', isValue(value));
    },
    wait: async (keys, options) => store.wait(keys, options),
    add: async (key, delta) => {
      const sum = await store.add(key, delta);
      return due(sum, `add('${key}')`, 'a bigint', typeof sum === 'bigint');
    },
    compareAndSet: async (key, expected, value, options) => {
      const swapped = await store.compareAndSet(key, expected, value, options);
      const isOne = isObject(swapped) && typeof swapped['ok'] === 'boolean' && isValue(swapped['current']);
      return due(swapped, `compareAndSet('${key}')`, 'an object with ok and current', isOne);
    },
    delete: async (key) => {
      const was = await store.delete(key);
      return due(was, `delete('${key}')`, 'a boolean', typeof was === 'boolean');
    },
    list: async (prefix) => {
      const found = await store.list(prefix);
      const isOne =
        found instanceof Map && [...found].every(([key, value]) => typeof key === 'string' && isBytes(value));
      return due(found, `list('${prefix}')`, 'a Map of names and Uint8Arrays', isOne);
    },
    watch: (prefix, options) => {
      const begin = (): AsyncIterator<unknown> => {
        const events: unknown = store.watch(prefix, options);
        const own = isObject(events) ? events[Symbol.asyncIterator] : undefined;
        due(events, `watch('${prefix}')`, 'an async iterable', typeof own === 'function');
        const iterator = (own as () => AsyncIterator<unknown>).call(events);
        return due(iterator, `the iteration of watch('${prefix}')`, 'an object with next', isIterator(iterator));
      };
      const check = (result: unknown): IteratorResult<StoreEvent> => {
        const isOne = isObject(result) && (result['done'] === true || isEvent(result['value']));
        const shown = isObject(result) ? result['value'] : result;
        due(shown, `watch('${prefix}')`, 'a change with type, key and value', isOne);
        return result as IteratorResult<StoreEvent>;
      };
      return new GivenWatch({ prefix, signal: options?.signal, logger, begin, check });
    },
    lease: async (ttlMs) => {
      const lease = await store.lease(ttlMs);
      return due(lease, 'lease()', 'an object with lost and revoke', isLease(lease));
    },
    close: async () => store.close(),
  };
  if (!canTicket(store)) return answered;
  return Object.assign(answered, { ticket: (lease: Lease, ageKey: string) => store.ticket(lease, ageKey) });
}

function isObject(value: unknown): value is Readonly<Record<string | symbol, unknown>> {
  return typeof value === 'object' && value !== null;
}

function isBytes(value: unknown): boolean {
  return value instanceof Uint8Array;
}

function isValue(value: unknown): boolean {
  return value === undefined || isBytes(value);
}

function isIterator(value: unknown): boolean {
  return isObject(value) && typeof value['next'] === 'function';
}

function isEvent(value: unknown): boolean {
  if (!isObject(value) || typeof value['key'] !== 'string') return false;
  return value['type'] === 'put' ? isBytes(value['value']) : value['type'] === 'delete' || value['type'] === 'resync';
}

function isLease(value: unknown): boolean {
  return isObject(value) && value['lost'] instanceof Promise && typeof value['revoke'] === 'function';
}
