/** @file References in answers that are encoded and never sent, as nobody waits for them by then: what was drawn for them is taken back. */
import { setTimeout as wait } from 'node:timers/promises';
import { rpcAsync, rpcFunction, rpcOneway, type Extension, type ExtensionSession } from '@backwire/rpc';
import { describe, expect, it } from 'vitest';
import { createRRef, remote, rrefs, type RRef } from '../src/index.ts';
import { eventually, isEmpty, withGroup } from './group.ts';

let made = 0;
const make = rpcFunction('never-answered/make', (): RRef<number> => {
  made++;
  return createRRef(5);
});
const five = rpcFunction('never-answered/five', () => 5);
const give = rpcFunction('never-answered/give', (ref: RRef<number>): RRef<number> => {
  made++;
  return ref;
});

/** Does something with an answer that is encoded already. */
const after = (fn: () => unknown): Extension => ({
  name: 'after',
  attach: (): ExtensionSession => ({
    serve: async (call, next) => {
      const reply = await next(call);
      await fn();
      return reply;
    },
  }),
});
const run = (extension: Extension, test: () => Promise<void>): Promise<void> =>
  withGroup(
    2,
    async (agents) => {
      made = 0;
      await test();
      await eventually(() => made > 0 && agents.every(isEmpty), 'nothing is left');
    },
    (rank) => ({ extensions: rank === 1 ? [extension, rrefs()] : [rrefs()] }),
  );

describe('an answer with a reference', () => {
  it.each([
    ['its own', () => rpcAsync('w1', make, [], { timeoutMs: 50 })],
    ['one that it was given', (ref: RRef<number>) => rpcAsync('w1', give, [ref], { timeoutMs: 50 })],
  ])('that comes too late for its caller keeps nothing: %s', (_, ask) =>
    run(
      after(() => wait(150)),
      async () => {
        const ref = remote('w1', five, []);
        await ref.confirmed();
        await expect(ask(ref)).rejects.toMatchObject({ code: 'deadline-exceeded' });
        ref.dispose();
      },
    ),
  );

  it('that somebody cancels', () =>
    run(
      after(() => wait(150)),
      async () => {
        const stop = new AbortController();
        const call = rpcAsync('w1', make, [], { signal: stop.signal });
        setTimeout(() => stop.abort(), 50);
        await expect(call).rejects.toMatchObject({ code: 'cancelled' });
      },
    ));

  it('that nobody wants', () =>
    run(
      after(() => undefined),
      async () => {
        rpcOneway('w1', make, []);
        await wait(50);
      },
    ));

  it('that an extension has failed to wrap', () =>
    run(
      after(() => {
        throw new RangeError('not this one');
      }),
      async () => {
        await expect(rpcAsync('w1', make, [])).rejects.toThrow('not this one');
      },
    ));

  it('whose caller still waits comes as ever', () =>
    run(
      after(() => wait(50)),
      async () => {
        const ref = await rpcAsync('w1', make, []);
        expect(await ref.toHere()).toBe(5);
        ref.dispose();
      },
    ));
});
