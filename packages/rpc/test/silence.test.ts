/** @file Waits that last say who waits for whom and for which function; the text of a shutdown that gave up is a sentence. */
import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { nn, zeros } from '@backwire/tensor';
import { partReduces } from '@backwire/tensor/internal';
import { barrier, createAgent, processGroup, rpcAsync, rpcFunction, rpcInfo, type Logger } from '../src/index.ts';
import { freePort } from '@backwire/testing';
import { SILENCE_MS } from '../src/base/limits.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

vi.mock(import('../src/base/limits.ts'), async (original) => ({
  ...(await original()),
  SILENCE_MS: 200 as 10_000,
  SILENCE_AGAIN_MS: 400 as 60_000,
}));

const busy = rpcFunction('silence/busy', async (ms: number) => {
  // Does not look at its signal.
  await new Promise((resolve) => setTimeout(resolve, ms));
});

let cluster: Cluster;
const lines: string[] = [];
const note = (_: object, text: string): void => void lines.push(text);
const logger: Logger = { debug: () => undefined, info: () => undefined, warn: note, error: note };
async function group(size: number): Promise<void> {
  lines.length = 0;
  cluster = await startCluster(size, { logger });
}
const said = (text: RegExp): Promise<void> =>
  until(() => lines.some((line) => text.test(line)), `${text} in ${lines.join('\n')}`);
afterEach(() => cluster.close());

it('ten seconds are silence, in production', async () => {
  const real = await vi.importActual('../src/base/limits.ts');
  expect([real.SILENCE_MS, SILENCE_MS]).toEqual([10_000, 200]);
  await group(1);
});

