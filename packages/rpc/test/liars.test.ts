/** @file A member that says untrue things of others: while the store answers, one member's word puts nobody out. */
import { afterEach, describe, expect, it } from 'vitest';
import { MessageType } from '@backwire/wire/internal';
import { createAgent, rpcFunction, rpcSync, type RpcAgent } from '../src/index.ts';
import type { Agent } from '../src/agent/agent.ts';
import { encodeReport } from '../src/membership/report-codec.ts';
import { lifeOf, type View } from '../src/protocol/membership.ts';
import type { Report } from '../src/protocol/opinions.ts';

const echo = rpcFunction('liars/echo', (n: number) => n);
const agents: RpcAgent[] = [];
let groups = 0;
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});

/** Four members of which the last has links to the others, and what they have been told of one another. */
async function group(): Promise<string[]> {
  const store = `memory://liars-${groups++}`;
  const told: string[] = [];
  agents.push(
    ...(await Promise.all([0, 1, 2, 3].map((rank) => createAgent({ name: `w${rank}`, rank, worldSize: 4, store })))),
  );
  for (const agent of agents) {
    agent.on('peer-down', ({ name }) => told.push(`${agent.name}: ${name} is down`));
    agent.on('fenced', () => told.push(`${agent.name} is fenced`));
  }
  for (const [from, to] of [
    [3, 1],
    [3, 2],
    [1, 2],
  ] as const)
    await call(from, to);
  return told;
}

function call(from: number, to: number): Promise<number> {
  return agents[from]!.run(() => rpcSync(`w${to}`, echo, [to]));
}

function viewOf(rank: number): View {
  const { members } = agents[rank] as unknown as { members: { options: { membership: { stored: View } } } };
  return members.options.membership.stored;
}

/** The last member says this to another, of the view that the store has and of one of its own making. */
function lie(to: string, change: Partial<Report>, view?: View): void {
  const nothing = { store: true, hears: [], doubts: [], proved: [], gone: [], decided: [], confirmed: [], asks: false };
  const stored = viewOf(3);
  const report = { epoch: (view ?? stored).epoch, ...nothing, ...change };
  const { sender } = (agents[3] as Agent).members.find(to);
  sender.sendControl(MessageType.REPORT, encodeReport(report, stored, view));
}

async function everybodyIsThere(told: readonly string[]): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  expect(told).toEqual([]);
  expect(await Promise.all([call(1, 2), call(0, 2), call(2, 0), call(2, 1)])).toEqual([2, 2, 0, 1]);
  expect([0, 1, 2, 3].map((rank) => viewOf(rank).members.length)).toEqual([4, 4, 4, 4]);
}

describe('a member that says', () => {
  it.each(['decided', 'gone', 'proved', 'doubts', 'confirmed'] as const)(
    'that another is among its %s changes nothing for anybody',
    async (word) => {
      const told = await group();
      const accused = viewOf(3).members.find(({ name }) => name === 'w2')!;
      for (const to of ['w0', 'w1']) lie(to, { [word]: [lifeOf(accused)] });
      await everybodyIsThere(told);
    },
  );

  it('that the store has a later view without another changes nothing for anybody', async () => {
    const told = await group();
    const stored = viewOf(3);
    const members = stored.members.filter(({ name }) => name !== 'w2');
    for (const to of ['w0', 'w1', 'w2']) lie(to, {}, { ...stored, epoch: stored.epoch + 1_000_000, members });
    await everybodyIsThere(told);
    // And what is true is heard of as ever.
    await agents.splice(2, 1)[0]!.shutdown({ graceful: false });
    await expect.poll(() => [0, 1, 2].map((rank) => viewOf(rank).members.length)).toEqual([3, 3, 3]);
  });
});
