/** @file References in replies that extensions had and did not pass on: what was drawn for them is taken back. */
import { setTimeout as wait } from 'node:timers/promises';
import { rpcAsync, rpcFunction, type Extension, type ExtensionSession } from '@backwire/rpc';
import type { RpcMessage } from '@backwire/rpc/internal';
import type { Message } from '@backwire/wire';
import { describe, expect, it } from 'vitest';
import { createRRef, remote, rrefs, type RRef } from '../src/index.ts';
import { eventually, isEmpty, withGroup } from './group.ts';

type Serve = NonNullable<ExtensionSession['serve']>;

let made = 0;
const make = rpcFunction('dropped-replies/make', (): RRef<number> => {
  made++;
  return createRRef(5);
});
const around = (serve: Serve): Extension => ({ name: 'around', attach: (): ExtensionSession => ({ serve }) });

/** Runs `test` on a caller of a worker whose replies go through `serve`; nothing may be left of what was made. */
const run = (serve: Serve, test: () => Promise<void>): Promise<void> =>
  withGroup(
    2,
    async (agents) => {
      made = 0;
      await test();
      await eventually(() => made > 0 && agents.every(isEmpty), 'nothing is left');
    },
    (rank) => ({ extensions: rank === 0 ? [rrefs()] : [around(serve), rrefs()] }),
  );

describe('a reply with a reference', () => {
  it('that an extension has made twice is sent once, and the other is given back', () =>
    run(
      async (call, next) => {
        await next(call);
        return next(call);
      },
      async () => {
        const ref = await rpcAsync('w1', make, []);
        expect([made, await ref.toHere()]).toEqual([2, 5]);
        ref.dispose();
      },
    ));

  it('of which an extension takes the first is sent, and the second is given back', () =>
    run(
      async (call, next) => {
        const [first] = await Promise.all([next(call), next(call)]);
        return first;
      },
      async () => {
        const ref = await rpcAsync('w1', make, []);
        expect(await ref.toHere()).toBe(5);
        ref.dispose();
      },
    ));

  it('of which an extension takes the first that comes is sent, and the one that comes later is given back', () => {
    let later: Promise<Message> | undefined;
    return run(
      async (call, next) => {
        const first = next(call);
        if (later !== undefined) return first;
        const second = (later = wait(50).then(() => next(call)));
        return Promise.race([first, second]);
      },
      async () => {
        const ref = await rpcAsync('w1', make, []);
        expect(await ref.toHere()).toBe(5);
        ref.dispose();
        await later;
        expect(made).toBeGreaterThan(1);
      },
    );
  });

  it('of which an extension makes another message with the same content is the reference still', () =>
    run(
      async (call, next) => {
        const { type, id, payload, tensors } = await next(call);
        return { type, id, payload, tensors };
      },
      async () => {
        const ref = await rpcAsync('w1', make, []);
        expect(await ref.toHere()).toBe(5);
        ref.dispose();
      },
    ));

  it('of which an extension sends a copy, with copies of its entries, is the reference still', () =>
    run(
      async (call, next) => {
        const reply: RpcMessage = await next(call);
        return { ...reply, header: reply.header?.map((entry) => ({ ...entry })) ?? [] } as Message;
      },
      async () => {
        const ref = await rpcAsync('w1', make, []);
        expect(await ref.toHere()).toBe(5);
        ref.dispose();
      },
    ));

  it('to a fetch, which an extension has failed to wrap, is given back', () => {
    let fails = false;
    return run(
      async (call, next) => {
        const reply = await next(call);
        if (fails) throw new RangeError('not this one');
        return reply;
      },
      async () => {
        const outer = remote('w1', make, []);
        await outer.confirmed();
        fails = true;
        await expect(outer.toHere()).rejects.toThrow('not this one');
        outer.dispose();
      },
    );
  });
});
