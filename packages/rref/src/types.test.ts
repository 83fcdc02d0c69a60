/** What must compile, and what must not: the types are the test, running it only shows that nothing is called. */
import { nn, rpcName, type Parameter, type Tensor } from '@backwire/tensor';
import { rpcFunction } from '@backwire/rpc';
import { expectTypeOf, it } from 'vitest';
import { remote, type RemoteProxy, type RRef, type RRefProxy } from './index.ts';

class Server {
  static readonly [rpcName] = 'types/Server';
  readonly model = new nn.Linear(2, 2);
  forward(x: Tensor): Tensor {
    return this.model.forward(x);
  }
  async later(n: number): Promise<string> {
    return String(n);
  }
  *count(to: number): Generator<number> {
    for (let i = 0; i < to; i++) yield i;
  }
  async *ticks(): AsyncGenerator<string> {
    yield 'tick';
  }
  parameters(): RRef<Parameter>[] {
    return [];
  }
  refuse(why: string): never {
    throw new Error(why);
  }
  async refuseLater(): Promise<never> {
    throw new Error('later');
  }
  _hidden(): number {
    return 1;
  }
  dispose(): void {
    this._hidden();
  }
  read(key: string): string;
  read(key: number, times: number): number[];
  read(key: string | number): string | number[] {
    return typeof key === 'string' ? key : [key];
  }
}

it('proxies have the published shape', () => {
  expectTypeOf<RemoteProxy<Server>['forward']>().toEqualTypeOf<(x: Tensor) => Promise<Tensor>>();
  expectTypeOf<RemoteProxy<Server>['later']>().toEqualTypeOf<(n: number) => Promise<string>>();
  expectTypeOf<RemoteProxy<Server>['count']>().toEqualTypeOf<(to: number) => AsyncGenerator<number, void, void>>();
  expectTypeOf<RemoteProxy<Server>['ticks']>().toEqualTypeOf<() => AsyncGenerator<string, void, void>>();
  expectTypeOf<RemoteProxy<Server>['parameters']>().toEqualTypeOf<() => Promise<RRef<Parameter>[]>>();
  expectTypeOf<RRefProxy<Server>['later']>().toEqualTypeOf<(n: number) => RRef<string>>();
  expectTypeOf<RemoteProxy<Server>['refuse']>().toEqualTypeOf<(why: string) => Promise<never>>();
  expectTypeOf<RemoteProxy<Server>['refuseLater']>().toEqualTypeOf<() => Promise<never>>();
  expectTypeOf<RRefProxy<Server>['refuse']>().toEqualTypeOf<(why: string) => RRef<never>>();
  expectTypeOf<keyof RemoteProxy<Server>>().toEqualTypeOf<
    'forward' | 'later' | 'count' | 'ticks' | 'parameters' | 'refuse' | 'refuseLater' | 'read'
  >();
  expectTypeOf<keyof RemoteProxy<number[]>>().toEqualTypeOf<never>();
});

it('a method with several signatures has all of them', () => {
  const through = (rref: RRef<Server>) => {
    expectTypeOf(rref.rpcSync().read('key')).toEqualTypeOf<Promise<string>>();
    expectTypeOf(rref.rpcSync().read(1, 2)).toEqualTypeOf<Promise<number[]>>();
    expectTypeOf(rref.remote().read('key')).toEqualTypeOf<RRef<string>>();
    // @ts-expect-error -- neither signature takes a number alone
    void rref.rpcSync().read(1);
  };
  expectTypeOf(through).toBeFunction();
});

it('a parameter without a type is unknown, and not whatever a caller likes', () => {
  const echo = rpcFunction('types/echo', (x, n: number) => [x, n] as const);
  expectTypeOf(echo).parameters.toEqualTypeOf<[x: unknown, n: number]>();
  expectTypeOf(echo).returns.toEqualTypeOf<readonly [unknown, number]>();
  const first = rpcFunction('types/first', <T>(list: readonly T[]): T | undefined => list[0]);
  expectTypeOf(first([1])).toEqualTypeOf<number | undefined>();
  const narrow = rpcFunction('types/narrow', async (x: Tensor, kind: 'a' | 'b' = 'a') => [x, kind] as const);
  expectTypeOf(narrow).parameter(1).toEqualTypeOf<'a' | 'b' | undefined>();
  const through = (): unknown =>
    // @ts-expect-error -- nothing is known of it
    rpcFunction('types/unknown', (x) => x.length);
  expectTypeOf(through).toBeFunction();
});

it('what a generator yields is left nowhere', () => {
  const counts = rpcFunction('types/counts', function* (to: number) {
    yield to;
  });
  const through = (rref: RRef<Server>) => {
    // @ts-expect-error -- a generator
    rref.remote().count(3);
    // @ts-expect-error -- an asynchronous one
    rref.remote().ticks();
    // @ts-expect-error -- a function that is one
    remote('w0', counts, [3]);
  };
  expectTypeOf(through).toBeFunction();
});

it('an RRef of a narrower value is one of a wider value', () => {
  expectTypeOf<RRef<Parameter>>().toExtend<RRef<Tensor>>();
  expectTypeOf<RRef<Tensor<'float32'>>>().toExtend<RRef<Tensor>>();
  expectTypeOf<RRef<Tensor<'float32'>[]>>().toExtend<RRef<Tensor[]>>();
  expectTypeOf<RRef<number>>().toExtend<RRef<unknown>>();
  expectTypeOf<RRef<Server>>().toExtend<RRef<unknown>>();
  expectTypeOf<RRef<string>>().not.toExtend<RRef<number>>();
});
