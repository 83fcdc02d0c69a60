/** @file A failure that handlers pass on: over every hop it stays what it was, and says once what it is. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RemoteError, remoteFunction, rpcFunction, RpcError, rpcInfo, rpcSync } from '../src/index.ts';
import { startCluster, type Cluster } from './cluster.ts';

const FAIL = 'error-hops/fail';
const FAIL_OF_RANGE = 'error-hops/fail-of-range';
const HANG = 'error-hops/hang';

class Odd extends Error {
  status = 7;
  code = 'E_ODD';
}
const fail = rpcFunction(FAIL, (): number => {
  throw new Odd('boom');
});
rpcFunction(FAIL_OF_RANGE, (): number => {
  throw new RangeError('too far');
});
rpcFunction(HANG, () => new Promise<number>(() => undefined));
const wrap = rpcFunction('error-hops/wrap', (to: string) =>
  rpcSync(to, fail).catch((cause: unknown) => {
    throw new TypeError('wrapped', { cause });
  }),
);
/** Calls `name` on the last of the workers, through the others. */
const onward = rpcFunction('error-hops/onward', ([to, ...rest]: readonly string[], name: string): Promise<number> =>
  rest.length > 0
    ? rpcSync(to as string, remoteFunction<(path: string[], name: string) => number>('error-hops/onward'), [rest, name])
    : rpcSync(to as string, remoteFunction<() => number>(name), [], { timeoutMs: name === HANG ? 40 : 10_000 }),
);

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(3);
});
afterAll(() => cluster.close());

async function failure(path: readonly string[], name: string): Promise<Error> {
  const error: unknown = await cluster
    .at(0)
    .run(() => rpcSync('w1', onward, [path, name]).catch((reason: unknown) => reason));
  expect(error).toBeInstanceOf(Error);
  return error as Error;
}

const paths: readonly (readonly string[])[] = [['w2'], ['w0', 'w2'], ['w2', 'w0', 'w2']];

describe.each(paths.map((path) => [path.length + 1, path] as const))('over %i hops', (_hops, path) => {
  it('what is of no known class stays a RemoteError of that class, with its properties and its stack', async () => {
    const error = await failure(path, FAIL);
    expect(error).toBeInstanceOf(RemoteError);
    expect(error.message).toBe('On WorkerInfo(id=2, name=w2):\nOdd: boom [remote-error]');
    expect(error).toMatchObject({ code: 'remote-error', executed: 'yes', remoteName: 'Odd', status: 7 });
    expect((error as RemoteError).properties).toEqual({ status: 7, code: 'E_ODD' });
    expect((error as RemoteError).remoteStack).toContain('error-hops.test');
    expect(rpcInfo(error)?.peer?.name).toBe('w1');
  });

  it('its causes say which workers it came over', async () => {
    const { cause } = await failure(path, FAIL);
    expect(cause).toBeInstanceOf(RemoteError);
    expect((cause as Error).message).toBe(
      'On WorkerInfo(id=1, name=w1):\nRemoteError: On WorkerInfo(id=2, name=w2):\nOdd: boom [remote-error]',
    );
  });

  it('a failure of the system keeps its code, and says it once, at the end', async () => {
    const error = await failure(path, HANG);
    expect(error).toBeInstanceOf(RpcError);
    expect(error).not.toBeInstanceOf(RemoteError);
    expect(error).toMatchObject({ code: 'deadline-exceeded', executed: 'yes' });
    expect(error.message).toMatch(/^RPC ran for more than set timeout \(40 ms\)/);
    expect(error.message.match(/\[[a-z-]+\]/g)).toEqual(['[deadline-exceeded]']);
    expect(error.message.endsWith(' [deadline-exceeded]')).toBe(true);
    expect((error.cause as Error).message.match(/\[[a-z-]+\]/g)).toEqual(['[remote-error]']);
  });

  it('a known class stays that class, whose cause knows it, too', async () => {
    const error = await failure(path, FAIL_OF_RANGE);
    expect(error).toEqual(new RangeError('too far'));
    for (let hop = 0, at = error.cause; hop <= path.length; hop++, at = (at as Error).cause) {
      expect(at).toBeInstanceOf(RemoteError);
      expect(at).toMatchObject({ remoteName: 'RangeError' });
    }
  });
});

it('as the cause of another error it stays a RemoteError of that class', async () => {
  const error: unknown = await cluster.at(0).run(() => rpcSync('w1', wrap, ['w2']).catch((reason: unknown) => reason));
  expect(error).toEqual(new TypeError('wrapped'));
  const inner = rpcInfo(error)?.cause;
  expect(inner).toBeInstanceOf(RemoteError);
  expect(inner).toMatchObject({ remoteName: 'Odd', status: 7, properties: { status: 7, code: 'E_ODD' } });
  expect((inner as Error).message).toBe('On WorkerInfo(id=2, name=w2):\nOdd: boom [remote-error]');
});
