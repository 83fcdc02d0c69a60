/** @file Whom a worker of a group still knows, however many come and go under new names. */
import { WorkerInfo } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { expect, it } from 'vitest';
import { MAX_FORMER_LIVES } from './limits.ts';
import { MemberDirectory } from './members.ts';
import { memberKey } from './protocol/ids.ts';

/** The ids of workers are below this, so that those of many are used again, in later lives. */
const IDS = 1_000;

it('names the latest of those that have left, the others by their ids, and keeps as many', () => {
  const self = new WorkerInfo('self', 0);
  const stays = new WorkerInfo('stays', 1);
  const directory = new MemberDirectory({ self, incarnation: 1, peers: () => [] } as unknown as ExtensionHost);
  const group = [directory.seen(self, 1), directory.seen(stays, 1)];
  const total = MAX_FORMER_LIVES + 500;
  const comers = Array.from({ length: total }, (_, i) => ({
    worker: new WorkerInfo(`comer${i}`, 2 + (i % IDS)),
    life: 1 + Math.floor(i / IDS),
  }));
  for (const { worker, life } of comers) {
    directory.seen(self, 1);
    directory.seen(stays, 1);
    directory.viewChanged([...group, directory.seen(worker, life)]);
    expect(directory.viewChanged(group)).toEqual([memberKey(worker.id, life)]);
  }
  const nameOf = (i: number): string => {
    const { worker, life } = comers[i] as (typeof comers)[number];
    return directory.worker(memberKey(worker.id, life)).name;
  };
  expect([nameOf(total - 1), nameOf(total - MAX_FORMER_LIVES)]).toEqual([
    `comer${total - 1}`,
    `comer${total - MAX_FORMER_LIVES}`,
  ]);
  expect([nameOf(0), nameOf(400)]).toEqual(['worker2', 'worker402']);
  expect([directory.worker(group[0] as never).name, directory.worker(group[1] as never).name]).toEqual([
    'self',
    'stays',
  ]);
  const last = comers[total - 1] as (typeof comers)[number];
  expect(directory.last(last.worker)).toBe(memberKey(last.worker.id, last.life));
});
