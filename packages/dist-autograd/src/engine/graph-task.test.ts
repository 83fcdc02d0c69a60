import { describe, expect, it } from 'vitest';
import { ones, tensor, type Tensor } from '@backwire/tensor';
import { type AccumulateGrad, gradEdge, runWith, setHistory } from '@backwire/tensor/internal';
import { filled, leaf } from '../../test/agents.ts';
import { RecvRpcBackward, SendRpcBackward } from './functions.ts';
import { GradientStore } from './gradients.ts';
import { GraphTask } from './graph-task.ts';

const pass = (n: number, worker = 0) => ({ worker, incarnation: 1, n });

function contextOf(...sends: SendRpcBackward[]) {
  return { id: 1n, sends: new Map(sends.map((send) => [send.messageId, send])), gradients: new GradientStore() };
}

function sendOf(id: number, ...tensors: Tensor[]): SendRpcBackward {
  return new SendRpcBackward(id, { path: [id], direction: 'response' }, tensors);
}

function received(from: number, id: number, values: number[]): Tensor {
  const t = tensor(values, { requiresGrad: true });
  setHistory([t], new RecvRpcBackward(1n, from, id, 1));
  return t;
}

const node = (t: Tensor): AccumulateGrad => gradEdge(t)?.node as AccumulateGrad;

describe('the local part of a pass', () => {
  it('gives the gradients that came to where the tensors came from', () => {
    const a = leaf([2], 3);
    const context = contextOf(sendOf(7, a.mul(2), a));
    const task = new GraphTask(context, pass(1), [], false, () => false);
    expect(task.walk([7])).toEqual([]);
    task.seal();
    expect(task.run({ message: 7, grads: [ones([2]), filled([2], 5)] })).toEqual([]);
    expect(context.gradients.get(node(a))).toBeUndefined();
    task.commit();
    expect(context.gradients.get(node(a))?.toArray()).toEqual([7, 7]);
    expect(a.grad).toBeNull();
  });

  it('refuses gradients that are not those of its tensors', () => {
    const a = leaf([2], 3);
    const task = new GraphTask(contextOf(sendOf(7, a)), pass(1), [], false, () => false);
    task.walk([7]);
    task.seal();
    expect(() => task.run({ message: 7, grads: [ones([2]), ones([2])] })).toThrow('2 gradients for the 1 tensors');
    expect(() => task.run({ message: 7, grads: [ones([3])] })).toThrow();
    task.discard();
  });

  it('sends what leaves once all that leads to it has come, none for an output without gradient', () => {
    const x = received(4, 9, [1, 2]);
    const context = contextOf(sendOf(1, x.mul(2)), sendOf(2, x.mul(3)));
    const task = new GraphTask(context, pass(1), [], false, () => false);
    expect(task.walk([2])).toEqual([{ to: 4, message: 9 }]);
    expect(task.walk([1])).toEqual([]);
    task.seal();
    expect(task.run({ message: 2, grads: [null] })).toEqual([]);
    const fired = task.run({ message: 1, grads: [ones([2])] });
    expect(fired.map(({ to, message, grads }) => [to, message, grads.map((g) => g?.toArray())])).toEqual([
      [4, 9, [[2, 2]]],
    ]);
    task.commit();
  });

  it('sums in the order of the calls, in whatever order gradients come', () => {
    const sums = [
      [0, 1, 2],
      [2, 1, 0],
      [1, 2, 0],
    ].map((order) => {
      const a = leaf([1], 1);
      const context = contextOf(...[0, 1, 2].map((i) => sendOf(i, a.mul(1))));
      const task = new GraphTask(context, pass(1), [], false, () => false);
      task.walk([2, 0, 1]);
      task.seal();
      for (const i of order) task.run({ message: i, grads: [tensor([[1e8], [-1e8], [0.5]][i]!)] });
      task.commit();
      return context.gradients.get(node(a))?.item();
    });
    expect(new Set(sums).size).toBe(1);
  });

  it('copies no gradient that nobody else holds, whatever views of it the pass has made', () => {
    const weight = leaf([3, 2], 1);
    const context = contextOf();
    const loss = ones([4, 2]).matmul(weight.transpose(0, 1)).sum();
    const task = new GraphTask(context, pass(1), [loss], false, () => false);
    task.walk('roots');
    task.seal();
    const run: string[] = [];
    const profile = { begin: (name: string) => void run.push(name), end: () => undefined };
    runWith({ profile }, () => task.run('roots'));
    task.commit();
    const gradient = context.gradients.get(node(weight))!;
    expect(run).toContain('MmBackward0');
    expect(run).not.toContain('aten::clone');
    expect([gradient.isContiguous, gradient.storage.refs]).toEqual([true, 1]);
    expect(gradient.toArray()).toEqual(Array.from({ length: 3 }, () => [4, 4]));
  });

  it('copies a gradient that the program holds, so that neither changes the other', () => {
    const a = leaf([2], 1);
    const held: Tensor[] = [];
    a.registerHook((grad) => void held.push(grad.detach()));
    const context = contextOf();
    const task = new GraphTask(context, pass(1), [a.mul(3).sum()], false, () => false);
    task.walk('roots');
    task.seal();
    task.run('roots');
    task.commit();
    held[0]!.zero_();
    expect(context.gradients.get(node(a))?.toArray()).toEqual([3, 3]);
  });

  it('never lets two leaves share a gradient', () => {
    const [a, b] = [leaf([2], 1), leaf([2], 1)];
    const context = contextOf();
    const task = new GraphTask(context, pass(1), [a.add(b).sum()], false, () => false);
    task.walk('roots');
    task.seal();
    task.run('roots');
    task.commit();
    const [ga, gb] = [context.gradients.get(node(a))!, context.gradients.get(node(b))!];
    ga.add_(1);
    expect([ga.toArray(), gb.toArray()]).toEqual([
      [2, 2],
      [1, 1],
    ]);
  });
});

