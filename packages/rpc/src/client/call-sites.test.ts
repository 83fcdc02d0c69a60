/** @file Every failed call names its function and worker, and where that is noted the line of the program that made it. */
import { afterEach, describe, expect, it } from 'vitest';
import { remoteFunction, rpcAsync, rpcFunction, rpcInfo, rpcStream, rpcSync, type RpcAgent } from '../index.ts';
import { RpcError } from '../base/errors.ts';
import { WorkerInfo } from '../base/worker-info.ts';
import { CallSiteBudget, CallSites, nameCall } from './call-sites.ts';
import { startCluster, until, type Cluster } from '../../test/cluster.ts';

const fails = rpcFunction('call-sites/fails', (): never => {
  throw new RangeError('too far');
});
class Odd extends Error {}
const failsOddly = rpcFunction('call-sites/oddly', (): never => {
  throw new Odd('odd');
});
const hangs = rpcFunction('call-sites/hangs', () => new Promise<void>(() => undefined));
const items = rpcFunction('call-sites/items', function* (): Generator<number> {
  yield 1;
  throw new RangeError('no more');
});
const nobodys = remoteFunction<() => void>('call-sites/nobodys');

let cluster: Cluster;
afterEach(() => cluster.close());
const first = (): RpcAgent => cluster.at(0);
const failure = async (run: () => Promise<unknown>): Promise<Error> =>
  (await first().run(() => run().catch((error: unknown) => error))) as Error;

const cases: [string, () => Promise<unknown>, string][] = [
  ['what the handler threw', () => rpcSync('w1', fails), 'call-sites/fails'],
  ['of a class that is not known here', () => rpcAsync('w1', failsOddly), 'call-sites/oddly'],
  ['that is too late', () => rpcSync('w1', hangs, [], { timeoutMs: 30 }), 'call-sites/hangs'],
  ['that is cancelled', () => rpcSync('w1', hangs, [], { signal: AbortSignal.timeout(30) }), 'call-sites/hangs'],
  ['that was cancelled before', () => rpcSync('w1', hangs, [], { signal: AbortSignal.abort() }), 'call-sites/hangs'],
  ['of a function that is not there', () => rpcSync('w1', nobodys), 'call-sites/nobodys'],
  ['with an argument that cannot travel', () => rpcSync('w1', fails, [() => 1] as never), 'call-sites/fails'],
  [
    'of a stream',
    async () => {
      for await (const _ of rpcStream('w1', items)) continue;
    },
    'call-sites/items',
  ],
];

describe('a failure', () => {
  it.each(cases)('%s names function and worker', async (what, run, name) => {
    cluster = await startCluster(2, { callSites: false });
    const error = await failure(run);
    expect(error.stack).toContain(`calling '${name}' on worker 'w1'`);
    // What fails while it is called has the line on its stack for nothing.
    const atOnce = /cancelled before|cannot travel/.test(what);
    expect(error.stack?.includes(' at your client/call-sites.test.ts:')).toBe(atOnce);
    const info = rpcInfo(error);
    if (info !== undefined && info === error && info.code !== 'remote-error') {
      expect(error.message).toContain(`'${name}'`);
      expect(error.message).toContain(`'w1'`);
    }
  });

  it.each(cases)('%s names the line that made the call', async (_what, run, name) => {
    cluster = await startCluster(2, { callSites: true });
    const error = await failure(run);
    expect(error.stack).toMatch(
      new RegExp(`calling '${name}' on worker 'w1' at your client/call-sites\\.test\\.ts:\\d+\\n    at `),
    );
  });

  it('of a worker that dies names both', async () => {
    cluster = await startCluster(2, { callSites: true });
    const waiting = failure(() => rpcSync('w1', hangs));
    await until(() => cluster.at(1).debugInfo()['agent.server_active_calls'] === 1, 'the handler');
    await cluster.at(1).shutdown({ graceful: false });
    const error = await waiting;
    expect(error.message).toContain("calling 'call-sites/hangs'");
    expect(error.stack).toMatch(/at your client\/call-sites\.test\.ts:\d+/);
  });
});

describe('by default', () => {
  const site = / at your client\/call-sites\.test\.ts:\d+\n {4}at /;

  it('every failure names the line', async () => {
    cluster = await startCluster(2);
    for (const [what, run] of cases) expect((await failure(run)).stack, what).toMatch(site);
  });

  it('two hundred calls a second note their line, and the others say how to have it', () => {
    const sites = new CallSites(undefined, new CallSiteBudget());
    const noted = (now: number, calls: number): number => {
      let count = 0;
      for (let i = 0; i < calls; i++) if (sites.note(noted, now)?.stack !== undefined) count++;
      return count;
    };
    expect(noted(5, 199)).toBe(199);
    expect(noted(1_004, 2)).toBe(1);
    expect(noted(1_005, 201)).toBe(200);
    const error = new RpcError('unavailable', 'gone');
    nameCall(error, 'f', new WorkerInfo('w1', 1), sites.note(noted, 1_006));
    expect(error.stack).toContain(
      "calling 'f' on worker 'w1' (one of so many that its line was not noted; callSites: true notes all)",
    );
  });
});

it('what a handler threw keeps its message', async () => {
  cluster = await startCluster(2);
  expect((await failure(() => rpcSync('w1', fails))).message).toBe('too far');
});

it('a worker that there is not is answered with those that there are', async () => {
  cluster = await startCluster(3);
  const error = await failure(() => rpcSync('w7', hangs));
  expect(error.message).toContain('could not find destination');
  expect(error.message).toContain("the workers of the group are 'w0', 'w1', 'w2'");
});
