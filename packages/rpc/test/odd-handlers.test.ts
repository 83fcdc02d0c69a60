/** @file Whatever a handler throws or returns, its caller gets an answer and both workers can stop. */
import { afterEach, expect, it } from 'vitest';
import { encodeValue } from '@backwire/wire';
import { CancelReason, FrameKind } from '@backwire/wire/internal';
import {
  callContext,
  createAgent,
  RemoteError,
  rpcFunction,
  rpcInfo,
  rpcOneway,
  rpcStream,
  rpcSync,
  type RpcAgent,
} from '../src/index.ts';
import { until } from './cluster.ts';
import { openLink, writeMessage } from './impostor.ts';

const hostile = new Proxy(
  {},
  {
    get: () => {
      throw new Error('get');
    },
    getPrototypeOf: () => {
      throw new Error('getPrototypeOf');
    },
  },
);

/** An error one of whose fields is not what it should be. */
function oddError(field: 'message' | 'stack', descriptor: PropertyDescriptor): Error {
  return Object.defineProperty(new Error('m'), field, descriptor);
}

const throws = {
  get: () => {
    throw new Error('unreadable');
  },
};
const odd: Record<string, () => unknown> = {
  'a message that is an object': () => oddError('message', { value: { detail: 1 } }),
  'no message': () => oddError('message', { value: undefined }),
  'a message that throws': () => oddError('message', throws),
  'a stack that throws': () => oddError('stack', throws),
  'a proxy that throws': () => hostile,
  null: () => null,
  'a symbol': () => Symbol('odd'),
};
const throwOdd = rpcFunction('odd/throw', (what: string): void => {
  throw odd[what]?.();
});
const thenThrows = rpcFunction('odd/then', (): unknown => ({
  then: () => {
    throw new RangeError('no later');
  },
}));
const thenUnreadable = rpcFunction('odd/then-getter', (): unknown => Object.defineProperty({}, 'then', throws));

const letters = rpcFunction('odd/letters', function* (text: string) {
  yield* text;
});

const agents: RpcAgent[] = [];
afterEach(async () => {
  // Gracefully: a call without an answer would keep this from ending.
  await Promise.all(agents.splice(0).map((agent) => agent.shutdown({ timeoutMs: 10_000 })));
});

async function pair(store: string): Promise<RpcAgent> {
  const start = (rank: number): Promise<RpcAgent> =>
    createAgent({ name: `w${rank}`, rank, worldSize: 2, store: `memory://${store}` });
  const [first, second] = await Promise.all([start(0), start(1)]);
  agents.push(first, second);
  return first;
}

it.each(Object.keys(odd))('answers a handler that throws %s', async (what) => {
  const first = await pair(`throws ${what}`);
  const failure = await first.run(() => rpcSync('w1', throwOdd, [what]).catch((error: unknown) => error));
  const cause = failure instanceof RemoteError ? failure : (failure as Error).cause;
  expect(cause).toBeInstanceOf(RemoteError);
  expect((cause as RemoteError).code).toBe('remote-error');
});

it('answers a handler whose result throws when it is awaited', async () => {
  const first = await pair('then throws');
  await expect(first.run(() => rpcSync('w1', thenThrows))).rejects.toThrow('no later');
  await expect(first.run(() => rpcSync('w1', thenUnreadable))).rejects.toThrow('unreadable');
});

it('refuses arguments that are no list on this side', async () => {
  const first = await pair('no list');
  for (const wrong of ['abc', 5, {}] as unknown as [string][]) {
    await expect(first.run(() => rpcSync('w1', throwOdd, wrong))).rejects.toThrow(TypeError);
    expect(() => first.run(() => rpcOneway('w1', throwOdd, wrong))).toThrow('the arguments of a call are a list');
    expect(() => first.run(() => rpcStream('w1', letters, wrong))).toThrow('the arguments of a call are a list');
  }
});

const reasons: unknown[] = [];
rpcFunction('odd/until-aborted', () => {
  const { signal } = callContext();
  return new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => {
      reasons.push(signal.reason);
      resolve();
    });
  });
});

it.each([
  ['its time is over', CancelReason.TIME_OVER, 'deadline-exceeded'],
  ['nobody wants it', CancelReason.UNWANTED, 'cancelled'],
  ['a reason of a later version', 7, 'cancelled'],
])('tells a handler whose call is taken back why, before its own clock says so: %s', async (_, why, code) => {
  const { talk, outcome } = await openLink({}, 300);
  talk.write((writer) => {
    const call = { kind: FrameKind.CALL, seq: 1, callId: 1, fn: 1, remainingMs: 60_000 } as const;
    writeMessage(writer, encodeValue([]).bytes, call, 'odd/until-aborted');
    writer.idFrame(FrameKind.CANCEL, { id: 1, a: why }, 2, 1);
  });
  await until(() => reasons.length > 0, 'the handler was told');
  expect(rpcInfo(reasons.pop())?.code).toBe(code);
  await outcome;
});
