/** @file scope and keep: what is freed, what lives, across await and throws. */
import { describe, expect, it } from 'vitest';
import { ambient } from './ambient.ts';
import { adoptIntoScope, untracked } from './scope.ts';
import { keep, memory, nn, optim, scope, tensor, zeros, type Tensor } from './index.ts';

describe('scope', () => {
  it('frees what is neither returned nor kept, and returns any structure', () => {
    const made: Tensor[] = [];
    const make = (): Tensor => {
      const t = zeros([2]);
      made.push(t);
      return t;
    };
    const out = scope(() => {
      make();
      keep(make());
      return { list: [make()], map: new Map([['a', make()]]), set: new Set([make()]) };
    });
    expect(made.map((t) => t.disposed)).toEqual([true, false, false, false, false]);
    expect(out.list[0]).toBe(made[2]);
  });

  it('is named where a tensor is used that it freed', () => {
    let inner: Tensor | undefined;
    scope(() => {
      inner = zeros([2]);
    });
    expect(() => inner?.add(1)).toThrow(/^this tensor was disposed \(at the end of the scope .* keep\(\) it\)$/);
  });

  it('hands results to the scope around it', () => {
    let inner: Tensor | undefined;
    scope(() => {
      inner = scope(() => zeros([2]).add(1));
      expect(inner.disposed).toBe(false);
    });
    expect(inner?.disposed).toBe(true);
  });

  it('keeps through all scopes around', () => {
    const kept = scope(() => {
      scope(() => keep(zeros([1])));
      return scope(() => {
        const t = zeros([1]);
        keep(t);
        return t;
      });
    });
    expect(kept.disposed).toBe(false);
  });

  it('holds across await, for scopes that run at once', async () => {
    const made: Tensor[] = [];
    const run = async (n: number): Promise<Tensor> =>
      scope(async () => {
        const a = zeros([n]);
        await new Promise((resolve) => setTimeout(resolve, n));
        const b = a.add(1);
        made.push(a);
        await Promise.resolve();
        return b.mul(2);
      });
    const results = await Promise.all([run(3), run(1), run(2)]);
    expect(results.map((t) => t.size)).toEqual([3, 1, 2]);
    expect(results.every((t) => !t.disposed)).toBe(true);
    expect(made.every((t) => t.disposed)).toBe(true);
  });

  it("takes nothing any more once it has ended: what its code makes then is that of a scope around it, or nobody's", async () => {
    const made: Tensor[] = [];
    let ended: { readonly owned: Set<unknown> } | undefined;
    let goOn = (): void => undefined;
    const again = new Promise<void>((resolve) => (goOn = resolve));
    const background = async (): Promise<void> => {
      await again;
      made.push(zeros([1]));
      // Results of scopes that are opened later have nowhere else to go either.
      made.push(scope(() => zeros([1]).add(1)));
      made.push(await scope(async () => zeros([1])));
      adoptIntoScope(untracked(() => zeros([1])));
    };
    const outer = scope(async () => {
      const inner = scope(() => {
        ended = ambient().scope as typeof ended;
        return { done: background() };
      });
      goOn();
      await inner.done;
      expect(made.map((t) => t.disposed)).toEqual([false, false, false]);
    });
    await outer;
    expect(made.splice(0).map((t) => t.disposed)).toEqual([true, true, true]);
    expect(ended?.owned.size).toBe(0);

    const others = scope(async () => {
      const { done } = scope(() => ({ done: again.then(background) }));
      return { done };
    });
    const elsewhere = scope(() => new Promise<void>((resolve) => setTimeout(resolve, 5)));
    await (
      await others
    ).done;
    await elsewhere;
    expect(made.map((t) => t.disposed)).toEqual([false, false, false]);
  });

  it('frees on a throw and on a rejection', async () => {
    let a: Tensor | undefined;
    expect(() =>
      scope(() => {
        a = zeros([1]);
        throw new Error('no');
      }),
    ).toThrow('no');
    expect(a?.disposed).toBe(true);
    let b: Tensor | undefined;
    await expect(
      scope(async () => {
        b = zeros([1]);
        await Promise.resolve();
        throw new Error('later');
      }),
    ).rejects.toThrow('later');
    expect(b?.disposed).toBe(true);
  });

  it('leaves the buffers of modules alone', () => {
    const norm = scope(() => new nn.BatchNorm1d(2));
    expect(
      norm.forward(
        tensor([
          [1, 2],
          [3, 4],
        ]),
      ).shape,
    ).toEqual([2, 2]);
    expect(norm.stateDict().get('running_mean')?.disposed).toBe(false);
  });

  it('leaves parameters, gradients, optimiser state and saved values alone', () => {
    const { model, loss } = scope(() => {
      const net = new nn.Linear(2, 1);
      const hidden = net.forward(tensor([[1, 2]]));
      return { model: net, loss: hidden.mul(hidden).sum() };
    });
    const opt = new optim.Adam(model.parameters());
    scope(() => {
      loss.backward();
      opt.step();
    });
    expect(model.weight.disposed).toBe(false);
    expect(model.weight.grad?.disposed).toBe(false);
    expect(() => opt.step()).not.toThrow();
  });

  it('frees all of a training step', () => {
    const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 2));
    const opt = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 });
    const x = zeros([3, 4]);
    const step = (): void =>
      scope(() => {
        opt.zeroGrad();
        model.forward(x).square().mean().backward();
        opt.step();
      });
    step();
    step();
    const before = memory();
    for (let i = 0; i < 5; i++) step();
    expect(memory()).toEqual(before);
  });
});
