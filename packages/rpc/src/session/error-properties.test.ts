/** @file What errors bring along from the worker that threw them: their properties, their causes, and what a thrown object says. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tensor } from '@backwire/tensor';
import { errorProto, decodeProto, encodeProto } from '@backwire/wire/internal';
import { encodeValue } from '@backwire/wire';
import { decodeFailure, encodeThrown } from './error-codec.ts';
import { registerErrorType, RemoteError, RpcError, rpcFunction, rpcInfo, rpcStream, rpcSync } from '../index.ts';
import { MAX_ERROR_CAUSES, MAX_ERROR_DETAILS, MAX_ERROR_PROPERTIES } from '../base/limits.ts';
import { WorkerInfo } from '../base/worker-info.ts';
import { startCluster, type Cluster } from '../../test/cluster.ts';

class Quota extends Error {
  readonly limit: number;
  constructor(message: string, limit = 0) {
    super(message);
    this.limit = limit;
  }
}
class Unknown extends Error {
  readonly code = 'E_UNKNOWN';
  readonly status = 418;
}
class Point {
  x = 1;
}
registerErrorType(Quota);

const circle = new Error('a', { cause: new Error('b') });
(circle.cause as Error).cause = circle;
const thrown: Record<string, () => unknown> = {
  plain: () =>
    Object.assign(new Error('no file'), { code: 'ENOENT', errno: -2, at: new Date(5), path: ['a', { b: 1n }] }),
  registered: () => Object.assign(new Quota('full', 7), { name: 'Renamed' }),
  unknown: () => new Unknown('who'),
  caused: () =>
    new TypeError('outer', {
      cause: Object.assign(new RangeError('middle', { cause: new Unknown('inner') }), { n: 1 }),
    }),
  'caused by a value': () => new Error('x', { cause: { reason: 'none', list: [1] } }),
  'caused by a point': () => new Error('x', { cause: new Point() }),
  circle: () => circle,
  'no values': () =>
    Object.assign(new Error('x'), {
      fn: () => 1,
      point: new Point(),
      t: tensor([1]),
      socket: { deep: { point: new Point() } },
      kept: 1,
      get bad(): number {
        return 1;
      },
    }),
  'a getter that throws': () =>
    Object.defineProperties(new Error('x'), {
      bad: {
        enumerable: true,
        get: () => {
          throw new Error('unreadable');
        },
      },
      good: { enumerable: true, value: 2 },
    }),
  large: () =>
    Object.assign(new Error('x'), { big: 'x'.repeat(10_000_000), list: new Uint8Array(1_000_000), small: 1 }),
  many: () => Object.assign(new Error('x'), Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`p${i}`, i]))),
  nasty: () =>
    Object.defineProperty(Object.assign(new Error('x'), { toString: 1, then: 2, constructor: 3, ok: 4 }), '__proto__', {
      value: { p: 1 },
      enumerable: true,
    }),
  object: () => ({ code: 7, why: 'gone' }),
  'an instance': () => new Point(),
  list: () => [1, 'two'],
  number: () => 42,
  'an object with a text': () => ({ toString: () => 'my text' }),
};
const fail = rpcFunction('error-properties/fail', (what: string): number => {
  throw thrown[what]?.();
});
const items = rpcFunction('error-properties/items', function* (what: string): Generator<number> {
  yield 1;
  throw thrown[what]?.();
});
const onward = rpcFunction('error-properties/onward', (what: string) => rpcSync('w0', fail, [what]));

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(2);
});
afterAll(() => cluster.close());

async function failure(what: string): Promise<Error & Record<string, unknown>> {
  const error: unknown = await cluster.at(0).run(() => rpcSync('w1', fail, [what]).catch((reason: unknown) => reason));
  return error as Error & Record<string, unknown>;
}
const remoteOf = (error: unknown): RemoteError => rpcInfo(error) as RemoteError;

describe('an error keeps its own enumerable properties', () => {
  it('when its class is standard', async () => {
    const error = await failure('plain');
    expect(error).toMatchObject({
      message: 'no file',
      code: 'ENOENT',
      errno: -2,
      at: new Date(5),
      path: ['a', { b: 1n }],
    });
    expect(remoteOf(error).properties).toEqual({ code: 'ENOENT', errno: -2, at: new Date(5), path: ['a', { b: 1n }] });
    expect(remoteOf(error).code).toBe('remote-error');
  });

  it('when its class is registered, and a name that it was given', async () => {
    const error = await failure('registered');
    expect(error).toBeInstanceOf(Quota);
    expect([error['limit'], error.name]).toEqual([7, 'Renamed']);
  });

  it('when its class is not known: beside the code of the system', async () => {
    const error = await failure('unknown');
    expect(error).toBeInstanceOf(RemoteError);
    expect(error).toMatchObject({ code: 'remote-error', remoteName: 'Unknown', status: 418 });
    expect(remoteOf(error).properties).toEqual({ code: 'E_UNKNOWN', status: 418 });
  });

  it('in the middle of a stream, and over two hops', async () => {
    const read = async (): Promise<void> => {
      for await (const _ of rpcStream('w1', items, ['plain']));
    };
    await expect(cluster.at(0).run(read)).rejects.toMatchObject({ code: 'ENOENT' });
    const twice: unknown = await cluster.at(0).run(() => rpcSync('w1', onward, ['plain']).catch((e: unknown) => e));
    expect(twice).toMatchObject({ code: 'ENOENT', errno: -2 });
  });

  it('only those that are values', async () => {
    expect(remoteOf(await failure('no values')).properties).toEqual({ kept: 1, bad: 1 });
    expect(remoteOf(await failure('a getter that throws')).properties).toEqual({ good: 2 });
  });

  it('up to a bound', async () => {
    expect(remoteOf(await failure('large')).properties).toEqual({ small: 1 });
    expect(Object.keys(remoteOf(await failure('many')).properties)).toHaveLength(MAX_ERROR_PROPERTIES);
    expect(encodeThrown(thrown['large']?.()).length).toBeLessThan(MAX_ERROR_DETAILS);
  });

  it('none that would change what an error is', async () => {
    const error = await failure('nasty');
    expect(String(error)).toBe('Error: x');
    expect([error['ok'], error['then'], error.constructor]).toEqual([4, undefined, Error]);
    expect((error as { p?: unknown }).p).toBeUndefined();
    const peer = new WorkerInfo('liar', 1);
    const evil = encodeValue({ toString: 1, message: 'other', stack: 's', then: 2, name: 5, ok: 4 }).bytes;
    const forged = { ...decodeProto(errorProto.Error, encodeThrown(new Error('x')), 'error'), properties: evil };
    const read = decodeFailure(encodeProto(errorProto.Error, forged), peer) as Error & { ok?: unknown };
    expect([String(read), read.ok]).toEqual(['Error: x', 4]);
  });
});

describe('an error keeps its cause', () => {
  it('as the cause of the RemoteError, each as what it is', async () => {
    const error = await failure('caused');
    expect(error).toBeInstanceOf(TypeError);
    const middle = remoteOf(error).cause as RangeError & { n: number };
    expect(middle).toBeInstanceOf(RangeError);
    expect([middle.message, middle.n]).toEqual(['middle', 1]);
    const inner = middle.cause as Unknown;
    expect([inner.name, inner.message, inner.status, inner.code]).toEqual(['Unknown', 'inner', 418, 'E_UNKNOWN']);
    expect(inner.stack).toContain('error-properties.test');
  });

  it('when that is no error', async () => {
    expect(remoteOf(await failure('caused by a value')).cause).toEqual({ reason: 'none', list: [1] });
    expect(remoteOf(await failure('caused by a point')).cause).toBe('Point {"x":1}');
  });

  it('once in a circle, and no endless chain of them', async () => {
    const error = await failure('circle');
    const causes: unknown[] = [];
    for (let at: unknown = remoteOf(error).cause; at instanceof Error; at = at.cause) causes.push(at.message);
    expect(causes).toEqual(['b']);
    let chain = new Error('0');
    for (let i = 1; i < 1_000; i++) chain = new Error(String(i), { cause: chain });
    const read = decodeFailure(encodeThrown(chain), new WorkerInfo('w', 1));
    let depth = 0;
    for (let at: unknown = remoteOf(read).cause; at instanceof Error; at = at.cause) depth++;
    expect(depth).toBe(MAX_ERROR_CAUSES);
  });
});

it.each([
  ['object', '{"code":7,"why":"gone"}', { code: 7, why: 'gone' }],
  ['an instance', 'Point {"x":1}', { x: 1 }],
  ['list', '[1,"two"]', { 0: 1, 1: 'two' }],
  ['number', '42', {}],
  ['an object with a text', 'my text', {}],
])('a thrown %s says what it was', async (what, text, properties) => {
  const error = await failure(what);
  expect(error).toBeInstanceOf(RemoteError);
  expect(error.message).toContain(text);
  expect(remoteOf(error).properties).toEqual(properties);
});

it('a failure of the system that a handler lets through keeps its code', () => {
  const error = Object.assign(new RpcError('not-found', 'nothing here'), { hint: 'look elsewhere' });
  const read = decodeFailure(encodeThrown(error), new WorkerInfo('w', 1)) as RpcError & { hint?: string };
  expect([read.code, read.message, read.hint]).toEqual(['not-found', error.message, 'look elsewhere']);
});

it('an error that is larger than a frame may be is said to be, and its caller does not wait', async () => {
  const small = await startCluster(2, () => ({ limits: { maxFrameBytes: 1 } }));
  try {
    const long = rpcFunction('error-properties/long', (): number => {
      throw new Error('x'.repeat(200_000));
    });
    await expect(small.at(0).run(() => rpcSync('w1', long, [], { timeoutMs: 20_000 }))).rejects.toThrow(
      /the handler failed, and its error is larger than a frame may be \(limits.maxFrameBytes\)/,
    );
  } finally {
    await small.close();
  }
});
