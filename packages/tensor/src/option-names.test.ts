/** @file Options that do not exist: refused, and the one that was meant is named. */
import { describe, expect, it } from 'vitest';
import {
  arange,
  conv2d,
  crossEntropy,
  distributions,
  full,
  linspace,
  mseLoss,
  loadSafetensors,
  nn,
  optim,
  randint,
  randn,
  saveSafetensors,
  tensor,
  zeros,
  type Tensor,
} from './index.ts';
import { checkOptionNames, nearestName, optionNames } from './option-names.ts';

const known = optionNames<{ worldSize: 1; timeoutMs: 1; lr: 1; weightDecay: 1; secretFile: 1; nesterov: 1 }>()(
  'worldSize timeoutMs lr weightDecay secretFile nesterov',
);

describe('the name that was meant', () => {
  it.each([
    ['worldsize', 'worldSize'],
    ['world_size', 'worldSize'],
    ['WORLD-SIZE', 'worldSize'],
    ['wordlSize', 'worldSize'],
    ['timeout', 'timeoutMs'],
    ['timeOutMS', 'timeoutMs'],
    ['learningRate', 'lr'],
    ['learning_rate', 'lr'],
    ['weigthDecay', 'weightDecay'],
    ['secret_file', 'secretFile'],
    ['Nestrov', 'nesterov'],
  ])('by %s is %s', (given, meant) => {
    expect(nearestName(given, known)).toBe(meant);
    expect(() => checkOptionNames({ [given]: 1 }, known, 'f()')).toThrow(
      `f(): unknown option '${given}'; did you mean '${meant}'?`,
    );
  });

  it('is not guessed when nothing is like it: all are named', () => {
    expect(nearestName('colour', known)).toBeUndefined();
    expect(() => checkOptionNames({ colour: 1 }, known, 'f()')).toThrow(
      "f(): unknown option 'colour'; it takes worldSize, timeoutMs, lr, weightDecay, secretFile, nesterov",
    );
  });
});

it('own names count alone, whatever they are', () => {
  expect(() => checkOptionNames(undefined, known, 'f()')).not.toThrow();
  expect(() => checkOptionNames(Object.create({ other: 1 }) as object, known, 'f()')).not.toThrow();
  expect(() => checkOptionNames({ lr: 1 }, known, 'f()')).not.toThrow();
  expect(() => checkOptionNames(JSON.parse('{"__proto__": 1}') as object, known, 'f()')).toThrow("option '__proto__'");
  expect(() => checkOptionNames({ constructor: 1 }, known, 'f()')).toThrow("option 'constructor'");
  expect(() => checkOptionNames({ ['x'.repeat(10_000)]: 1 }, known, 'f()')).toThrow(/^.{0,200}$/);
});