describe('after a while', () => {
  it('a barrier beside a shutdown says so on both sides', async () => {
    await group(2);
    const met = cluster
      .at(0)
      .run(() => barrier())
      .catch(() => undefined);
    const ended = cluster
      .at(1)
      .shutdown({ timeoutMs: 5_000 })
      .catch(() => undefined);
    await said(/^worker 'w0' has waited \d+ s in barrier\(\) for worker 'w1', which waits in shutdown\(\)$/);
    await said(/^worker 'w1' has waited \d+ s in shutdown\(\) for worker 'w0', which waits in barrier\(\)$/);
    void met;
    await cluster.close();
    await ended;
  });

  it('a pass that waits at several members for the mean of a large gradient says so once', async () => {
    await group(3);
    const stop = new AbortController();
    const waits = [0, 1].map(async (rank) => {
      const inParts = partReduces.get(processGroup({ agent: cluster.at(rank) }).allReduce);
      await inParts?.(zeros([100_000]), { tags: { pass: 1 }, signal: stop.signal }).catch(() => undefined);
    });
    for (const worker of ['w0', 'w1'])
      await said(
        new RegExp(`^worker '${worker}' has waited \\d+ s in allReduce\\(\\) for worker 'w2', which has not called`),
      );
    expect(lines.filter((line) => line.includes('allReduce()'))).toHaveLength(2);
    stop.abort();
    await Promise.all(waits);
  });

  it('members that are at passes of different groups of replicas are told at which', async () => {
    await group(2);
    const replica = (rank: number): nn.DistributedDataParallel<nn.Linear> =>
      new nn.DistributedDataParallel(new nn.Linear(1, 1), { group: processGroup({ agent: cluster.at(rank) }) });
    const pairs = [0, 1].map((rank) => [replica(rank), replica(rank)] as const);
    const passes = pairs.map((pair, rank) => {
      const model = pair[rank as 0 | 1];
      return model.backward(model.forward(zeros([1, 1])).sum()).catch(() => undefined);
    });
    await said(
      /^worker 'w0' has waited \d+ s in allReduce\(\) of the group of replica 1 for worker 'w1', which waits in allReduce\(\) of the group of replica 2$/,
    );
    await cluster.close();
    await Promise.all(passes);
  });

  it('a worker that forgot to come to a shutdown is named, and to a barrier', async () => {
    await group(3);
    const ended = [1, 2].map((rank) =>
      cluster
        .at(rank)
        .shutdown({ timeoutMs: 5_000 })
        .catch(() => undefined),
    );
    await said(/^worker 'w1' has waited \d+ s in shutdown\(\) for worker 'w0', which has not called shutdown\(\)$/);
    await said(/^worker 'w2' has waited \d+ s in shutdown\(\) for worker 'w0', which has not called shutdown\(\)$/);
    await cluster.close();
    await Promise.all(ended);
    await group(3);
    const met = cluster
      .at(1)
      .run(() => barrier())
      .catch(() => undefined);
    await said(
      /^worker 'w1' has waited \d+ s in barrier\(\) for workers 'w0', 'w2', which have not called barrier\(\)$/,
    );
    await cluster.close();
    await met;
  });

  it('a worker that only serves waits in shutdown without a word as long as it has calls to serve', async () => {
    await group(2);
    const ended = cluster.at(1).shutdown();
    const until = performance.now() + 5 * SILENCE_MS;
    while (performance.now() < until) await cluster.at(0).run(() => rpcAsync('w1', busy, [SILENCE_MS / 8]));
    expect(lines).toEqual([]);
    await said(/^worker 'w1' has waited \d+ s in shutdown\(\) for worker 'w0', which has not called shutdown\(\)$/);
    await Promise.all([ended, cluster.at(0).shutdown()]);
  });

  it('a worker that joins names the ranks that are missing', async () => {
    await group(1);
    const alone = {
      name: 'early',
      rank: 1,
      worldSize: 4,
      store: 'memory://silence-join',
      initTimeoutMs: 2_000,
      logger,
    };
    const joined = createAgent(alone).catch((error: unknown) => error);
    await said(
      /^worker 'early' has waited \d+ s to join its group: 1 of 4 workers joined, missing ranks 0, 2, 3; the group has 4 because worldSize says so$/,
    );
    expect(await joined).toMatchObject({ code: 'deadline-exceeded' });
  });

  it('a worker whose name another has says who', async () => {
    await group(1);
    const two = { name: 'one', membership: 'dynamic', store: 'memory://silence-name', logger } as const;
    const first = await createAgent(two);
    const joined = createAgent({ ...two, initTimeoutMs: 1_000 }).catch((error: unknown) => error);
    await said(
      new RegExp(
        `^worker 'one' has waited \\d+ s to join its group: worker 'one' with id 0, process ${process.pid} on .+`,
      ),
    );
    expect(await joined).toMatchObject({ code: 'failed-precondition' });
    await first.shutdown();
  });

  it('a worker whose store does not answer names its address', async () => {
    await group(1);
    const store = `tcp://127.0.0.1:${await freePort()}`;
    const alone = { name: 'lost', rank: 1, worldSize: 2, store, initTimeoutMs: 1_000, logger };
    const joined = createAgent(alone).catch((error: unknown) => error);
    await said(
      new RegExp(
        `^worker 'lost' has waited \\d+ s for the store at ${store}: nobody answers there yet; .*rank 0 serves it$`,
      ),
    );
    expect(await joined).toMatchObject({ code: 'deadline-exceeded' });
  });

  it('a worker whose etcd does not answer is not sent to rank 0', async () => {
    await group(1);
    const store = `etcd://127.0.0.1:${await freePort()}`;
    const joined = createAgent({ name: 'lost', rank: 1, worldSize: 2, store, initTimeoutMs: 1_000, logger });
    const failed = joined.catch((error: unknown) => error);
    await said(new RegExp(`^worker 'lost' has waited \\d+ s for the store at ${store}: nobody answers there yet$`));
    expect(await failed).toMatchObject({ code: 'deadline-exceeded' });
  });

  it.skipIf(process.platform === 'win32')('nor is one whose file system does not answer', async () => {
    await group(1);
    const folder = mkdtempSync(join(tmpdir(), 'backwire-test-'));
    mkdirSync(join(folder, 'log'));
    // Whoever opens it to read waits for somebody who writes.
    const pipe = join(folder, 'log', '1'.padStart(16, '0'));
    execFileSync('mkfifo', [pipe]);
    const store = `file://${folder}`;
    const joined = createAgent({ name: 'lost', rank: 1, worldSize: 2, store, initTimeoutMs: 1_000, logger });
    const failed = joined.catch((error: unknown) => error);
    await said(
      new RegExp(`^worker 'lost' has waited \\d+ s for the store at ${store}: its file system does not answer$`),
    );
    expect(await failed).toMatchObject({ code: 'deadline-exceeded' });
    closeSync(openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK));
    rmSync(folder, { recursive: true, force: true });
  });

  it.each(['redis://me:pass%2Fword@', 'redis://:secret@'])(
    'the address of a store is shown without what is in %s',
    async (user) => {
      await group(1);
      const at = `127.0.0.1:${await freePort()}`;
      const alone = { name: 'lost', rank: 1, worldSize: 2, store: `${user}${at}/0`, initTimeoutMs: 1_000, logger };
      const joined = createAgent(alone).catch((error: unknown) => error);
      await said(/^worker 'lost' has waited \d+ s for the store at /);
      const error = String(await joined);
      for (const line of [...lines, error]) expect(line).not.toMatch(/secret|word/);
      expect(lines.join('')).toContain(`store at redis://${at}/0:`);
    },
  );

  it('an address that is none says how a password is written, and shows no part of it', async () => {
    await group(1);
    const store = 'redis://me:sec/ret@127.0.0.1:1/0';
    const error: unknown = await createAgent({ name: 'lost', rank: 1, worldSize: 2, store }).catch((e: unknown) => e);
    expect(String(error)).toMatch(/^RpcError: the store redis:\/\/127.0.0.1:1\/0 is no address; .* \/ is written %2F/);
    expect(rpcInfo(error)?.code).toBe('invalid-argument');
  });

  it('a handler that ignores its signal keeps a shutdown waiting, and is named on its worker', async () => {
    await group(2);
    const controller = new AbortController();
    const call = cluster.at(0).run(() => rpcAsync('w1', busy, [2_000], { signal: controller.signal }));
    const failed = expect(call).rejects.toThrow('cancelled');
    await until(() => cluster.at(1).debugInfo()['agent.server_active_calls'] === 1, 'the handler');
    controller.abort();
    await failed;
    const ended = [0, 1].map((rank) => cluster.at(rank).shutdown());
    await said(
      /^worker 'w1' has waited \d+ s in shutdown\(\) for its calls to end: 1 handler still runs here \('silence\/busy' for worker 'w0', [\d.]+ s, which was cancelled and does not heed its signal\)$/,
    );
    await said(
      /^worker 'w0' has waited \d+ s in shutdown\(\) for worker 'w1', whose calls are not over: its own output/,
    );
    await Promise.all(ended);
  });

  it('a handler whose caller is gone keeps a shutdown waiting too, and is named', async () => {
    await group(2);
    const call = cluster.at(0).run(() => rpcAsync('w1', busy, [5_000]));
    const failed = expect(call).rejects.toThrow();
    await until(() => cluster.at(1).debugInfo()['agent.server_active_calls'] === 1, 'the handler');
    await cluster.at(0).shutdown({ graceful: false });
    await failed;
    await until(() => cluster.at(1).debugInfo()['agent.peers'] === 0, 'w0 has left');
    const ended = cluster.at(1).shutdown();
    await said(
      /^worker 'w1' has waited \d+ s in shutdown\(\) for its calls to end: 1 handler still runs here \('silence\/busy' for worker 'w0', [\d.]+ s, which was cancelled and does not heed its signal\)$/,
    );
    await ended;
  });
});

