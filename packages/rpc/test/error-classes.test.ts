/** @file Standard errors that are more than a message: they arrive as what they are, with what they hold. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RemoteError, rpcFunction, rpcInfo, rpcSync, registerErrorType } from '../src/index.ts';
import { detailsOf, rebuildWithDetails } from '../src/session/error-details.ts';
import { MAX_ERRORS_INSIDE } from '../src/base/limits.ts';
import { startCluster, type Cluster } from './cluster.ts';

const thrown: Record<string, () => unknown> = {
  aggregate: () =>
    new AggregateError(
      [new RangeError('a'), 7, new AggregateError([new TypeError('c')], 'b'), { toString: () => 'd' }],
      'all',
    ),
  unreadable: () =>
    new AggregateError(
      [
        {
          toString: () => {
            throw new Error('no text');
          },
        },
      ],
      'all',
    ),
  many: () =>
    new AggregateError(
      Array.from({ length: 1_000 }, (_, i) => i),
      'many',
    ),
  huge: () => new AggregateError([new Error('x'.repeat(1_000_000))], 'huge'),
  dom: () => new DOMException('too late', 'TimeoutError'),
  aborted: () => AbortSignal.abort().reason as unknown,
};
const fail = rpcFunction('error-classes/fail', (what: string): number => {
  throw thrown[what]?.();
});

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(2);
});
afterAll(() => cluster.close());

async function failure<T extends Error>(what: string): Promise<T> {
  const error: unknown = await cluster.at(0).run(() => rpcSync('w1', fail, [what]).catch((reason: unknown) => reason));
  expect(rpcInfo(error)).toBeInstanceOf(RemoteError);
  return error as T;
}

describe('an AggregateError', () => {
  it('arrives with its errors, by their names and messages', async () => {
    const error = await failure<AggregateError>('aggregate');
    expect(error).toBeInstanceOf(AggregateError);
    const [range, seven, nested, other] = error.errors as [Error, number, AggregateError, string];
    expect([error.message, String(range), seven, other]).toEqual(['all', 'RangeError: a', 7, 'd']);
    expect(nested).toBeInstanceOf(AggregateError);
    expect(nested.errors.map(String)).toEqual(['TypeError: c']);
  });

  it.each([
    ['unreadable', 'all', 0],
    ['huge', 'huge', 0],
    ['many', 'many', MAX_ERRORS_INSIDE],
  ])('%s arrives with as many of its errors as can travel', async (what, message, count) => {
    const error = await failure<AggregateError>(what);
    expect(error).toBeInstanceOf(AggregateError);
    expect([error.message, error.errors.length]).toEqual([message, count]);
  });
});

describe('a DOMException', () => {
  it('keeps its name', async () => {
    const [late, aborted] = [await failure<DOMException>('dom'), await failure<DOMException>('aborted')];
    for (const error of [late, aborted]) expect(error).toBeInstanceOf(DOMException);
    expect([late.name, late.message, aborted.name]).toEqual(['TimeoutError', 'too late', 'AbortError']);
  });
});

it('details that are nonsense are none', () => {
  const nonsense = new Uint8Array([255, 255, 255]);
  expect((rebuildWithDetails('AggregateError', 'm', nonsense) as AggregateError).errors).toEqual([]);
  expect(rebuildWithDetails('DOMException', 'm', nonsense)?.name).toBe('Error');
  expect(rebuildWithDetails('Other', 'm', nonsense)).toBeUndefined();
  expect(detailsOf(new RangeError('m')).length).toBe(0);
});

it('they need no registration, and take none amiss', async () => {
  registerErrorType(AggregateError);
  expect(((await failure('aggregate')) as unknown as AggregateError).errors).toHaveLength(4);
});
