/** @file The state that launchers agree on: changed by whoever is faster, and told again only where it was lost. */
import { randomUUID } from 'node:crypto';
import type { Lease, Store } from '@backwire/rpc';
import { openStore } from '@backwire/rpc/internal';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { AgreedState } from './agreed-state.ts';
import { encode } from './rendezvous-codec.ts';
import { close, opened, type Rendezvous } from './rendezvous.ts';

const KEY = 'launcher/run/rendezvous';
const terms = { membership: 'static', least: 1, most: 2, maxRestarts: 0 } as const;
const first = opened(terms, 'token');

let store: Store;
let learnt: Rendezvous[];
let agreed: AgreedState;

beforeEach(async () => {
  store = (await openStore(`memory://${randomUUID()}`, { rank: 0, timeoutMs: 1_000 })).store;
  learnt = [];
  agreed = new AgreedState(store, KEY, (state) => void learnt.push(state));
});
afterEach(() => store.close());

const versions = (): number[] => learnt.map(({ version }) => version);

describe('a change', () => {
  it('is numbered, and told to the store and to this launcher', async () => {
    expect(await agreed.read()).toEqual({ state: undefined, bytes: undefined });
    await agreed.stepFrom((state) => state ?? first);
    await agreed.step((state) => close(state, 'enough'));
    expect([versions(), learnt.map(({ phase }) => phase)]).toEqual([
      [1, 2],
      ['gathering', 'closed'],
    ]);
    expect((await agreed.read()).state).toEqual(learnt[1]);
  });

  it('that changes nothing writes nothing', async () => {
    await agreed.stepFrom(() => first);
    const { bytes } = await agreed.read();
    await agreed.step((state) => state);
    expect([versions(), (await agreed.read()).bytes]).toEqual([[1, 1], bytes]);
  });

  it('is made again from what somebody faster has written', async () => {
    await agreed.stepFrom(() => first);
    const seen: (number | undefined)[] = [];
    await agreed.stepFrom(async (state) => {
      seen.push(state?.round);
      if (seen.length < 3) await store.set(KEY, encode({ ...first, round: seen.length, version: 10 * seen.length }));
      return { ...(state as Rendezvous), why: 'mine' };
    });
    expect([seen, versions()]).toEqual([
      [0, 1, 2],
      [1, 21],
    ]);
    expect((await agreed.read()).state).toMatchObject({ round: 2, why: 'mine', version: 21 });
  });

  it('of a state that is not there is none', async () => {
    await expect(agreed.step((state) => state)).rejects.toThrow('no longer in the store');
    await store.set(KEY, new TextEncoder().encode('{}'));
    await expect(agreed.read()).rejects.toThrow('something that is not the state of a group: {}');
    expect(learnt).toEqual([]);
  });
});

describe('what is known', () => {
  const known: Rendezvous = { ...first, version: 5 };

  it.each<[string, Rendezvous | undefined, boolean]>([
    ['nothing', undefined, true],
    ['an earlier state of the run', { ...first, version: 4 }, true],
    ['the same', { ...first, version: 5 }, false],
    ['a later one', { ...first, version: 6 }, false],
    ['an earlier one of another run', { ...first, token: 'other', version: 4 }, false],
  ])('is told again where the store has %s: %#', async (_what, held, told) => {
    if (held !== undefined) await store.set(KEY, encode(held));
    expect(await agreed.restore(known, await agreed.read())).toBe(told);
    const { state } = await agreed.read();
    expect(state).toEqual(told ? { ...known, version: 6 } : held);
    expect(versions()).toEqual(told ? [6] : []);
  });

  it('is told by one of those who know it', async () => {
    const found = await agreed.read();
    expect(await agreed.restore(known, found)).toBe(true);
    expect(await agreed.restore({ ...known, version: 9 }, found)).toBe(true);
    expect([(await agreed.read()).state?.version, versions()]).toEqual([6, [6]]);
  });

  it('is deleted by those of its run alone, and with nothing left of the lease', async () => {
    expect(await agreed.remove(known)).toBe(false);
    await store.set(KEY, encode({ ...known, token: 'other' }));
    expect([await agreed.remove(known), (await agreed.read()).state?.token]).toEqual([false, 'other']);
    await store.set(KEY, encode(known));
    const given: Lease[] = [];
    const revoked: boolean[] = [];
    const original = store.lease.bind(store);
    vi.spyOn(store, 'lease').mockImplementation(async (ttlMs) => {
      const lease = await original(ttlMs);
      const revoke = lease.revoke.bind(lease);
      vi.spyOn(lease, 'revoke').mockImplementation(() => (revoked.push(true), revoke()));
      given.push(lease);
      return lease;
    });
    expect(await agreed.remove(known)).toBe(true);
    expect([(await agreed.read()).state, given.length, revoked]).toEqual([undefined, 1, [true]]);
  });
});