it('before that, and when nothing is waited for, nothing is said', async () => {
  await group(3);
  await Promise.all(cluster.agents.map((agent) => agent.run(() => barrier())));
  await Promise.all(cluster.agents.map((agent) => agent.shutdown()));
  expect(lines).toEqual([]);
});

it('a shutdown that gave up says what was not over, in a sentence', async () => {
  await group(2);
  const call = cluster.at(0).run(() => rpcAsync('w1', busy, [3_000]));
  call.catch(() => undefined);
  await until(() => cluster.at(1).debugInfo()['agent.server_active_calls'] === 1, 'the handler');
  const errors = await Promise.all(
    [0, 1].map((rank) =>
      cluster
        .at(rank)
        .shutdown({ timeoutMs: 400 })
        .catch((error: unknown) => error),
    ),
  );
  expect(errors.map((error) => rpcInfo(error)?.code)).toEqual(['deadline-exceeded', 'deadline-exceeded']);
  expect((errors[0] as Error).message).toMatch(
    /shutdown did not end in 400 ms: (1 call waits for an answer \('silence\/busy' on worker 'w1', [\d.]+ s\)|.*w1)/,
  );
  expect((errors[1] as Error).message).toMatch(
    /shutdown did not end in 400 ms: 1 handler still runs here \('silence\/busy' for worker 'w0', [\d.]+ s\)/,
  );
});
