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

/** What the pass of a worker says when another one died. */
const failure = (rank: number, died: string): string =>
  `failed peer-died ${died}, Error on Node ${rank}: worker '${died}' died, soon`;

describe('a process that is killed', { timeout: 90_000 }, () => {
  it('in the middle of a pass fails it, names itself, and leaves the context usable', async () => {
    await group('participant', async ([creator, , killed]) => {
      expect(await creator!.exited(60_000)).toMatchObject({ code: 0 });
      expect(await killed!.exited(1_000)).toMatchObject({ signal: 'SIGKILL' });
      expect(creator!.output('stdout').trim().split('\n')).toEqual([
        failure(0, 'w2'),
        'gradients 0',
        'again [2,2]',
        'w1 [0,0]',
      ]);
    });
  });

  it.each([
    ['one that was called from here', 'before-called'],
    ['the last of a chain of calls', 'before-chained'],
  ])('before a pass fails it: %s', async (_, scenario) => {
    await group(scenario, async ([creator, , killed]) => {
      expect(await creator!.exited(60_000)).toMatchObject({ code: 0 });
      expect(await killed!.exited(1_000)).toMatchObject({ signal: 'SIGKILL' });
      expect(creator!.output('stdout').trim().split('\n')).toEqual([
        'w2 peer-died',
        failure(0, 'w2'),
        'gradients 0',
        'w1 [0,0]',
        'w0 [0,0]',
      ]);
    });
  });

  /** How each of four ended, and what it printed. */
  const ofFour = async (scenario: string): Promise<[end: unknown, lines: string[]][]> => {
    const seen: [unknown, string[]][] = [];
    const look = async (workers: readonly WorkerProcess[]): Promise<void> => {
      for (const worker of workers) {
        const { code, signal } = await worker.exited(60_000);
        seen.push([signal ?? code, worker.output('stdout').trim().split('\n')]);
      }
    };
    await group(scenario, look, 4);
    return seen;
  };

  it('before a pass fails it: one in the middle of a chain of calls, of which each of four has one', async () => {
    // Each of the chains comes to all four.
    const before = 'before [0,4]';
    const pass = ['w2 peer-died', failure(0, 'w2'), 'gradients 0'];
    expect(await ofFour('between-of-four')).toEqual([
      [0, [before, ...pass, 'w0 [0,0]']],
      [0, [before, 'w1 [0,0]']],
      ['SIGKILL', [before]],
      [0, [before, 'w3 [0,0]']],
    ]);
  });

  it('before a pass fails it: two of four at once, each of the others for itself', async () => {
    // Each has a context of its own and that of the one before it.
    const before = 'before [0,2]';
    const pass = (rank: number, next: string): string[] => [
      'w1 peer-died',
      'w3 peer-died',
      failure(rank, next),
      'gradients 0',
    ];
    expect(await ofFour('two-of-four')).toEqual([
      [0, [before, ...pass(0, 'w1'), 'w0 [0,0]']],
      ['SIGKILL', [before]],
      [0, [before, ...pass(2, 'w3'), 'w2 [0,0]']],
      ['SIGKILL', [before]],
    ]);
  });

  it('between the creator and one that is done with its part leaves no gradients of the failed pass there', async () => {
    await group('between-committed', async ([creator, killed]) => {
      expect(await creator!.exited(60_000)).toMatchObject({ code: 0 });
      expect(await killed!.exited(1_000)).toMatchObject({ signal: 'SIGKILL' });
      expect(creator!.output('stdout').trim().split('\n')).toEqual([
        failure(0, 'w1'),
        'gradients 0',
        'w2 keeps 0',
        'w2 [0,0]',
      ]);
    });
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
