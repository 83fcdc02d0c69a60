/** @file A group whose Redis dies, and goes on from a replica that has not heard of the latest: who joined stays, who left stays out. */
import { isInstalled } from '@backwire/testing';
import { afterEach, expect, test } from 'vitest';
import { createAgent, getWorkerInfos, rpcAsync, rpcFunction, type RpcAgent } from '../src/index.ts';
import { FIFTH } from './crew.ts';
import { cleanUp, cleanups, proxy, redisSays, serve, sleep } from './store-servers.ts';
import { until } from './cluster.ts';

afterEach(cleanUp);
const echo = rpcFunction('lagging-replica/echo', (x: number) => x);

const namesOf = (agent: RpcAgent): string =>
  agent.run(() =>
    getWorkerInfos()
      .map(({ name }) => name)
      .sort()
      .join(),
  );

test.skipIf(!isInstalled('redis'))(
  'a replica that is promoted without the latest puts nobody out, and brings nobody back',
  { timeout: 90_000 },
  async () => {
    const [primary, replica] = [await serve('redis'), await serve('redis')];
    const answers = (port: number, part: string, ...command: string[]): Promise<void> =>
      until(async () => (await redisSays(port, ...command).catch(() => '')).includes(part), part, 20_000);
    await answers(primary.port, 'PONG', 'PING');
    await answers(replica.port, 'OK', 'REPLICAOF', '127.0.0.1', `${primary.port}`);
    await answers(replica.port, 'master_link_status:up', 'INFO', 'replication');
    const { port, turn } = await proxy(primary.port);
    const events: string[] = [];
    const join = async (rank: number): Promise<RpcAgent> => {
      const store = `redis://127.0.0.1:${port}`;
      const agent = await createAgent({ name: `w${rank}`, rank, store, initTimeoutMs: 30_000, liveness: FIFTH });
      cleanups.push(() => agent.shutdown({ graceful: false }));
      for (const event of ['peer-down', 'fenced'] as const)
        agent.on(event, () => events.push(`${agent.name} ${event}`));
      return agent;
    };
    const [first, leaver] = [await join(0), await join(1)];
    await answers(primary.port, 'acked', 'PING', 'acked');
    await redisSays(primary.port, 'WAIT', '1', '5000');
    // The replica hears no more, and goes on being one.
    await answers(replica.port, 'OK', 'REPLICAOF', '127.0.0.1', '1');
    const late = await join(2);
    await leaver.shutdown({ graceful: false });
    await until(() => namesOf(first) === 'w0,w2', 'the group knows the latest');
    await primary.kill();
    turn(replica.port);
    await redisSays(replica.port, 'REPLICAOF', 'NO', 'ONE');
    const newcomer = await join(3);
    const all = [first, late, newcomer];
    await until(() => all.every((agent) => namesOf(agent) === 'w0,w2,w3'), 'all agree', 30_000);
    // Who was put out by mistake, or brought back, would be so within a lease.
    await sleep(FIFTH.leaseMs + 1_000);
    expect({ names: all.map(namesOf), events }).toEqual({ names: all.map(() => 'w0,w2,w3'), events: [] });
    for (const agent of all)
      for (const other of all) expect(await agent.run(() => rpcAsync(other.name, echo, [7]))).toBe(7);
  },
);
