/** @file How a RemoteModule may be called: by all signatures of its module, and where that is not known. */
import { expect, it } from 'vitest';
import { nn, ones, type Tensor } from '@backwire/tensor';
import { useAgents } from '../test/agents.ts';
import { RemoteModule } from './index.ts';

const { at } = useAgents('remote-module-signatures', 2, { onLeak: 'throw' });

it('has all signatures of the module', () =>
  at(0, async () => {
    const lstm = await RemoteModule.create('w1', nn.LSTM, [2, 3]);
    const x = ones([4, 1, 2]);
    const [y, [h]] = await lstm.forward(x);
    expect([y.shape, h.shape]).toEqual([
      [4, 1, 3],
      [1, 1, 3],
    ]);
    const [z] = await lstm.forwardWith({ timeoutMs: 5_000 }, x, [h, h]);
    expect(z.shape).toEqual([4, 1, 3]);
    const refused = () => {
      // @ts-expect-error -- no signature takes a number
      void lstm.forward(3);
      // @ts-expect-error -- nor nothing
      void lstm.forward();
    };
    expect(refused).toBeTypeOf('function');
    lstm.getModuleRRef().dispose();
  }));

it('is called where its module is not known, and where it may be any', () =>
  at(0, async () => {
    const call = async <M extends nn.Module & nn.Callable>(
      module: RemoteModule<M>,
      ...args: Parameters<M['forward']>
    ): Promise<Awaited<ReturnType<M['forward']>>> => module.forward(...args);
    const linear = await RemoteModule.create('w1', nn.Linear, [2, 3]);
    expect((await call(linear, ones([4, 2]))).shape).toEqual([4, 3]);
    const loose = linear as RemoteModule<any>;
    const sum = (await loose.forward(ones([4, 2]))) as Tensor;
    expect(sum.shape).toEqual([4, 3]);
    linear.getModuleRRef().dispose();
  }));
