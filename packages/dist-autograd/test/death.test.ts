import { describe, expect, it } from 'vitest';
import { freePort, TestCluster, type WorkerProcess } from '@backwire/testing';
import { serveStore, type StoreServer } from '@backwire/rpc/internal';

const program = new URL('./death-worker.ts', import.meta.url);

/** Three processes or more, whose store outlives all of them. */
async function group(
  scenario: string,
  run: (workers: readonly WorkerProcess[]) => Promise<void>,
  worldSize = 3,
): Promise<void> {
  const port = await freePort();
  const store: StoreServer = await serveStore({ port, host: '127.0.0.1' });
  await using cluster = new TestCluster({
    program,
    worldSize,
    args: [scenario],
    env: { MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port), BACKWIRE_STORE_HOSTED: '1' },
  });
  try {
    await run(cluster.workers);
  } catch (error) {
    throw new Error(cluster.output(), { cause: error });
  } finally {
    await cluster.dispose();
    await store.close();
  }
}

describe('a process that is killed', { timeout: 90_000 }, () => {
  it('in the middle of a pass fails it, names itself, and leaves the context usable', async () => {
    await group('participant', async ([creator, , killed]) => {
      expect(await creator!.exited(60_000)).toMatchObject({ code: 0 });
      expect(await killed!.exited(1_000)).toMatchObject({ signal: 'SIGKILL' });
      expect(creator!.output('stdout').trim().split('\n')).toEqual([
        'failed peer-died w2 soon',
        'gradients 0',
        'again [2,2]',
        'w1 [0,0]',
      ]);
    });
  });

  it.each([
    ['one that was called from here', 'before-called', ['w1']],
    ['the last of a chain of calls', 'before-chained', ['w1']],
    ['one in the middle of a chain of calls', 'before-between', ['w1', 'w3']],
  ])('before a pass fails it: %s', async (_, scenario, left) => {
    await group(
      scenario,
      async ([creator, , killed]) => {
        expect(await creator!.exited(60_000)).toMatchObject({ code: 0 });
        expect(await killed!.exited(1_000)).toMatchObject({ signal: 'SIGKILL' });
        expect(creator!.output('stdout').trim().split('\n')).toEqual([
          'w2 peer-died',
          'failed peer-died w2 soon',
          'gradients 0',
          ...left.map((name) => `${name} [0,0]`),
          'w0 [0,0]',
        ]);
      },
      left.length + 2,
    );
  });

  it('before a pass fails it: two of four at once, each of the others for itself', async () => {
    await group(
      'before-two',
      async (workers) => {
        for (const [rank, worker] of workers.entries()) {
          const next = `w${rank + 1}`;
          expect(await worker.exited(60_000)).toMatchObject(rank % 2 === 0 ? { code: 0 } : { signal: 'SIGKILL' });
          if (rank % 2 === 0)
            expect(worker.output('stdout').trim().split('\n')).toEqual([
              `${next} peer-died`,
              `failed peer-died ${next} soon`,
              'gradients 0',
              `w${rank} [0,0]`,
            ]);
        }
      },
      4,
    );
  });

  it('as creator leaves no context on the others', async () => {
    await group('creator', async ([creator, ...others]) => {
      expect(await creator!.exited(60_000)).toMatchObject({ signal: 'SIGKILL' });
      for (const worker of others) {
        expect(await worker.exited(60_000)).toMatchObject({ code: 0 });
        expect(worker.output('stdout')).toContain('forgotten');
      }
    });
  });

  it('after it brought a third into a context does not keep the context there', async () => {
    await group('between', async ([creator]) => {
      expect(await creator!.exited(60_000)).toMatchObject({ code: 0 });
      expect(creator!.output('stdout').trim().split('\n')).toEqual([
        'before [0,1]',
        'w1 peer-died',
        'held [0,1]',
        'w2 [0,0]',
      ]);
    });
  });
});
