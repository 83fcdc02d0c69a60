/** @file Keys and values of a torch group's store, against what torch's workers did there. */
import { describe, expect, it } from 'vitest';
import { document } from '../../test/captures.ts';
import {
  ARRIVALS,
  IS_STATIC,
  MEMBERS,
  TOKEN,
  TOKEN_DONE,
  addressKey,
  meshKey,
  nameKey,
  readAddress,
  readMembers,
  shutdownKeys,
  storePrefix,
  tokenOf,
  writeAddress,
  writeMembers,
} from './store-text.ts';

interface Operation {
  readonly op: string;
  readonly key?: string;
  readonly keys?: readonly string[];
  readonly value?: string;
  readonly desired?: string;
  readonly result?: unknown;
}
interface Stored {
  readonly captures: readonly {
    readonly name: string;
    readonly workers?: readonly { worker: string; operations: readonly Operation[] }[];
  }[];
}

function operations(file: string): Operation[] {
  const found = (document(file) as Stored).captures.find(({ name }) => name === 'store');
  return (found?.workers ?? []).flatMap((worker) => worker.operations);
}

const key = (name: string): string => `/${storePrefix(0)}/${name}`;

describe('keys', () => {
  it('of a static group are all known', () => {
    const used = new Set(
      operations('static-group.json').flatMap(({ key: one, keys = [] }) => (one === undefined ? keys : [one])),
    );
    const known = [
      IS_STATIC,
      ...[0, 1, 2].flatMap((i) => [nameKey(i), addressKey(`w${i}`), meshKey(i)]),
      ...[1, 2, 3].flatMap((round) => Object.values(shutdownKeys(round))),
    ];
    expect([...used].sort()).toEqual([ARRIVALS, ...known.map(key)].sort());
  });

  it('of a dynamic group are all known', () => {
    const used = new Set(
      operations('dynamic-group.json').flatMap(({ key: one, keys = [] }) => (one === undefined ? keys : [one])),
    );
    const tokens = ['d0', 'd1'].flatMap((name) => [tokenOf(name, 'join'), tokenOf(name, 'leave')]);
    const known = [IS_STATIC, TOKEN, MEMBERS, ...tokens, ...[0, 1].flatMap((i) => [nameKey(i), addressKey(`d${i}`)])];
    expect([...used].sort()).toEqual(known.map(key).sort());
  });
});

describe('values', () => {
  it('of the list of members are read and written as torch has them', () => {
    const lists = operations('dynamic-group.json')
      .filter((o) => o.op === 'SET' && o.key === key(MEMBERS))
      .map(({ value = '' }) => value);
    expect(lists).toEqual(['d0-0,', '', 'd0-0,d1-1,', 'd0-0,']);
    expect(lists.map(readMembers)).toEqual([[d(0)], [], [d(0), d(1)], [d(0)]]);
    for (const list of lists) expect(writeMembers(readMembers(list))).toBe(list);
  });

  it('of tokens are what the takers and givers wrote', () => {
    const done = operations('dynamic-group.json')
      .filter((o) => o.op === 'COMPARE_SET' && o.key === key(TOKEN))
      .map(({ desired }) => desired);
    expect(done).toEqual([
      tokenOf('d0', 'join'),
      tokenOf('d0', 'leave'),
      tokenOf('d1', 'join'),
      tokenOf('d1', 'leave'),
    ]);
    const given = operations('dynamic-group.json')
      .filter((o) => o.value === TOKEN_DONE)
      .map((o) => o.key);
    expect(given).toEqual(done.map((token) => key(token ?? '')));
  });

  it('of addresses are read and written as torch has them', () => {
    const addresses = operations('static-group.json')
      .filter((o) => o.op === 'SET' && o.value?.startsWith('uv://') === true)
      .map(({ value = '' }) => value);
    expect(addresses).toHaveLength(3);
    for (const address of addresses) {
      expect(writeAddress(readAddress(address))).toBe(address);
    }
    for (const text of ['uv://[::1]:80', 'uv://::1:80']) expect(readAddress(text)).toBe('[::1]:80');
    expect(writeAddress('[::1]:80')).toBe('uv://[::1]:80');
  });

  it.each(['shm://x:1', 'uv://host', 'uv://h:0', 'uv://h:70000', '', 'uv://a/b:1'])(
    'refuses the address %j',
    (text) => {
      expect(() => readAddress(text)).toThrow(/address of a worker|port of a worker/);
    },
  );

  it.each(['d0-0', 'd0,', '-1,', 'd0-x,', 'd0-99999,', 'd0-0,,'])('refuses the list %j', (text) => {
    expect(() => readMembers(text)).toThrow(/member/);
  });

  it('refuses names that torch would take apart elsewhere', () => {
    expect(() => writeMembers([{ name: 'a-b', id: 1 }])).toThrow(/no '-' or ','/);
    expect(() => writeMembers([{ name: 'a,b', id: 1 }])).toThrow(/no '-' or ','/);
    expect(readMembers('a-b-1,')).toEqual([{ name: 'a-b', id: 1 }]);
  });
});

function d(id: number): { name: string; id: number } {
  return { name: `d${id}`, id };
}
