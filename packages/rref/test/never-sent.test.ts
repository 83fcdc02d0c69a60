/** @file `remote()` of what cannot be asked for, as an RRef among the arguments has failed: the new reference says so, and nobody is told. */
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { describe, expect, it } from 'vitest';
import { remote, type RRef } from '../src/index.ts';
import { agent, callsSent, counters, eventually, isEmpty, withGroup } from './group.ts';

const one = rpcFunction('never-sent/one', () => 1);
const fail = rpcFunction('never-sent/fail', (): number => {
  throw new RangeError('no weights');
});
const take = rpcFunction('never-sent/take', (..._rrefs: RRef<number>[]) => 1);

describe.each(['w0', 'w1'])('remote() to %s', (to) => {
  it.each(['w0', 'w1', 'w2'])('with an RRef of %s that could not be made gives one that fails with that', (owner) =>
    withGroup(3, async (agents) => {
      const failed = remote(owner, fail);
      await expect(failed.confirmed()).rejects.toThrow(new RangeError('no weights'));
      const good = remote('w2', one);
      await good.confirmed();
      const before = callsSent(agent(agents, 0));
      const made = remote(to, take, [good, failed]);
      expect([made.ownerName(), made.isOwner()]).toEqual([to, to === 'w0']);
      const uses = [() => made.toHere(), () => made.confirmed(), () => made.typeName(), () => made.rpcSync().toFixed()];
      for (const use of uses) await expect(use()).rejects.toThrow(new RangeError('no weights'));
      // So do those that are made with it in turn, and calls as ever.
      const chained = remote(to, take, [made]);
      await expect(chained.toHere()).rejects.toThrow(new RangeError('no weights'));
      await expect(rpcSync(to, take, [made])).rejects.toThrow(new RangeError('no weights'));
      expect(callsSent(agent(agents, 0))).toBe(before);
      expect(counters(agent(agents, 0))['num_pending_children']).toBe(0);
      for (const each of [failed, good, made, chained]) each.dispose();
      await eventually(() => agents.every(isEmpty), 'nothing is left');
    }),
  );

  it('still throws for an RRef that was disposed, and for an argument that cannot travel', () =>
    withGroup(2, async () => {
      const disposed = remote('w1', one);
      await disposed.confirmed();
      disposed.dispose();
      expect(() => remote(to, take, [disposed])).toThrow(
        'has been deleted. Cannot call fork an UserRRef after deletion',
      );
      expect(() => remote(to, take, [(() => 1) as never])).toThrow(TypeError);
    }));
});
