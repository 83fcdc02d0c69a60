/** @file Who watches or follows calls may break, and so may what comes after an answer: the calls end as ever, once, and the connection stays. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Agent } from '../src/agent/agent.ts';
import { rpcAsync, rpcFunction, rpcOneway, rpcStream, type Extension, type Logger } from '../src/index.ts';
import type { CallObserver } from '../src/base/observed-call.ts';
import type { Outgoing } from '../src/extensions/extension.ts';
import { startCluster, until, type Cluster } from './cluster.ts';

const next =
  () =>
  (x: number): number =>
    x + 1;
const later =
  () =>
  async (x: number): Promise<number> => {
    await Promise.resolve();
    return x + 1;
  };
const called = {
  'at once': rpcFunction('broken-watchers/at-once', next()),
  later: rpcFunction('broken-watchers/later', later()),
  'in a scope': rpcFunction('broken-watchers/in-scope', next(), { scope: true }),
  'in a scope, later': rpcFunction('broken-watchers/in-scope-later', later(), { scope: true }),
};
const fails = rpcFunction('broken-watchers/fails', (_: number): number => {
  throw new RangeError('no');
});
const count = rpcFunction('broken-watchers/count', function* (to: number) {
  for (let i = 0; i < to; i++) yield i;
});
const kinds = Object.entries(called);
const breaks = (): never => {
  throw new Error('the watcher is broken');
};

let cluster: Cluster;
const lines: string[] = [];
const note = (about: object, text: string): void => void lines.push(`${text} ${JSON.stringify(about)}`);
const logger: Logger = { debug: () => undefined, info: () => undefined, warn: note, error: note };
async function start(extensions: Extension[] = []): Promise<void> {
  lines.length = 0;
  cluster = await startCluster(2, { logger, extensions, transports: ['tcp'] });
}
afterEach(() => cluster.close());

const active = (): number => cluster.at(1).debugInfo()['agent.server_active_calls'] as number;
const call = (
  fn: (typeof called)['at once'] | (typeof called)['later'] | typeof fails,
  options: object = {},
): Promise<unknown> => cluster.at(0).run(() => rpcAsync('w1', fn, [1], { timeoutMs: 5_000, ...options }));

describe('observers that throw', () => {
  const whole: CallObserver = { called: breaks, settled: breaks, handling: breaks, handled: breaks };

  it.each(kinds)('keep no call from ending: one that is answered %s', async (_, fn) => {
    await start();
    for (const agent of cluster.agents) (agent as unknown as Agent).observers.add(whole);
    expect(await call(fn)).toBe(2);
    expect(await call(fn, { idempotencyKey: 'once' })).toBe(2);
    await until(() => active() === 0, 'the handlers are over');
    expect(new Set(lines)).toEqual(new Set(['one that watches calls failed {"error":{}}']));
  });

  it('nor one that fails, streams or wants no answer', async () => {
    await start();
    for (const agent of cluster.agents) (agent as unknown as Agent).observers.add(whole);
    await expect(call(fails)).rejects.toThrow('no');
    const items: number[] = [];
    for await (const item of cluster.at(0).run(() => rpcStream('w1', count, [3]))) items.push(item);
    expect(items).toEqual([0, 1, 2]);
    cluster.at(0).run(() => rpcOneway('w1', called.later, [1]));
    await until(() => active() === 0, 'the handlers are over');
  });
});

describe('an extension that follows calls, and throws', () => {
  const heard: unknown[] = [];
  const well: Extension = {
    name: 'well',
    attach: () => ({
      request: (one) => ({ ...one, settled: ({ error }: { error?: unknown }) => heard.push(error) }) as Outgoing,
    }),
  };
  const broken: Extension = {
    name: 'broken',
    attach: () => ({ request: (one) => ({ ...one, settled: breaks, started: breaks }) as Outgoing }),
  };

  it.each([[[well, broken]], [[broken, well]]])(
    'keeps neither the call nor another that follows it from the end',
    async (both) => {
      heard.length = 0;
      await start(both);
      for (const [, fn] of kinds) expect(await call(fn)).toBe(2);
      await expect(call(fails)).rejects.toThrow('no');
      cluster.at(0).run(() => rpcOneway('w1', called.later, [1]));
      expect(heard).toHaveLength(kinds.length + 2);
      expect(cluster.at(0).debugInfo()['agent.client_active_calls']).toBe(0);
    },
  );
});

it('what breaks after an answer is logged, and no second answer', async () => {
  await start();
  const { handlers } = (cluster.at(1) as unknown as Agent).dispatcher;
  const second = vi.spyOn(handlers.answers, 'error');
  vi.spyOn(handlers.answers, 'credit').mockImplementationOnce(breaks);
  expect(await call(called['in a scope, later'])).toBe(2);
  await until(() => active() === 0, 'the handler is over');
  expect(second).not.toHaveBeenCalled();
  expect(lines).toEqual(['a call failed after its answer {"error":{},"name":"broken-watchers/in-scope-later"}']);
});
