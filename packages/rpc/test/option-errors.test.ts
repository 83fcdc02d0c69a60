/** @file Options of the wrong type are refused in words that name the option, before anything is started. */
import { afterEach, describe, expect, expectTypeOf, it } from 'vitest';
import {
  createAgent,
  initRpc,
  remoteFunction,
  rpcAsync,
  rpcClass,
  rpcFunction,
  rpcInfo,
  rpcSync,
  RpcError,
  type CallOptions,
  type RpcOptions,
} from '../src/index.ts';
import { rpcName } from '@backwire/tensor';
import { isRpcErrorCode, RPC_ERROR_CODES } from '../src/internal.ts';
import type { Callable } from '../src/base/definitions.ts';
import { startCluster, type Cluster } from './cluster.ts';

const echo = rpcFunction('option-errors/echo', (x: unknown) => x);
const generate = rpcFunction('option-errors/generate', function* (): Generator<number> {
  yield 1;
});

let cluster: Cluster | undefined;
afterEach(async () => {
  await cluster?.close();
  cluster = undefined;
});

const failure = (promise: Promise<unknown>): Promise<Error> =>
  promise.then(
    () => new Error('no failure'),
    (error: unknown) => error as Error,
  );

const security = (given: object): object => ({ name: 'w0', security: given });

