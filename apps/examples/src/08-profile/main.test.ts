/** @file The example as two real processes, and profiling and autograd around the same call, in either order. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { add, randn, type Tensor } from '@backwire/tensor';
import { createAgent, rpcAsync, rpcFunction, type RpcAgent } from '@backwire/rpc';
import { remote, rrefs } from '@backwire/rref';
import { backward, context, distAutograd } from '@backwire/dist-autograd';
import { profile, profiling, type ProfileEvent } from '@backwire/profiler';
import { launched } from '../shared/launched.ts';

interface TraceEvent {
  readonly ph: string;
  readonly name: string;
  readonly pid: number;
}

it('prints a table of both workers and writes a trace with arrows between them', { timeout: 60_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'backwire-profile-'));
  try {
    const out = join(folder, 'trace.json');
    const { exitCode, output, report } = await launched(join(import.meta.dirname, 'main.ts'), {
      processes: 2,
      args: ['--out', out],
    });
    expect(report).toBeUndefined();
    expect(exitCode).toBe(0);
    for (const label of ['forward', 'backward', 'step'])
      expect(output).toMatch(new RegExp(`\\[rank0\\]: ${label} +0 `));
    const { traceEvents } = JSON.parse(readFileSync(out, 'utf8')) as { traceEvents: TraceEvent[] };
    expect(traceEvents.some(({ ph, name, pid }) => ph === 'X' && pid === 1 && name === 'aten::bmm')).toBe(true);
    const ends = (ph: string, pid: number): number =>
      traceEvents.filter((event) => event.ph === ph && event.pid === pid).length;
    // Forward, the backward pass, and the step of the optimizer at least.
    expect(ends('s', 0)).toBeGreaterThanOrEqual(3);
    expect(ends('f', 1)).toBe(ends('s', 0));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

describe('profiling with autograd', () => {
  const double = rpcFunction('profile.test/double', (x: Tensor) => x.add(x));
  let agents: RpcAgent[] = [];
  let counter = 0;
  afterEach(async () => {
    await Promise.all(agents.map((agent) => agent.shutdown()));
  });

  const pair = (): Promise<RpcAgent[]> => {
    const store = `memory://profile-${++counter}`;
    const extensions = () => [rrefs(), distAutograd(), profiling()];
    return Promise.all(
      [0, 1].map((rank) => createAgent({ name: `w${rank}`, rank, worldSize: 2, store, extensions: extensions() })),
    );
  };

  const train = async (outside: 'profile' | 'context'): Promise<readonly ProfileEvent[]> => {
    agents = await pair();
    const step = async (id: bigint): Promise<void> => {
      const y = await rpcAsync('w1', double, [randn([2, 2], { requiresGrad: true })]);
      await backward(id, [y.sum()]);
    };
    const run = async (): Promise<readonly ProfileEvent[]> =>
      outside === 'profile'
        ? (await profile(() => context(step))).profile.events()
        : context(async (id) => (await profile(() => step(id))).profile.events());
    return (agents[0] as RpcAgent).run(run);
  };

  it.each([
    ['user function', double, 'profile.test/double'],
    ['built-in operation', add, 'aten::add'],
  ] as const)('shows a %s that makes a remote value, on another worker and on this one', async (_, fn, name) => {
    agents = await pair();
    const { profile: found } = await (agents[0] as RpcAgent).run(() =>
      profile(async () => {
        for (const to of ['w1', 'w0']) {
          using value = remote(to, fn as typeof add, [randn([2, 2]), 1]);
          await value.confirmed();
        }
      }),
    );
    const event = (wanted: string): ProfileEvent | undefined => found.events().find((each) => each.name === wanted);
    expect(event(`rpc_remote#${name}(w0 -> w1)`)).toMatchObject({ node: 0, isRemote: false });
    expect(event(`rpc_remote#${name}(w0 -> w1)#remote_op: aten::add`)).toMatchObject({ node: 1, isRemote: true });
    expect(event(`rpc_remote#${name}(w0 -> w0)`)).toMatchObject({ node: 0, isRemote: false });
  });

  it.each(['profile', 'context'] as const)('wraps a call twice, with the %s outside', async (outside) => {
    const names = (await train(outside)).map(({ name }) => name);
    const call = 'rpc_async#profile.test/double(w0 -> w1)';
    expect(names).toContain(call);
    expect(names).toContain(`${call}#remote_op: aten::add`);
  });

  it('shows the functions of the backward pass, here and there', async () => {
    const backwards = (await train('profile')).filter(({ name }) => name.includes('Backward'));
    const at = (node: number): string[] =>
      backwards.filter((event) => event.node === node).map(({ name }) => name.split('#remote_op: ').at(-1) ?? '');
    expect(at(0)).toEqual(
      expect.arrayContaining([expect.stringContaining('Sum'), expect.stringContaining('RecvRpcBackward')]),
    );
    expect(at(1)).toEqual(
      expect.arrayContaining([expect.stringContaining('SendRpcBackward'), expect.stringContaining('Add')]),
    );
  });
});
