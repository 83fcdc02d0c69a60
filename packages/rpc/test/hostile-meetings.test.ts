/** @file A member that comes to meetings which are not his: those of others go on, and are of all whom they name. */
import { afterEach, describe, expect, it } from 'vitest';
import { barrier, createAgent, rpcInfo, type RpcAgent } from '../src/index.ts';
import type { AgentParts } from '../src/inspection/agent-parts.ts';
import { ARRIVE } from '../src/protocol/meetings.ts';

const agents: RpcAgent[] = [];
let groups = 0;
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});

async function group(): Promise<void> {
  const store = `memory://hostile-meetings-${groups++}`;
  agents.push(
    ...(await Promise.all([0, 1, 2].map((rank) => createAgent({ name: `w${rank}`, rank, worldSize: 3, store })))),
  );
}

/** w2 comes to this meeting at w0, who collects. */
function forge(key: string, names: readonly string[]): Promise<unknown> {
  const { caller, members } = agents[2] as unknown as AgentParts;
  return new Promise((resolve) => {
    const form = { mode: 'value' as const, label: { kind: 'other' as const, name: ARRIVE }, defaultTimeoutMs: 0 };
    const args = [key, names, 'forged', 'all', false, 0, {}];
    caller.call(members.find('w0'), ARRIVE, args, {}, form, { resolve, reject: resolve });
  });
}

describe('a member that comes to meetings of its own making', () => {
  it.each([
    ['all', 'barrier\n*', ['w0', 'w2']],
    ['others', 'barrier\nw0\nw1', ['w0', 'w2']],
  ])('does not make a meeting of %s one without them', async (_, key, names) => {
    await group();
    void forge(key, names);
    await new Promise((resolve) => setTimeout(resolve, 100));
    const whom = key.endsWith('*') ? {} : { workers: ['w0', 'w1'] };
    const outcome = await agents[0]!
      .run(() => barrier({ ...whom, timeoutMs: 500 }))
      .then(
        () => 'went on',
        (error: unknown) => rpcInfo(error)?.code,
      );
    expect(outcome).toBe('deadline-exceeded');
  });
});
