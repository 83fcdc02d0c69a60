/** @file What a profile has of the operations and labels of this worker, one inside of another, and its trace file. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  arange,
  empty,
  eye,
  full,
  fullLike,
  linspace,
  matmul,
  ones,
  onesLike,
  rand,
  randint,
  randLike,
  randn,
  randnLike,
  randperm,
  ShapeError,
  tensor,
  zeros,
  zerosLike,
  type Tensor,
} from '@backwire/tensor';
import { rpcAsync, RpcError, rpcSync } from '@backwire/rpc';
import { double, names, slow, useGroups } from '../test/group.ts';
import { profile, recordFunction, type ChromeTrace } from './index.ts';
import { ServerProfiler } from './server-profiler.ts';

const { group, on } = useGroups('profile');

describe('profile', () => {
  it('has products by the names that PyTorch has for them', async () => {
    const product = async (left: number[], right: number[]): Promise<string[]> => {
      const [a, b] = [ones(left), ones(right)];
      const events = (await profile(() => matmul(a, b))).profile.events();
      return names(events).filter((name) => name.endsWith('mm'));
    };
    expect(await product([2, 3], [3, 4])).toEqual(['aten::mm']);
    expect(await product([3], [3, 4])).toEqual(['aten::mm']);
    expect(await product([5, 2, 3], [3, 4])).toEqual(['aten::mm']);
    expect(await product([5, 2, 3], [5, 3, 4])).toEqual(['aten::bmm']);
    expect(matmul(tensor([[1]], { requiresGrad: true }), ones([1, 1])).gradFn?.name).toBe('MmBackward0');
  });

  it('has each function that makes a tensor of numbers once, and not those that operations are made of', async () => {
    const t = ones([2]);
    const makes: readonly (readonly [string, () => unknown])[] = [
      ['ones', () => ones([2])],
      ['zeros', () => zeros([2])],
      ['empty', () => empty([2])],
      ['full', () => full([2], 7)],
      ['ones_like', () => onesLike(t)],
      ['zeros_like', () => zerosLike(t)],
      ['full_like', () => fullLike(t, 7)],
      ['arange', () => arange(3)],
      ['linspace', () => linspace(0, 1, 3)],
      ['eye', () => eye(2)],
      ['rand', () => rand([2])],
      ['randn', () => randn([2])],
      ['rand_like', () => randLike(t)],
      ['randn_like', () => randnLike(t)],
      ['randint', () => randint(0, 9, [2])],
      ['randperm', () => randperm(3)],
    ];
    const { profile: p } = await profile(() => makes.forEach(([, make]) => make()));
    expect(names(p.events())).toEqual(makes.map(([name]) => `aten::${name}`));
    const { profile: failed } = await profile(() => {
      expect(() => ones([-1])).toThrow(ShapeError);
      t.add(1).cumsum(0);
    });
    expect(names(failed.events())).toEqual(['aten::ones', 'aten::add', 'aten::cumsum']);
  });

  it('gives an inner profile to the outer one as well', async () => {
    const outer = await profile(async () => {
      ones([2]).add(1);
      const inner = await profile(() => recordFunction('inside', () => ones([2]).mul(2)));
      expect(names(inner.profile.events())).toEqual(expect.arrayContaining(['inside', 'aten::mul']));
      expect(names(inner.profile.events())).not.toContain('aten::add');
    });
    expect(names(outer.profile.events())).toEqual(expect.arrayContaining(['aten::add', 'inside', 'aten::mul']));
  });

  it('gives the outer one what other workers did, their clocks, and calls that outlast the inner one', async () => {
    await group(2);
    const { profile: outer } = await on(0, () =>
      profile(async () => {
        let call: Promise<Tensor> | undefined;
        await profile(() => {
          call = rpcAsync('w1', slow, [ones([1]), 60]);
        });
        await call;
        await new Promise((done) => setTimeout(done, 60));
      }),
    );
    const key = 'rpc_async#profiling.test/slow(w0 -> w1)';
    const call = outer.events().find(({ name }) => name === key);
    expect(call?.durationUs).toBeGreaterThan(50_000);
    expect(names(outer.events())).toContain(`${key}#remote_op: aten::mul`);
    const { otherData } = outer.toChromeTrace() as ChromeTrace;
    expect(otherData?.backwire.workers[1]?.errorUs).not.toBeNull();
    expect(outer.dropped).toBe(0);
  });

  it('ends operations on the spot that throw', async () => {
    const leaf = ones([3], { requiresGrad: true });
    const { profile: p } = await profile(async () => {
      expect(() => leaf.add_(1)).toThrow();
      await new Promise((done) => setTimeout(done, 60));
      recordFunction('after', () => undefined);
    });
    expect(p.events()[0]).toMatchObject({ name: 'aten::add_' });
    expect(p.events()[0]?.durationUs).toBeLessThan(50_000);
    expect(p.keyAverages().table()).toMatch(/^after /m);
  });

  it('rejects with what its function threw', async () => {
    await expect(profile(() => Promise.reject(new Error('inside')))).rejects.toThrow('inside');
    await expect(
      profile(() => {
        throw new Error('at once');
      }),
    ).rejects.toThrow('at once');
  });

  it('exports remote events in its trace file', async () => {
    await group(2);
    const folder = mkdtempSync(join(tmpdir(), 'backwire-profile-'));
    try {
      const { profile: p } = await on(0, () => profile(() => rpcSync('w1', double, [ones([2])])));
      const path = join(folder, 'trace.json');
      await p.writeChromeTrace(path);
      const { traceEvents } = JSON.parse(readFileSync(path, 'utf8')) as {
        traceEvents: { ph: string; name: string; pid: number; args?: { name?: string; call?: string } }[];
      };
      expect(
        traceEvents.filter(({ ph, name }) => ph === 'M' && name === 'process_name').map(({ args }) => args?.name),
      ).toEqual(['w0', 'w1']);
      const drawn = traceEvents.filter(({ name, pid }) => name === 'aten::add' && pid === 1);
      expect(drawn.map(({ args }) => args?.call)).toEqual(['rpc_sync#profiling.test/double(w0 -> w1)']);
      expect(p.keyAverages({ groupBy: 'name+node' }).table({ sortBy: 'calls' })).toContain(
        'rpc_sync#profiling.test/double(w0 -> w1)',
      );
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('has nothing of what is printed', async () => {
    const t = rand([50, 50], { requiresGrad: true });
    expect((await profile(() => String(t).length > 100)).profile.events()).toEqual([]);
  });

  it('keeps more only where that is asked for in so many words', async () => {
    for (const options of [{ recordShapes: 'yes' }, { profileMemory: 1 }, { recordShapes: null }])
      await expect(profile(() => 1, options as never)).rejects.toThrow(/of profile\(\) is true or false, got/);
    expect((await profile(() => 1, { recordShapes: false })).value).toBe(1);
    expect(() => new ServerProfiler({ recordShapes: 1 as never })).toThrow('recordShapes of ServerProfiler is true or');
  });

  it('of nothing says that it runs a function', async () => {
    await expect(profile(undefined as never)).rejects.toThrow(
      'profile() runs a function, as in profile(async () => { … }); got undefined',
    );
  });
});

describe('recordFunction', () => {
  it('says what it takes, whether a profile is in force or not', async () => {
    const wrong: readonly (readonly [args: readonly unknown[], got: string])[] = [
      [[() => 5], 'got an anonymous function and undefined'],
      [['x'], "got 'x' and undefined"],
      [[5, () => 1], 'got 5 and an anonymous function'],
      [[undefined, () => 1], 'got undefined and an anonymous function'],
      [['x', Promise.resolve(1)], "got 'x' and a Promise"],
    ];
    const call = recordFunction as (...args: readonly unknown[]) => unknown;
    const refuses = (): void => {
      for (const [args, got] of wrong)
        expect(() => call(...args)).toThrow(
          new TypeError(`recordFunction() takes a name and a function, as in recordFunction('load', () => …); ${got}`),
        );
    };
    refuses();
    const { profile: p } = await profile(refuses);
    expect(p.events()).toEqual([]);
  });

  it('lasts until a promise, and says so of anything else; it may then still be given one', async () => {
    const { profile: p } = await profile(() =>
      recordFunction('foo', (label) => {
        for (const wrong of [undefined, 5, {}, () => Promise.resolve()])
          expect(() => label.endWith(wrong as never)).toThrow(/^endWith of a label takes a promise, got /);
        return label.endWith(new Promise<void>((done) => setTimeout(done, 15)));
      }),
    );
    expect(p.events()[0]?.durationUs).toBeGreaterThan(10_000);
    // Also where nobody listens.
    recordFunction('foo', (label) => expect(() => label.endWith(5 as never)).toThrow('takes a promise, got 5'));
  });

  it('is just the function without a profile', () => {
    expect(recordFunction('x', () => 5)).toBe(5);
  });

  it('ends when the promise settles, and hands it on as it is', async () => {
    const promise = new Promise<number>((done) => setTimeout(() => done(3), 15));
    const { value, profile: p } = await profile(() => {
      const same = recordFunction('wait', () => promise);
      expect(same).toBe(promise);
      return same;
    });
    expect(value).toBe(3);
    expect(p.events()[0]?.durationUs).toBeGreaterThan(10_000);
  });

  it('ends with the promise it is given, which is given once', async () => {
    await group(4);
    const { profile: p } = await on(1, () =>
      profile(async () => {
        let call: Promise<Tensor> | undefined;
        const returned = recordFunction('foo', (label) => {
          call = label.endWith(rpcAsync('w0', slow, [ones([1]), 30]));
          expect(() => label.endWith(call as Promise<Tensor>)).toThrow(
            new RpcError('failed-precondition', 'endWith of a label can only be called once.'),
          );
          return 'at once';
        });
        expect(returned).toBe('at once');
        await call;
      }),
    );
    const [foo] = p.events().filter(({ name }) => name === 'foo');
    const [call] = p.events().filter(({ name }) => name.startsWith('rpc_async#') && !name.includes('#remote_op'));
    expect(foo?.durationUs).toBeGreaterThan(25_000);
    expect(foo?.durationUs).toBeGreaterThanOrEqual(call?.durationUs ?? Infinity);
  });

  it('ends when the function throws', async () => {
    const { profile: p } = await profile(() => {
      expect(() =>
        recordFunction('bad', () => {
          throw new Error('bad');
        }),
      ).toThrow('bad');
      recordFunction('after', () => undefined);
    });
    expect(names(p.events())).toEqual(['bad', 'after']);
  });
});
