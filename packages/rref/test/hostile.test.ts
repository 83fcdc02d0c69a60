/** @file A member that hands on RRefs which there are not: it costs the others neither memory nor time. */
import { expect, it } from 'vitest';
import { rpcAsync, rpcFunction, type RpcAgent } from '@backwire/rpc';
import { agent, counters, eventually, startGroup } from './group.ts';
import { sessionOf } from '../src/extension.ts';
import { memberKey } from '../src/protocol/ids.ts';
import { UserFork } from '../src/protocol/user-table.ts';

const NOBODY = memberKey(9_999, 7);
const take = rpcFunction('rref-hostile/take', (...given: unknown[]) => given.length);

/** w1 gives w0 a handle on what a worker owns that there never was. */
async function handOn(agents: readonly RpcAgent[]): Promise<void> {
  const session = sessionOf(agent(agents, 1));
  const fork = new UserFork(session.worker.drawId(), { member: NOBODY, local: 0 }, NOBODY, NOBODY, 'confirmed');
  const handle = session.adopt({ fork });
  const given = new AbortController();
  const call = agent(agents, 1)
    .run(() => rpcAsync('w0', take, [handle], { timeoutMs: 0, signal: given.signal }))
    .catch(() => undefined);
  await eventually(() => counters(agent(agents, 0)).num_pending_users === 1);
  given.abort();
  await call;
  // And it remembers nothing of that itself.
  session.worker.users.clear();
}

it('a handle of an owner that there never was does not keep its holder from ending', async () => {
  const agents = await startGroup(2);
  await handOn(agents);
  const began = performance.now();
  await Promise.all(agents.map((each) => each.shutdown({ timeoutMs: 20_000 })));
  expect(performance.now() - began).toBeLessThan(10_000);
});

it('handles of an owner that there never was go with who handed them on', async () => {
  const agents = await startGroup(3);
  await handOn(agents);
  await agent(agents, 1).shutdown({ graceful: false });
  await eventually(() => counters(agent(agents, 0)).num_pending_users === 0);
  await Promise.all([0, 2].map((rank) => agent(agents, rank).shutdown({ graceful: false })));
});