describe('tensors, modules and optimizers', () => {
  const x = (): Tensor => zeros([1, 1, 4, 4]);
  const wrong: [string, () => unknown, string, string][] = [
    ['tensor()', () => tensor([1], { dytpe: 'float64' } as object), 'dytpe', 'dtype'],
    ['zeros()', () => zeros([1], { requires_grad: true } as object), 'requires_grad', 'requiresGrad'],
    ['full()', () => full([1], 1, { Dtype: 'int32' } as object), 'Dtype', 'dtype'],
    ['arange()', () => arange(0, 1, 1, { type: 'int32' } as object), 'type', 'dtype'],
    ['linspace()', () => linspace(0, 1, 2, { type: 'int32' } as object), 'type', 'dtype'],
    ['randn()', () => randn([1], { requireGrad: true } as object), 'requireGrad', 'requiresGrad'],
    ['add()', () => zeros([1]).add(1, { aplha: 2 } as object), 'aplha', 'alpha'],
    ['add_()', () => zeros([1]).add_(1, { aplha: 2 } as object), 'aplha', 'alpha'],
    ['addmm()', () => zeros([1, 1]).addmm(zeros([1, 1]), zeros([1, 1]), { Beta: 2 } as object), 'Beta', 'beta'],
    ['allClose()', () => zeros([1]).allClose(zeros([1]), { rTol: 1 } as object), 'rTol', 'rtol'],
    ['variance()', () => zeros([2]).variance(0, { keepdim: true } as object), 'keepdim', 'keepDim'],
    ['mseLoss()', () => mseLoss(x(), x(), { reductoin: 'sum' } as object), 'reductoin', 'reduction'],
    [
      'crossEntropy()',
      () => crossEntropy(zeros([1, 2]), tensor([0n]), { smoothing: 1 } as object),
      'smoothing',
      'labelSmoothing',
    ],
    ['conv2d()', () => conv2d(x(), zeros([1, 1, 1, 1]), { strides: 1 } as object), 'strides', 'stride'],
    ['randint()', () => randint(0, 1, [1], { Dtype: 'int32' } as object), 'Dtype', 'dtype'],
    ['indexPut()', () => zeros([1]).indexPut([0], 1, { acumulate: true } as object), 'acumulate', 'accumulate'],
    [
      'unpadSequence()',
      () => nn.utils.rnn.unpadSequence(zeros([1, 1]), [1], { batch_first: true } as object),
      'batch_first',
      'batchFirst',
    ],
    [
      'distributions.Independent',
      () => new distributions.Independent(new distributions.Normal(0, 1), 0, { validateargs: true } as object),
      'validateargs',
      'validateArgs',
    ],
    ['nn.Linear', () => new nn.Linear(1, 1, { Bias: false } as object), 'Bias', 'bias'],
    ['nn.LSTM', () => new nn.LSTM(1, 1, { numLayer: 2 } as object), 'numLayer', 'numLayers'],
    ['nn.Conv2d', () => new nn.Conv2d(1, 1, 1, { paddding: 1 } as object), 'paddding', 'padding'],
    ['nn.Embedding', () => new nn.Embedding(1, 1, { Sparse: true } as object), 'Sparse', 'sparse'],
    ['nn.LayerNorm', () => new nn.LayerNorm(1, { epsilon: 1 } as object), 'epsilon', 'eps'],
    ['nn.BatchNorm', () => new nn.BatchNorm1d(1, { momentun: 1 } as object), 'momentun', 'momentum'],
    [
      'loadStateDict()',
      () => new nn.Linear(1, 1).loadStateDict(new Map(), { Strict: false } as object),
      'Strict',
      'strict',
    ],
    ['optim.SGD', () => new optim.SGD([zeros([1])], { learningRate: 1 } as never), 'learningRate', 'lr'],
    ['optim.AdamW', () => new optim.AdamW([zeros([1])], { weight_decay: 1 } as object), 'weight_decay', 'weightDecay'],
    ['optim.RMSprop', () => new optim.RMSprop([zeros([1])], { maximise: true } as object), 'maximise', 'maximize'],
    [
      'backward()',
      () =>
        zeros([], { requiresGrad: true })
          .mul(1)
          .backward(undefined, { retain_graph: true } as object),
      'retain_graph',
      'retainGraph',
    ],
  ];
  it.each(wrong)('%s refuses a misspelt option and names the right one', (_what, run, given, meant) => {
    expect(run).toThrow(TypeError);
    expect(run).toThrow(`unknown option '${given}'; did you mean '${meant}'?`);
  });

  it.each([
    [
      'no options',
      () => new (optim.SGD as unknown as new (p: Tensor[]) => unknown)([zeros([1])]),
      'optim.SGD needs options, an object such as { lr: 0.01 }; none were given',
    ],
    ['a number', () => new optim.SGD([zeros([1])], 0.1 as never), 'got 0.1'],
    [
      'a module',
      () => new optim.SGD(new nn.Linear(1, 1) as never, { lr: 1 }),
      'takes a list of parameters, such as model.parameters(); got an object of class Linear',
    ],
    ['numbers', () => new optim.Adam([1, 2] as never), 'optim.Adam takes tensors; parameter 0 is 1'],
  ])('an optimizer that is given %s says what it needs', (_what, run, text) => {
    expect(run).toThrow(text);
  });
});

describe('losses', () => {
  const modules = Object.entries(nn).filter(([name]) => name.endsWith('Loss'));

  it('are all tried', () => {
    expect(modules).toHaveLength(17);
  });

  it.each(modules)(
    'nn.%s refuses an option that it does not have, and a reduction that there is not, when it is made',
    (name, Loss) => {
      const make = (options: object): unknown => new (Loss as new (options: object) => unknown)(options);
      expect(() => make({ reductoin: 'sum' })).toThrow(
        `nn.${name}: unknown option 'reductoin'; did you mean 'reduction'?`,
      );
      expect(() => make({ reduction: 'avg' })).toThrow(`nn.${name}: options.reduction is 'sum' or 'mean' or 'none'`);
      expect(() => make({ reduction: 'sum' })).not.toThrow();
    },
  );
});

