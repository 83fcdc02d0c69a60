/** @file What programs get wrong at first is answered with what to write instead. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { rpcName } from '@backwire/tensor';
import {
  createAgent,
  currentAgent,
  initRpc,
  rpcClass,
  rpcFunction,
  rpcSync,
  shutdown,
  type RpcAgent,
} from '../src/index.ts';
import { Inspector } from '../src/internal.ts';
import { openStore } from '../src/stores/open.ts';

const agents: RpcAgent[] = [];
afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ graceful: false })));
});
const failure = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'no failure',
    (error: unknown) => (error as Error).message,
  );
const loose = <T>(given: unknown): T => given as T;

describe('initRpc()', () => {
  it('that is not awaited says so to the call behind it, and to a second one', async () => {
    const starting = initRpc({ name: 'w0', worldSize: 1, store: 'memory://first-steps-init' });
    expect(() => currentAgent()).toThrow('RPC has not been initialized: initRpc() has not ended yet, await it first');
    expect(await failure(initRpc({ name: 'w1', worldSize: 1, store: 'memory://first-steps-init' }))).toContain(
      'RPC is already initialized: initRpc() has been called; createAgent() makes further agents',
    );
    await starting;
    await shutdown();
    expect(() => currentAgent()).toThrow('RPC has not been initialized. Call initRpc() first.');
  });

  it('of several workers with one name says how each gets its own', async () => {
    const one = { name: 'worker', worldSize: 2, store: 'memory://first-steps-names' };
    const errors = await Promise.all([0, 1].map((rank) => failure(createAgent({ ...one, rank }))));
    for (const error of errors)
      expect(error).toContain('share the same name. Give each its own, as in name: `worker${process.env.RANK}`');
  });

  it('in a group that does not fill up says why it is so large', async () => {
    const alone = { name: 'w0', rank: 0, worldSize: 3, store: 'memory://first-steps-size', initTimeoutMs: 300 };
    expect(await failure(createAgent(alone))).toContain(
      '1 of 3 workers joined, missing ranks 1, 2; the group has 3 because worldSize says so',
    );
  });

  it.each([
    ['127.0.0.1:29500', "did you mean 'tcp://127.0.0.1:29500'?"],
    ['localhost:29500?prefix=runs/1/', "did you mean 'tcp://localhost:29500'?"],
    ['http://localhost:29500', "did you mean 'tcp://localhost:29500'?"],
    ['./shared', "did you mean 'file:///"],
    ['pigeon', 'there are memory://name, tcp://host:port, '],
  ])('with the store %s says how its address is written', async (address, text) => {
    expect(await failure(openStore(address))).toContain(text);
  });
});

describe('a definition', () => {
  it('of a class names the method that was meant', () => {
    class Model {
      static readonly [rpcName] = 'first-steps/Model';
      static load(): number {
        return 1;
      }
      forward(): number {
        return 1;
      }
    }
    expect(() => rpcClass(Model, { methods: loose(['forwrad']) })).toThrow(
      "class 'first-steps/Model' has no method 'forwrad'; did you mean 'forward'?",
    );
    expect(() => rpcClass(Model, { methods: loose(['other']) })).toThrow(/has no method 'other' \[/);
    expect(() => rpcClass(Model, { methods: [], statics: ['laod'] })).toThrow(
      "class 'first-steps/Model' has no static method 'laod'; did you mean 'load'?",
    );
  });

  it('without a name says where it goes, and shows no code', () => {
    const define = loose<(...given: unknown[]) => unknown>(rpcFunction);
    expect(() => define((x: number) => x + 1_234)).toThrow(
      "a definition needs a name of 1 to 512 characters, got an anonymous function: rpcFunction('name', fn)",
    );
  });
});

it('a call of what a function returned says to give the function', async () => {
  agents.push(await createAgent({ name: 'w0', worldSize: 1, store: 'memory://first-steps-call' }));
  const count = rpcFunction('first-steps/count', function* (): Generator<number> {
    yield 1;
  });
  const sync = loose<(to: string, fn: unknown) => Promise<unknown>>(rpcSync);
  const call = (fn: unknown): Promise<string> =>
    failure(Promise.resolve().then(() => agents[0]?.run(() => sync('w0', fn))));
  const advice = 'give the function itself, and its arguments as a list: rpcSync(to, fn, [1, 2])';
  expect(await call(count())).toContain(`function should be callable. Got a Generator: ${advice}`);
  expect(await call(Promise.resolve(1))).toContain(`function should be callable. Got a Promise: ${advice}`);
});

it('a warning without details ends with its sentence', async () => {
  const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  const agent = await createAgent({ name: 'w0', worldSize: 1, store: 'memory://first-steps-logger' });
  agents.push(agent);
  const { logger } = agent as unknown as { logger: { warn(o: object, m: string): void } };
  logger.warn({}, 'a sentence');
  logger.warn({ n: 1 }, 'another');
  expect(warn.mock.calls).toEqual([['[backwire w0] a sentence'], ['[backwire w0] another {"n":1}']]);
  warn.mockRestore();
});

it('who looks into a store at the wrong place is told where the groups are', async () => {
  const store = 'memory://first-steps-prefix';
  expect(await failure(Inspector.open({ endpoint: store }))).toMatch(/^the store holds no group yet \[/);
  agents.push(await createAgent({ name: 'w0', worldSize: 1, store: `${store}?prefix=backwire/runs/job/x/0/` }));
  expect(await failure(Inspector.open({ endpoint: store }))).toContain(
    'the store holds no group there, but one at ?prefix=backwire/runs/job/x/0/: `backwire run` prints the whole address',
  );
});
