/** @file What a message may hold: ordinary results pass; what does not names function, side and option, the same way for arguments and results. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { rpcName, tensor, zeros } from '@backwire/tensor';
import { DEFAULT_LIMITS, type Limits } from '../src/base/options.ts';
import { rpcFunction, rpcInfo, rpcStream, rpcSync, type RpcError } from '../src/index.ts';
import { startCluster, type Cluster } from './cluster.ts';

const row = (i: number): object => ({ id: i, name: `row ${i}`, score: i / 3, tags: ['a', 'b'] });
const rows = rpcFunction('message-limits/rows', (count: number) => Array.from({ length: count }, (_, i) => row(i)));
const count = rpcFunction('message-limits/count', (list: readonly unknown[]) => list.length);
const length = rpcFunction('message-limits/length', (text: string) => text.length);
const text = rpcFunction('message-limits/text', (size: number) => 'x'.repeat(size));
const nested = rpcFunction('message-limits/nested', (depth: number) => nest(depth));
const rowStream = rpcFunction('message-limits/stream', function* (size: number): Generator<unknown> {
  yield Array.from({ length: size }, (_, i) => `${i}`);
});
function oddValue(kind: string): unknown {
  if (kind === 'tensors') return Array.from({ length: 65_536 }, () => tensor([1]));
  return kind === 'bigint' ? { big: 10n ** 20_000n } : { ['k'.repeat(5_000)]: 1 };
}
const odd = rpcFunction('message-limits/odd', oddValue);
const zeroes = rpcFunction('message-limits/zeros', (size: number) => zeros([size]));
const ignore = rpcFunction('message-limits/ignore', (_: unknown) => undefined);
class Unregistered {
  readonly x = 1;
}
const unsendable = rpcFunction('message-limits/unsendable', (): unknown => ({ list: [new Unregistered()] }));
const closure = rpcFunction('message-limits/closure', (): unknown => () => 1);

function nest(depth: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

let cluster: Cluster;
const call = <T>(run: () => Promise<T>): Promise<T> => cluster.at(0).run(run);
const failure = async (run: () => Promise<unknown>): Promise<RpcError> =>
  rpcInfo(await call(() => run().catch((error: unknown) => error))) as RpcError;

describe('by default', { timeout: 120_000 }, () => {
  beforeAll(async () => {
    cluster = await startCluster(2);
  });
  afterAll(() => cluster.close());

  it('thirty thousand small rows pass both ways, and a million values', async () => {
    const many = await call(() => rpcSync('w1', rows, [30_000]));
    expect([many.length, many[29_999]]).toEqual([30_000, row(29_999)]);
    expect(await call(() => rpcSync('w1', count, [many]))).toBe(30_000);
    const million = Array.from({ length: 1_000_000 }, (_, i) => `${i % 10}`);
    expect(await call(() => rpcSync('w1', count, [million]))).toBe(1_000_000);
  });

  it('strings of 20 MiB pass both ways', async () => {
    const size = 20 * 1024 * 1024;
    expect((await call(() => rpcSync('w1', text, [size]))).length).toBe(size);
    expect(await call(() => rpcSync('w1', length, ['y'.repeat(size)]))).toBe(size);
  });

  it('what no option changes says what to do instead, the same for arguments and results', async () => {
    const cases: [string, string, string][] = [
      ['tensors', '65536 tensors, and a message holds at most 65535: stack them, or make several calls', ''],
      ['bigint', 'a bigint{at} of more than 54427 bits: give it as text or bytes', '.big'],
      [
        'key',
        'a key{at} of 5000 bytes, and one has at most 4096: make it a value, or use a Map',
        `.${'k'.repeat(40)}…`,
      ],
    ];
    for (const [kind, why, place] of cases) {
      const result = await failure(() => rpcSync('w1', odd, [kind]));
      const at = (root: string): string => why.replace('{at}', root + place === '$' ? '' : ` at ${root}${place}`);
      expect(result.message).toContain(`the result of 'message-limits/odd' for worker 'w0' cannot be sent: ${at('$')}`);
      const args = await failure(() => rpcSync('w1', ignore, [oddValue(kind)]));
      expect(args.message).toContain(
        `the arguments of 'message-limits/ignore' for worker 'w1' cannot be sent: ${at('$[0]')}`,
      );
      expect([result.code, args.code]).toEqual(['resource-exhausted', 'resource-exhausted']);
    }
  });

  it('the number of values is what the bytes of a frame allow', () => {
    expect(DEFAULT_LIMITS.maxValues * 64).toBe(DEFAULT_LIMITS.maxFrameBytes);
    expect(DEFAULT_LIMITS.maxValues).toBeGreaterThan(1_000_000);
  });
});

describe('a limit of one worker', () => {
  afterEach(() => cluster.close());
  const list = (size: number): string[] => Array.from({ length: size }, (_, i) => `${i}`);

  const cases: [keyof Limits, number, () => Promise<unknown>, () => Promise<unknown>][] = [
    ['maxValues', 100, () => rpcSync('w1', count, [list(98)]), () => rpcSync('w1', count, [list(99)])],
    [
      'maxStringBytes',
      100,
      () => rpcSync('w1', length, ['x'.repeat(100)]),
      () => rpcSync('w1', length, ['x'.repeat(101)]),
    ],
    ['maxDepth', 5, () => rpcSync('w1', length, [nest(4) as string]), () => rpcSync('w1', length, [nest(5) as string])],
  ];
  it.each(cases)('%s: arguments that its own side or the other does not take', async (option, limit, good, bad) => {
    for (const limited of [0, 1]) {
      cluster = await startCluster(2, (rank) => (rank === limited ? { limits: { [option]: limit } } : {}));
      await call(good);
      const error = await failure(bad);
      expect(error).toMatchObject({ code: 'resource-exhausted', executed: 'no', retryable: false });
      expect(error.message).toMatch(/the arguments of 'message-limits\/(count|length)'/);
      expect(error.message).toContain(`limits.${option} of worker 'w${limited}' is ${limit}`);
      await call(good);
      if (limited === 0) await cluster.close();
    }
  });

  const results: [keyof Limits, number, () => Promise<unknown>, () => Promise<unknown>][] = [
    ['maxValues', 100, () => rpcSync('w1', rows, [10]), () => rpcSync('w1', rows, [20])],
    ['maxStringBytes', 100, () => rpcSync('w1', text, [100]), () => rpcSync('w1', text, [101])],
    ['maxDepth', 5, () => rpcSync('w1', nested, [5]), () => rpcSync('w1', nested, [6])],
    ['maxFrameBytes', 65_536, () => rpcSync('w1', text, [65_000]), () => rpcSync('w1', text, [66_000])],
  ];
  it.each(results)('%s: results, under the same code', async (option, limit, good, bad) => {
    // The reader of a frame that is too large ends the connection, so that one is for the writer to know.
    for (const limited of option === 'maxFrameBytes' ? [1] : [0, 1]) {
      cluster = await startCluster(2, (rank) => (rank === limited ? { limits: { [option]: limit } } : {}));
      await call(good);
      const error = await failure(bad);
      expect(error).toMatchObject({ code: 'resource-exhausted', executed: 'yes', retryable: false });
      expect(error.message).toMatch(/the result of 'message-limits\/(rows|text|nested)'/);
      expect(error.message).toContain(`limits.${option} of worker 'w${limited}' is ${limit}`);
      await call(good);
      if (limited === 0) await cluster.close();
    }
  });

  it('maxMessageBytes: tensors either way, by whichever side knows first', async () => {
    for (const limited of [0, 1]) {
      cluster = await startCluster(2, (rank) => (rank === limited ? { limits: { maxMessageBytes: 8_000 } } : {}));
      const bound = `message of 12000 bytes, and limits.maxMessageBytes of worker 'w${limited}' is 8000`;
      for (const [fn, value, what, executed] of [
        [ignore, zeros([3_000]), 'the arguments', 'no'],
        [zeroes, 3_000, 'the result', 'yes'],
      ] as const) {
        const error = await failure(() => rpcSync('w1', fn as typeof ignore, [value]));
        expect(error).toMatchObject({ code: 'resource-exhausted', executed, retryable: false });
        expect(error.message).toContain(what);
        expect(error.message.replace('storage', 'message')).toContain(bound);
        expect(error.message).toContain(fn[rpcName]);
      }
      if (limited === 0) await cluster.close();
    }
  });

  it('an item of a stream too', async () => {
    cluster = await startCluster(2, (rank) => (rank === 1 ? { limits: { maxValues: 50 } } : {}));
    const read = async (): Promise<void> => {
      for await (const _ of rpcStream('w1', rowStream, [60]));
    };
    const error = await failure(read);
    expect(error).toMatchObject({ code: 'resource-exhausted' });
    expect(error.message).toContain("an item of 'message-limits/stream'");
  });
});

describe('what cannot travel', () => {
  beforeAll(async () => {
    cluster = await startCluster(2);
  });
  afterAll(() => cluster.close());

  it.each([
    [
      'an instance',
      unsendable,
      "the result of 'message-limits/unsendable' for worker 'w0': cannot send an instance of class Unregistered at $.list[0]",
    ],
    ['a function', closure, "the result of 'message-limits/closure' for worker 'w0': cannot send a function"],
  ])('in a result is named as the result: %s', async (_what, fn, words) => {
    const error: unknown = await call(() => rpcSync('w1', fn).catch((reason: unknown) => reason));
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message).toContain(words);
    expect(rpcInfo(error)?.executed).toBe('yes');
  });

  it('in arguments is named as the arguments', async () => {
    const error: unknown = await call(() => rpcSync('w1', count, [[new Unregistered()]]).catch((e: unknown) => e));
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message).toContain(
      "the arguments of 'message-limits/count' for worker 'w1': cannot send an instance of class Unregistered at $[0][0]",
    );
  });
});
