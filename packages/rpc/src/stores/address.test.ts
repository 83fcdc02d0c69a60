/** @file Addresses that hold all: taken apart and put together, and joined by. */
import { afterEach, describe, expect, it } from 'vitest';
import { freePort } from '@backwire/testing';
import { createAgent, getWorkerInfos, type RpcAgent } from '../index.ts';
import { joinAddress, splitAddress } from './address.ts';
import { serveStore } from './embedded-server.ts';
import { openStore } from './open.ts';

const agents: RpcAgent[] = [];
afterEach(() => Promise.all(agents.splice(0).map((agent) => agent.shutdown({ graceful: false }))));

describe('an address', () => {
  it.each([
    ['tcp://h:1', '', undefined, 'tcp://h:1'],
    ['tcp://h:1', 'runs/a/0/', undefined, 'tcp://h:1?prefix=runs/a/0/'],
    ['tcp://[::1]:1', 'a b&c=d?/', undefined, 'tcp://[::1]:1?prefix=a%20b%26c%3Dd%3F/'],
    ['redis://h:1/0?x=1', 'p/', undefined, 'redis://h:1/0?x=1&prefix=p/'],
    ['tcp://h:1', '', 'ws://h:2/backwire', 'tcp://h:1?ws=ws://h:2/backwire'],
    ['tcp://h:1', 'p/', 'wss://h:2/backwire', 'tcp://h:1?prefix=p/&ws=wss://h:2/backwire'],
  ])('%s with %j and %s is %s, and back', (bare, prefix, ws, address) => {
    expect(joinAddress(bare, prefix, ws)).toBe(address);
    expect(splitAddress(address)).toEqual({ bare, prefix, ws });
  });

  it('may lack the last slash of its prefix; a malformed or endless one is refused', () => {
    expect(splitAddress('tcp://h:1?prefix=a').prefix).toBe('a/');
    expect(() => splitAddress('tcp://h:1?prefix=%')).toThrow('malformed');
    expect(() => splitAddress(`tcp://h:1?prefix=${'a'.repeat(10_000)}`)).toThrow('too long');
  });
});

describe('an address of Redis', () => {
  it.each([
    ['redis://127.0.0.1:1?password=hunter2', '? means nothing in it'],
    ['redis://127.0.0.1:1/0?username=bob&password=hunter2', '? means nothing in it'],
    ['rediss://127.0.0.1:1?db=3', '? means nothing in it'],
    ['redis://127.0.0.1:1#hunter2', '# means nothing in it'],
    ['redis://127.0.0.1:1/hunter-2', 'its database is a number'],
    ['redis://:hunter2%@127.0.0.1:1', '% is written %25'],
    ['redis://:hunter2/@127.0.0.1:1', '/ is written %2F'],
  ])('%s is refused, without what may be a password', async (address, why) => {
    const refused = openStore(address, { timeoutMs: 300 });
    await expect(refused).rejects.toMatchObject({ code: 'invalid-argument' });
    await expect(refused).rejects.toThrow(why);
    await expect(refused).rejects.not.toThrow(/hunter2|bob/);
  });
});

it('a prefix in the address keeps groups of one store apart, and who joins by it hosts nothing', async () => {
  const server = await serveStore({ port: await freePort() });
  const address = joinAddress(server.endpoint, 'runs/one/');
  const other = joinAddress(server.endpoint, 'runs/two/');
  const join = async (name: string, store: string): Promise<RpcAgent> => {
    const agent = await createAgent({ name, store, membership: 'dynamic' });
    agents.push(agent);
    return agent;
  };
  const first = await join('first', address);
  const gateway = await join('gateway', address);
  const alone = await join('alone', other);
  expect([first.id, gateway.id, alone.id]).toEqual([0, 1, 0]);
  expect(gateway.run(() => getWorkerInfos().map(({ name }) => name))).toEqual(['first', 'gateway']);
  // Rank 0 of an address with a prefix does not try to serve another store at that place.
  const { store } = await openStore(address, { rank: 0 });
  expect([...(await store.list('backwire/')).keys()].length).toBeGreaterThan(0);
  await store.close();
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ graceful: false })));
  await server.close();
});
