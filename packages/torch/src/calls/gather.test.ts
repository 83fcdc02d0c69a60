/** @file Gathering an object of each worker, without connections. */
import { RpcError, type RpcErrorCode } from '@backwire/rpc';
import { expect, it } from 'vitest';
import { Gatherings, type GatherHost } from './gather.ts';
import type { Names } from './names.ts';

type Told = (args: readonly unknown[]) => unknown;

/** The one that collects, and what others call there. */
function leader(callPython: GatherHost['callPython']): { gatherings: Gatherings; gather: Told } {
  const answers = new Map<string, Told>();
  const names = { answer: (path: string, run: Told) => answers.set(path, run) } as unknown as Names;
  const host: GatherHost = {
    name: 'a',
    names: () => ['a', 'b', 'c', 'd'],
    isMember: () => true,
    counts: new Map(),
    doubt: () => undefined,
    seek: () => undefined,
    callPython,
  };
  const gatherings = new Gatherings(host, names);
  return { gatherings, gather: answers.get('torch.distributed.rpc.api._gather_to_leader') as Told };
}

it('names those that were gone, or did not answer, when all had come', async () => {
  const fates = new Map<string, RpcErrorCode>([
    ['b', 'peer-died'],
    ['d', 'deadline-exceeded'],
  ]);
  const told: string[] = [];
  const { gatherings, gather } = leader((to) => {
    told.push(to);
    const code = fates.get(to);
    return code === undefined ? Promise.resolve(null) : Promise.reject(new RpcError(code, `calling ${to}`));
  });
  const waiting = gatherings.gather(1, {});
  for (const name of ['b', 'c', 'd']) gather(['abcd0', name, name, new Set(['a', 'b', 'c', 'd'])]);
  await expect(waiting).rejects.toMatchObject({
    code: 'barrier-broken',
    message: expect.stringContaining(
      "all had come, but before they were told so worker 'b' was gone, worker 'd' did not answer (deadline-exceeded)",
    ) as string,
    cause: { code: 'peer-died' },
  });
  expect(told).toEqual(['b', 'c', 'd']);
});