describe('an argument of another kind is named', () => {
  const x = (): Tensor => zeros([2, 2]);
  const later = Promise.resolve(zeros([2, 2])) as unknown as Tensor;
  const loose = (value: unknown): never => value as never;
  const wrong: [string, () => unknown, string | RegExp][] = [
    ['a promise beside a tensor', () => x().add(later), 'add(): b is a number or a Tensor, got a Promise: await it'],
    ['a promise in a product', () => x().matmul(later), 'matmul(): b is a Tensor, got a Promise: await it'],
    ['a promise for a loss', () => mseLoss(later, x()), 'mseLoss(): a is a Tensor, got a Promise: await it'],
    [
      'a promise for a layer',
      () => new nn.Linear(2, 2).forward(later),
      'linear(): x is a Tensor, got a Promise: await it',
    ],
    [
      'a target that is missing',
      () => crossEntropy(x(), loose(undefined)),
      'crossEntropy(): target is a Tensor, got undefined',
    ],
    ['a list for a tensor', () => mseLoss(loose([1]), x()), 'mseLoss(): a is a Tensor, got a list'],
    [
      'a reduction that there is not',
      () => mseLoss(x(), x(), { reduction: loose('avg') }),
      "mseLoss(): options.reduction is 'sum' or 'mean' or 'none', got the text 'avg'",
    ],
    [
      'options for a dimension',
      () => x().sum(loose({ dim: 0 })),
      'sum(): dim is a number or a list of numbers, got an object with dim',
    ],
    [
      'options for the dimension of a softmax',
      () => x().softmax(loose({ dim: 0 })),
      'softmax(): dim is a number, got an object with dim',
    ],
    [
      'the largest of all, which is another function here',
      () => x().max(loose(undefined)),
      'max(): dim is a number, got undefined; amax() is the largest of all elements, maximum() the larger of two tensors',
    ],
    [
      'the smaller of two tensors, which is another function here',
      () => x().min(loose(x())),
      'min(): dim is a number, got an object of class Tensor; amin() is the smallest of all elements, minimum() the smaller of two tensors',
    ],
    ['sizes that are no list', () => zeros(loose(2)), 'a shape is a list of whole numbers, such as [2, 3]; got 2'],
    ['a shape that is no list', () => x().reshape(loose(4)), 'reshape(): shape is a list of numbers, got 4'],
    ['sizes to expand to that are no list', () => x().expand(loose(4)), 'expand(): shape is a list of numbers, got 4'],
    ['dimensions that are no list', () => x().permute(loose(0)), 'permute(): dims is a list of numbers, got 0'],
    [
      'options in the place of a gradient',
      () =>
        tensor([1], { requiresGrad: true })
          .sum()
          .backward(loose({ retainGraph: true })),
      'backward(undefined, { retainGraph: true }); got an object with retainGraph',
    ],
    [
      'a dtype by half of its name',
      () => zeros([1], { dtype: loose('float') }),
      /unknown dtype 'float'; did you mean 'float\d\d'\?/,
    ],
    [
      'a dtype that there is not',
      () => zeros([1], { dtype: loose('text') }),
      "unknown dtype 'text'; there are float32, ",
    ],
    [
      'a rate that is a text',
      () => new optim.SGD([x()], { lr: loose('0.1') }),
      "optim.SGD: lr is a number, got the text '0.1'",
    ],
    [
      'one beta',
      () => new optim.Adam([x()], { betas: loose(0.9) }),
      'optim.Adam: betas is a list of 2 numbers, got 0.9',
    ],
    [
      'a number for a switch',
      () => new optim.SGD([x()], { lr: 1, momentum: 1, nesterov: loose(1) }),
      'optim.SGD: nesterov is true or false, got 1',
    ],
    [
      'a rate of a group that is a text',
      () => new optim.SGD([{ params: [x()], lr: loose('1') }], { lr: 1 }),
      "a parameter group of optim.SGD: lr is a number, got the text '1'",
    ],
    [
      'an object of weights',
      () => new nn.Linear(1, 1).loadStateDict(loose({ weight: x() })),
      'loadStateDict() takes a Map of tensors, as stateDict() gives; got an object with weight',
    ],
    [
      'a file to save to',
      () => saveSafetensors(loose('weights.safetensors')),
      "saveSafetensors() takes a Map of tensors, as stateDict() gives, and returns bytes; got the text 'weights.safetensors'",
    ],
    [
      'a file to load from',
      () => loadSafetensors(loose('weights.safetensors')),
      'loadSafetensors() takes the bytes of a file, as readFile() gives; got the text',
    ],
  ];
  it.each(wrong)('%s', (_what, run, text) => {
    expect(run).toThrow(text);
  });
});
