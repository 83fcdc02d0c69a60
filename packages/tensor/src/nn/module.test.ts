/** @file What a module finds in its fields, and state dicts that fit in part. */
import { describe, expect, it } from 'vitest';
import {
  Parameter,
  detectAnomaly,
  loadSafetensors,
  nn,
  noGrad,
  ones,
  saveSafetensors,
  tensor,
  zeros,
  type Tensor,
} from '../index.ts';

class Child extends nn.Module {
  parent: nn.Module | undefined;
  readonly own = new nn.Linear(1, 1, { bias: false });
}

class Parent extends nn.Module {
  readonly scales = [new Parameter(ones([1])), new Parameter(zeros([2]))];
  readonly parts = [new Child(), new Child()];
  constructor() {
    super();
    for (const child of this.parts) child.parent = this;
  }
}

describe('modules', () => {
  it('find parameters and modules in arrays, and children may point back', () => {
    const parent = new Parent();
    const names = ['scales.0', 'scales.1', 'parts.0.own.weight', 'parts.1.own.weight'];
    expect(parent.namedParameters().map(([name]) => name)).toEqual(names);
    expect([...parent.stateDict().keys()]).toEqual(names);
    parent.eval();
    expect(parent.parts.map((child) => child.own.training)).toEqual([false, false]);
    const other = new Parent();
    other.loadStateDict(parent.stateDict());
    expect(other.parts[1]?.own.weight.toArray()).toEqual(parent.parts[1]?.own.weight.toArray());
  });

  it('load what fits when not strict', () => {
    const layer = new nn.Linear(2, 1);
    const bias = layer.bias?.toArray();
    const state = new Map<string, Tensor>([
      ['weight', tensor([[5, 6]])],
      ['extra', ones([1])],
    ]);
    expect(() => layer.loadStateDict(state)).toThrow(/missing 'bias'; unexpected 'extra'/);
    expect(layer.loadStateDict(state, { strict: false })).toEqual({ missing: ['bias'], unexpected: ['extra'] });
    expect([layer.weight.toArray(), layer.bias?.toArray()]).toEqual([[[5, 6]], bias]);
    const wrong = new Map([['weight', ones([3])]]);
    expect(() => layer.loadStateDict(wrong, { strict: false })).toThrow(/size mismatch for 'weight'/);
  });

  it('BatchNorm counts the batches it was trained on, under the name PyTorch files have', () => {
    const [a, b] = [new nn.BatchNorm1d(2), new nn.BatchNorm1d(2)];
    for (let i = 0; i < 2; i++) a.forward(ones([3, 2]));
    a.eval().forward(ones([3, 2]));
    expect([...a.stateDict().keys()]).toEqual(['weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked']);
    b.loadStateDict(loadSafetensors(saveSafetensors(a.stateDict())).tensors);
    const count = b.stateDict().get('num_batches_tracked');
    expect([count?.dtype, count?.shape, count?.item()]).toEqual(['int64', [], 2]);
  });

  it('refuse what cannot be', () => {
    expect(() => new nn.Dropout(2)).toThrow('dropout probability has to be between 0 and 1, but got 2');
    const x = tensor([1, 2], { requiresGrad: true });
    expect(() => (x.grad = ones([3]))).toThrow('assigned grad has data of a different size: [3] instead of [2]');
    expect(() => (x.grad = ones([2], { dtype: 'float64' }))).toThrow(/different type: float64 instead of float32/);
    x.grad = ones([2]);
    expect(x.grad.toArray()).toEqual([1, 1]);
  });

  it('show the line of the program that called them in anomaly mode, however deep the layer', () => {
    const model = new nn.Sequential(new nn.Sequential(new nn.Sequential(new nn.Linear(2, 2))), new nn.ReLU());
    noGrad(() => model.parameters()[0]?.fill_(NaN));
    const before = Error.stackTraceLimit;
    let cause: unknown;
    try {
      detectAnomaly(() => {
        const x = tensor([[1, 2]], { requiresGrad: true });
        model.forward(x).sum().backward();
      });
    } catch (error) {
      cause = (error as Error).cause;
    }
    expect(Error.stackTraceLimit).toBe(before);
    const frames = (cause as Error).message.split('\n').slice(2);
    expect(frames[0]).toContain('module.test.ts');
    expect(frames.some((line) => /nn\/(linear|sequential)\.ts/.test(line))).toBe(false);
  });
});