describe('an agent', () => {
  it.each([
    ['no options', undefined, TypeError, /initRpc needs options: at least \{ name/],
    ['a name instead of options', 'w0', TypeError, /the options of initRpc are an object, got 'w0'/],
    ['no name', {}, RpcError, /Worker name must match/],
    ['a rank that is a text', { name: 'w0', rank: 'x' }, TypeError, /rank is a whole number from 0, got string 'x'/],
    ['a rank below 0', { name: 'w0', rank: -1 }, RpcError, /out of bounds/],
    ['a rank that no launcher set', { name: 'w0', rank: NaN }, RpcError, /RANK missing\? 'backwire run' sets it/],
    ['a size that no launcher set', { name: 'w0', worldSize: NaN }, RpcError, /WORLD_SIZE is missing; 'backwire run'/],
    ['a port that is none', { name: 'w0', store: 'tcp://h:70000' }, RpcError, /is 70000; ports are 0 to 65535/],
    [
      'security that is called tls',
      { name: 'w0', security: { mode: 'tls' } },
      RpcError,
      /security.mode is one of psk, hmac, mtls, none; got 'tls': .*\{ mode: 'psk', secret \}.*\{ mode: 'mtls', key, cert, ca \}/,
    ],
    [
      'a secret that is a number',
      security({ mode: 'hmac', secret: 1234567890123456 }),
      TypeError,
      /^security.secret is a text or a Uint8Array; got number$/,
    ],
    [
      'a secret that is none',
      security({ mode: 'psk', secret: null }),
      TypeError,
      /^security.secret is a .*; got null$/,
    ],
    [
      'no security, not quite understood',
      security({ mode: 'none', iUnderstand: 'no' }),
      TypeError,
      /^security.iUnderstand is true or false; got string$/,
    ],
    [
      'certificates without a key',
      security({ mode: 'mtls', cert: 'a', ca: 'b' }),
      TypeError,
      /^security of mode 'mtls' needs a key$/,
    ],
    [
      'a key that is bytes',
      security({ mode: 'mtls', key: Buffer.from('k'), cert: 'a', ca: 'b' }),
      TypeError,
      /^security.key is a text: PEM, or a path; got object$/,
    ],
    ['security without a mode', { name: 'w0', security: {} }, RpcError, /security.mode is one of .*none was given/],
    ['a size that is a text', { name: 'w0', worldSize: '2' }, TypeError, /worldSize is a whole number, got string '2'/],
    ['a time that is a text', { name: 'w0', rpcTimeoutMs: '5' }, TypeError, /rpcTimeoutMs is a number of milliseconds/],
    ['a negative time', { name: 'w0', initTimeoutMs: -5 }, RangeError, /initTimeoutMs is -5/],
    ['no list of transports', { name: 'w0', transports: 'tcp' }, TypeError, /transports is a list, got string 'tcp'/],
    [
      'builtins that are no choice',
      { name: 'w0', builtins: 'yes' },
      TypeError,
      /builtins is true or false, got string/,
    ],
    [
      'an unknown transport',
      { name: 'w0', transports: ['pigeon'] },
      RpcError,
      /no transport is named 'pigeon'; there are memory, port, unix, tcp, ws/,
    ],
    [
      'an unknown channel',
      { name: 'w0', channels: ['cuda_ipc'] },
      RpcError,
      /no channel is named 'cuda_ipc'; there are inline, cma/,
    ],
    ['an unknown membership', { name: 'w0', membership: 'open' }, RpcError, /'static' or 'dynamic', got open/],
    [
      'no transports',
      { name: 'w0', transports: [] },
      RpcError,
      /transports is an empty list; leave it out, or name some of/,
    ],
    [
      'names in place of what is served',
      { name: 'w0', serve: ['echo'] },
      TypeError,
      /serve lists functions and classes, not their names; got 'echo'/,
    ],
    [
      'the name of an extension',
      { name: 'w0', extensions: ['rref'] },
      TypeError,
      /an element of extensions is what rrefs\(\) and the like return, got 'rref'/,
    ],
    [
      'an extension that is not there',
      { name: 'w0', extensions: [undefined] },
      TypeError,
      /an element of extensions is what rrefs\(\) and the like return, got undefined, which has no attach\(\)/,
    ],
    ['a group that is a number', { name: 'w0', group: 5 }, RpcError, /Group name must match .* but got 5/],
    [
      'a folder that is a host',
      { name: 'w0', store: 'file://relative/x' },
      RpcError,
      /'file:\/\/relative\/x' names no folder: write file:\/\/\/absolute\/folder/,
    ],
    ...[5, '', 'a b', '10.0.0.1:29500', 'tcp://10.0.0.1:5', 'me@host', '[::1]', {}].map(
      (advertise): [string, object, typeof RpcError, RegExp] => [
        `an advertised ${JSON.stringify(advertise)}`,
        { name: 'w0', advertise },
        RpcError,
        /^advertise is .+: give the name or the address of a host, without a port, .* \[invalid-argument\]$/,
      ],
    ),
    ['an unknown limit', { name: 'w0', limits: { maxCalls: 1 } }, RpcError, /limits: unknown option 'maxCalls'/],
    [
      'a limit that is a text',
      { name: 'w0', limits: { maxDepth: '3' } },
      RangeError,
      /maxDepth must be positive, got '3'/,
    ],
    [
      'a store of no kind',
      { name: 'w0', store: 'ftp://x' },
      RpcError,
      /'ftp:\/\/x' names no kind of store; there are memory:.*tcp:.*file:.*etcd:.*redis:/,
    ],
  ])('is not started with %s', async (_what, options, type, text) => {
    const rest = { store: 'memory://none', worldSize: 1 };
    const given = typeof options === 'object' ? { ...rest, ...options } : options;
    const error = await failure(initRpc(given as unknown as RpcOptions));
    expect(error).toBeInstanceOf(type);
    expect(error.message).toMatch(text);
  });

  it.each(['localhost', '127.0.0.1', '::1', 'wss://example.com/backwire'])('advertises %s', async (advertise) => {
    const options = { worldSize: 1, store: `memory://${advertise}`, transports: ['tcp'], advertise };
    await (await createAgent({ name: 'w0', ...options })).shutdown();
  });

  it('leaves the place of the default free when its options were wrong', async () => {
    await failure(initRpc(undefined as unknown as RpcOptions));
    const agent = await initRpc({ name: 'w0', worldSize: 1, store: 'memory://option-errors' });
    await agent.shutdown();
    expect((await failure(createAgent(null as unknown as RpcOptions))).message).toContain('createAgent');
  });
});

describe('a call', () => {
  it.each([
    ['a signal that is none', { signal: {} }, /signal is an AbortSignal, got an object of class Object/],
    ['the controller as signal', { signal: new AbortController() }, /give controller\.signal, not the controller/],
    ['a time that is a text', { timeoutMs: '5' }, /timeoutMs is a number of milliseconds, got string '5'/],
    ['a number as options', 5, /the options of a call of 'option-errors\/echo' are an object, got 5/],
  ])('is refused with %s', async (_what, options, text) => {
    cluster = await startCluster(2);
    const error = await cluster.at(0).run(() => failure(rpcSync('w1', echo, [1], options as unknown as CallOptions)));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(text);
    expect(cluster.at(0).debugInfo()['agent.client_active_calls']).toBe(0);
    expect(await cluster.at(0).run(() => rpcSync('w1', echo, [2]))).toBe(2);
  });

  it('with a signal that has aborted says cancelled, with the reason', async () => {
    cluster = await startCluster(1);
    const reason = new Error('changed my mind');
    const error = await cluster
      .at(0)
      .run(() => failure(rpcSync('w0', echo, [1], { signal: AbortSignal.abort(reason) })));
    expect(rpcInfo(error)).toMatchObject({ code: 'cancelled', executed: 'no' });
    expect(error.message).toContain('cancelled');
    expect(error.cause).toBe(reason);
  });
});

it('a class without its methods says how to publish them', () => {
  class Published {
    static readonly [rpcName] = 'option-errors/Published';
    go(): number {
      return 1;
    }
  }
  const loose = rpcClass as unknown as (ctor: unknown, options?: unknown) => unknown;
  for (const options of [undefined, {}, { methods: 'go' }])
    expect(() => loose(Published, options)).toThrow(
      /rpcClass\(\) needs the methods of 'option-errors\/Published' that peers may call.*\{ methods: \['forward'\] \}/,
    );
  expect(() => loose(Published, { methods: [] })).not.toThrow();
});

it('a function that only throws, and a static method, can be called: the types say so too', async () => {
  cluster = await startCluster(2);
  const refuse = rpcFunction('option-errors/refuse', () => {
    throw new RangeError('refused');
  });
  const Loader = rpcClass(
    class {
      static readonly [rpcName] = 'option-errors/Loader';
      static load(path: string): number {
        return path.length;
      }
    },
    { methods: [], statics: ['load'] },
  );
  await cluster.at(0).run(async () => {
    await expect(rpcSync('w1', refuse)).rejects.toThrow('refused');
    await expect(rpcAsync('w1', refuse)).rejects.toThrow('refused');
    const length: number = await rpcSync('w1', Loader.load, ['abc']);
    expect([length, Loader.load('ab')]).toEqual([3, 2]);
  });
});

it('the type of what has no name says how it gets one', () => {
  class Declared {
    static readonly [rpcName] = 'option-errors/Declared';
    static load(path: string): number {
      return path.length;
    }
  }
  const published = rpcClass(Declared, { methods: [], statics: ['load'] });
  expectTypeOf<Callable<typeof published.load>>().toEqualTypeOf<unknown>();
  expectTypeOf<Callable<typeof echo>>().toEqualTypeOf<unknown>();
  const text: Callable<typeof Declared.load> =
    "not known to peers: call what rpcFunction('name', fn) returns, or a static method of what rpcClass(Class, { methods, statics }) returns";
  expectTypeOf(text).toExtend<Callable<() => void>>();
  // @ts-expect-error it has no name
  const nameless = (): Promise<number> => rpcSync('w1', (x: number) => x, [1]);
  // Who writes the function's type himself gives a function that has a name.
  const written = (): Promise<number> => rpcSync<(x: number) => number>('w1', remoteFunction('option-errors/any'), [1]);
  expect([nameless, written].every((call) => typeof call === 'function')).toBe(true);
  const ofGenerator: Callable<typeof generate> = 'a generator is called with rpcStream()';
  expect([generate.name, ofGenerator]).toEqual(['', 'a generator is called with rpcStream()']);
  expect(text).toContain("rpcFunction('name', fn)");
  // What the text says works, of the same class.
  expect(published.load).toBe(Declared.load);
});

it('the table of error codes is closed', () => {
  expect(new Set(RPC_ERROR_CODES).size).toBe(19);
  expect(isRpcErrorCode('fenced')).toBe(true);
  expect([undefined, '', '__proto__', 'Fenced'].some(isRpcErrorCode)).toBe(false);
});

describe('what peers cannot call says how it is published', () => {
  class Plain {
    static make(): number {
      return 1;
    }
  }
  class Named {
    static readonly [rpcName] = 'option-errors/Named';
    run(): number {
      return 1;
    }
  }
  class Extended extends Named {}
  const call = (fn: unknown): Promise<unknown> => rpcSync('w1', fn as typeof echo, [1]);

  it.each([
    [
      'a name',
      'echo',
      "function should be callable. Got 'echo': a function of other workers is called by its name with remoteFunction('echo')",
    ],
    ['nothing', undefined, 'function should be callable. Got undefined'],
    ['a function', (x: number) => x, 'function that is anonymous has no name'],
    [
      'a static method',
      Plain.make,
      "function 'make' has no name that peers know; define it with rpcFunction('name', fn), or a static method of a class with rpcClass(",
    ],
    [
      'a class',
      Plain,
      "class 'Plain' has no name that peers know; give it static readonly [rpcName] = 'Name' and define it with rpcClass(Class, { methods: ['name'] })",
    ],
    [
      'a class that extends one',
      Extended,
      "class 'Extended' has no name of its own, only that of 'option-errors/Named'",
    ],
  ])('%s', async (_what, fn, text) => {
    cluster ??= await startCluster(2);
    const error = await cluster.at(0).run(() => failure(Promise.resolve().then(() => call(fn))));
    expect(error.message).toContain(text);
  });

  it('definitions say what they were given', () => {
    const [fn, ctor] = [rpcFunction, rpcClass] as unknown as ((...given: unknown[]) => unknown)[];
    expect(() => fn?.('option-errors/none')).toThrow(
      "'option-errors/none' was given undefined: rpcFunction('name', fn)",
    );
    expect(() => ctor?.(Plain, { methods: [] })).toThrow(
      "class 'Plain' has no [rpcName] of its own: rpcClass() takes a class with static readonly [rpcName]",
    );
    expect(() => ctor?.(new Named(), { methods: [] })).toThrow('an object of class Named has no [rpcName] of its own');
    expect(() => ctor?.(Named, { method: ['run'] })).toThrow("unknown option 'method'; did you mean 'methods'?");
  });
});