describe('the gradients of a context', () => {
  const captured = (a: Tensor, value: number) => new Map([[node(a), filled([1], value)]]);

  it('are those of all passes but what was taken back, in whatever order that happens', () => {
    const a = leaf([1], 1);
    const store = new GradientStore();
    store.commit(pass(1), captured(a, 1));
    store.commit(pass(1, 2), captured(a, 10));
    store.commit(pass(2), captured(a, 100));
    expect(store.get(node(a))?.item()).toBe(111);
    expect(store.rollback(pass(1, 2))).toBe(true);
    expect(store.rollback(pass(1, 2))).toBe(false);
    expect(store.get(node(a))?.item()).toBe(101);
    store.rollback(pass(2));
    store.rollback(pass(1));
    expect([store.get(node(a)), store.size]).toEqual([undefined, 0]);
  });

  it("of a pass that its origin's next one does not name as failed are there to stay", () => {
    const a = leaf([1], 1);
    const store = new GradientStore();
    store.commit(pass(1), captured(a, 1));
    store.confirm(pass(2), []);
    expect(store.rollback(pass(1))).toBe(false);
    store.commit(pass(2), captured(a, 10));
    store.confirm(pass(3), [2]);
    expect(store.get(node(a))?.item()).toBe(1);
  });

  it('keep a bounded number of passes apart', () => {
    const a = leaf([1], 1);
    const store = new GradientStore();
    for (let i = 1; i <= 20; i++) store.commit(pass(1, i), captured(a, i));
    expect(store.get(node(a))?.item()).toBe(210);
    expect(store.rollback(pass(1, 1))).toBe(false);
    expect(store.rollback(pass(1, 20))).toBe(true);
    expect(store.get(node(a))?.item()).toBe(190);
  });

  it('taken by a program are its own', () => {
    const a = leaf([1], 1);
    const store = new GradientStore();
    store.commit(pass(1), captured(a, 4));
    const mine = store.snapshot();
    store.dispose();
    expect(mine.get(a)?.item()).toBe(4);
    expect([...mine].map(([t, g]) => [t === a, g.item()])).toEqual([[true, 4]]);
    mine[Symbol.dispose]();
    expect(() => mine.get(a)?.item()).toThrow('disposed');
  });
});