describe('what is in a module at several places', () => {
  class Tied extends nn.Module {
    readonly weight = new Parameter(ones([2]));
    readonly again = this.weight;
    readonly layer = new nn.Linear(1, 1, { bias: false });
    readonly same = this.layer;
    readonly list = new nn.ParameterList([this.weight, this.weight, zeros([1])]);
    readonly dict = new nn.ParameterDict({ a: this.weight, b: this.weight });
  }

  it('is listed and visited once, and saved under each path, as in PyTorch', () => {
    const tied = new Tied();
    expect(tied.namedParameters().map(([name]) => name)).toEqual(['weight', 'layer.weight', 'list.2']);
    expect(tied.namedChildren().map(([name]) => name)).toEqual(['layer', 'list', 'dict']);
    const list = new nn.ParameterList([tied.weight, tied.weight]);
    expect([list.parameters().length, [...list.stateDict().keys()]]).toEqual([1, ['0', '1']]);
    const visited: nn.Module[] = [];
    tied.apply((one) => void visited.push(one));
    expect(visited).toEqual([tied.layer, tied.list, tied.dict, tied]);
    const names = [
      ...['weight', 'again', 'layer.weight', 'same.weight', 'list.0', 'list.1', 'list.2', 'dict.a', 'dict.b'],
    ];
    expect([...tied.stateDict().keys()]).toEqual(names);
    const state = new Map(names.map((name) => [name, name.startsWith('l') ? ones([1]) : ones([2])]));
    for (const name of ['layer.weight', 'same.weight']) state.set(name, ones([1, 1]));
    for (const name of ['list.0', 'list.1']) state.set(name, ones([2]));
    expect(tied.loadStateDict(state)).toEqual({ missing: [], unexpected: [] });
  });

  it('is no circle for a visit', () => {
    const parent = new Parent();
    const visited: string[] = [];
    parent.apply((one) => void visited.push(one.constructor.name));
    expect(visited).toEqual(['Linear', 'Child', 'Linear', 'Child', 'Parent']);
  });

  it('cannot be mistaken for something else: names are single parts of a path', () => {
    const layer = new nn.Identity();
    expect(() => new nn.ModuleDict({ 'a.b': layer })).toThrow('module name can\'t contain ".", got: a.b');
    expect(() => new nn.ModuleDict().set('', layer)).toThrow("module name can't be empty string");
    expect(() => new nn.ParameterDict({ 'a.b': ones([1]) })).toThrow('parameter name can\'t contain ".", got: a.b');
    expect(() => new nn.ParameterDict().set('', ones([1]))).toThrow("parameter name can't be empty string");
  });
});

describe('state dicts that cannot be loaded', () => {
  it('change nothing: values that are no tensors, and tensors that were disposed', () => {
    const layer = new nn.Linear(1, 1);
    const before = layer.weight.toArray();
    const state = new Map([
      ['weight', ones([1, 1])],
      ['bias', 3 as unknown as Tensor],
    ]);
    expect(() => layer.loadStateDict(state)).toThrow(
      "Error(s) in loading state dict for Linear: 'bias' is 3 instead of a tensor",
    );
    const gone = ones([1]);
    gone.dispose();
    expect(() => layer.loadStateDict(state.set('bias', gone))).toThrow(/this tensor was disposed/);
    expect(layer.weight.toArray()).toEqual(before);
  });
});

describe('Module.to', () => {
  it('leaves weights alone that integers would not hold', () => {
    const layer = new nn.Linear(1, 1);
    expect(() => layer.to('int64' as 'float64')).toThrow(
      'nn.Module.to() only accepts floating point or complex dtypes, but got int64',
    );
    expect(layer.weight.dtype).toBe('float32');
  });
});
