/** @file Optimisers as programs handle them: options that change, state dicts, complex parameters, sparse gradients. */
import { describe, expect, it } from 'vitest';
import { fromBytes, nn, optim, sparseCooTensor, tensor, type DType, type Tensor } from '../index.ts';

type Nested = number | number[] | number[][];

function leaf(values: Nested, dtype: DType = 'float32'): Tensor {
  return tensor(values, { requiresGrad: true, dtype });
}

/** The parameter after a step for each of `gradients`. */
function walk(make: (p: Tensor[]) => optim.Optimizer, start: Nested, gradients: readonly Nested[]): unknown {
  const p = leaf(start);
  const optimizer = make([p]);
  for (const g of gradients) optimizer.step([tensor(g)]);
  return p.toArray();
}

function complex(pairs: readonly number[][]): Tensor {
  return fromBytes(new Uint8Array(Float32Array.from(pairs.flat()).buffer), [pairs.length], 'complex64');
}

describe('options', () => {
  it('may be changed between steps', () => {
    const p = leaf([1]);
    const optimizer = new optim.SGD([p], { lr: 1 });
    optimizer.step([tensor([1])]);
    optimizer.paramGroups[0].lr = 0.5;
    optimizer.step([tensor([1])]);
    expect(p.toArray()).toEqual([-0.5]);
    optimizer.paramGroups[0]['momentum'] = 1;
    for (let i = 0; i < 2; i++) optimizer.step([tensor([1])]);
    // Velocities 1 and 2: the first gradient enters as it is.
    expect(p.toArray()).toEqual([-2]);
  });

  it('stand at their defaults when undefined', () => {
    const given = { lr: undefined, betas: undefined } as unknown as optim.AdamOptions;
    expect(walk((p) => new optim.Adam(p, given), [1], [[1]])).toEqual(walk((p) => new optim.Adam(p), [1], [[1]]));
    expect(new optim.SGD([leaf([1])], { lr: undefined as unknown as number }).paramGroups[0].lr).toBe(1e-3);
    expect(() => new optim.Adam([leaf([1])], { lr: -1 })).toThrow('Invalid learning rate: -1');
    expect(() => new optim.RMSprop([leaf([1])], { alpha: NaN })).toThrow('Invalid alpha value: NaN');
  });

  it.each(['SGD', 'Adam', 'AdamW', 'Adamax', 'RAdam', 'Adagrad', 'Adadelta', 'RMSprop', 'Rprop'] as const)(
    '%s maximizes as it minimizes the negative',
    (name) => {
      const gradients = [
        [1, -2],
        [0.5, 3],
      ];
      const up = walk((p) => new optim[name](p, { lr: 0.1, maximize: true }), [1, 2], gradients);
      const negative = gradients.map((g) => g.map((v) => -v));
      expect(up).toEqual(walk((p) => new optim[name](p, { lr: 0.1 }), [1, 2], negative));
    },
  );
});

describe('parameters', () => {
  it('are stepped once: named twice they are refused, in a group and across groups', () => {
    const [p, q, r] = [leaf([1]), leaf([2]), leaf([3])];
    const again = 'optim.SGD: parameter 2 is parameter 0 again, and would be stepped twice: leave one of them out';
    expect(() => new optim.SGD([p, q, p], { lr: 1 })).toThrow(again);
    expect(() => new optim.SGD([{ params: [p, q, p] }], { lr: 1 })).toThrow(again);
    const across = 'some parameters appear in more than one parameter group';
    expect(() => new optim.SGD([{ params: [p] }, { params: [q, p] }], { lr: 1 })).toThrow(across);
    const optimizer = new optim.SGD([p, q], { lr: 1 });
    expect(() => optimizer.addParamGroup({ params: [r, q] })).toThrow(across);
    expect(() => optimizer.addParamGroup({ params: [r, r] })).toThrow('parameter 3 is parameter 2 again');
    expect([optimizer.params, optimizer.paramGroups.length]).toEqual([[p, q], 1]);
    optimizer.step([tensor([1]), tensor([1])]);
    expect([p.item(), q.item(), r.item()]).toEqual([0, 1, 3]);
  });

  it('of tied weights come once', () => {
    const [one, two] = [new nn.Linear(2, 2), new nn.Linear(2, 2)];
    Object.assign(two, { weight: one.weight });
    const model = new nn.Sequential(one, two);
    expect(model.parameters().length).toBe(3);
    expect(new optim.SGD(model.parameters(), { lr: 1 }).params.length).toBe(3);
  });
});

describe('complex parameters', () => {
  it.each(['SGD', 'Adam', 'AdamW', 'Adamax', 'RAdam', 'Adagrad', 'Adadelta', 'RMSprop', 'Rprop'] as const)(
    '%s updates as pairs of real numbers',
    (name) => {
      const pairs = (v: number[]): Tensor => complex([v.slice(0, 2), v.slice(2)]);
      const p = pairs([1, 2, 3, 4]);
      p.requiresGrad = true;
      const real = leaf([1, 2, 3, 4]);
      const steps = [
        [1, -1, 2, 0.5],
        [-1, 3, 0.25, 1],
      ];
      const [a, b] = [new optim[name]([p], { lr: 0.1 }), new optim[name]([real], { lr: 0.1 })];
      for (const g of steps) {
        a.step([pairs(g)]);
        b.step([tensor(g)]);
      }
      expect(p.dataSync()).toEqual(real.dataSync());
    },
  );

  it('are the only ones with complex gradients', () => {
    const optimizer = new optim.SGD([leaf([1])], { lr: 1 });
    expect(() => optimizer.step([complex([[1, 2]])])).toThrow('gradient 0 is complex64, its parameter float32');
    expect(() => new optim.SGD([tensor([1], { dtype: 'int64' })], { lr: 1 })).toThrow(
      "can't optimize a tensor of int64",
    );
  });
});

describe('gradients of integers', () => {
  it.each(['int64', 'bool', 'uint8'] as const)('of %s are refused by name', (dtype) => {
    const p = tensor([1, 2], { requiresGrad: true });
    const step = (): void => new optim.SGD([p], { lr: 0.1 }).step([tensor([1, 0]).to(dtype)]);
    expect(step).toThrow(`SGD.step() does not take ${dtype}: it takes float16, bfloat16`);
    expect(p.toArray()).toEqual([1, 2]);
  });
});

describe('RAdam', () => {
  it('adapts its rate only once the second moment is known', () => {
    const p = leaf([1, 2]);
    const optimizer = new optim.RAdam([p], { lr: 0.1, weightDecay: 0.1, decoupledWeightDecay: true });
    // PyTorch 2.13's: the first five steps are those of momentum.
    for (const [i, expected] of [
      [0.89, 2.18],
      [0.7284684181, 2.463463306],
      [0.5141726136, 2.852850914],
      [0.2459020317, 3.350580215],
      [-0.0775284171, 3.959017277],
      [-0.0792743862, 3.921948433],
      [-0.0817130134, 3.885960341],
      [-0.0847637132, 3.850968599],
    ].entries()) {
      optimizer.step([tensor([1, -2]).mul(i + 1)]);
      expect(p.allClose(tensor(expected), { rtol: 1e-6, atol: 1e-7 })).toBe(true);
    }
  });
});

describe('RMSprop', () => {
  it('has no variance below zero where gradients stay the same', () => {
    const p = leaf([0]);
    const optimizer = new optim.RMSprop([p], { lr: 0.01, alpha: 0.5, centered: true, eps: 1e-4 });
    for (let i = 0; i < 40; i++) optimizer.step([tensor([0.3])]);
    expect(Number.isFinite(p.item())).toBe(true);
  });
});

describe('sparse gradients', () => {
  const rows = (at: number[], values: number[][]): Tensor =>
    sparseCooTensor(tensor([at], { dtype: 'int64' }), tensor(values), [3, 2]);

  it.each([
    { momentum: 0.9 },
    { momentum: 0.5, dampening: 0.25 },
    { momentum: 0.9, nesterov: true },
    { maximize: true },
  ])('enter SGD with %o as dense ones do', (options) => {
    const start = [
      [1, 2],
      [3, 4],
      [5, 6],
    ];
    const [a, b] = [leaf(start), leaf(start)];
    const [sparse, dense] = [new optim.SGD([a], { lr: 0.5, ...options }), new optim.SGD([b], { lr: 0.5, ...options })];
    for (const g of [
      rows(
        [0, 0],
        [
          [1, 2],
          [1, 1],
        ],
      ),
      rows([2], [[4, 4]]),
      rows([0], [[-1, 2]]),
    ]) {
      sparse.step([g]);
      dense.step([g.toDense()]);
    }
    expect(a.toArray()).toEqual(b.toArray());
  });

  it('move the rows that they name, and their moments, in SparseAdam', () => {
    const p = leaf([[1, 2], [3, 4], [5, 6]]); // prettier-ignore
    const optimizer = new optim.SparseAdam([p], { lr: 0.5, betas: [0.5, 0.75] });
    for (const g of [
      rows(
        [0, 0, 2],
        [
          [1, -2],
          [1, 0],
          [4, 0.5],
        ],
      ),
      rows([2], [[4, 4]]),
      rows([0], [[-1, 2]]),
    ])
      // prettier-ignore
      optimizer.step([g]);
    // PyTorch 2.13's.
    const { step, exp_avg: mean, exp_avg_sq: square } = optimizer.stateDict().state[0] as Record<string, Tensor>;
    expect(p.allClose(tensor([[0.5, 2.3357808589935303], [3, 4], [4, 5.034203052520752]]))).toBe(true); // prettier-ignore
    expect([step, mean?.toArray(), square?.toArray()]).toEqual([
      3,
      [[0, 0.5], [0, 0], [3, 2.125]], // prettier-ignore
      [[1, 1.75], [0, 0], [7, 4.046875]], // prettier-ignore
    ]);
  });

  it('are all that SparseAdam takes: a dense one, or a setting that is none, changes nothing', () => {
    const [a, b] = [leaf([[1, 2], [3, 4], [5, 6]]), leaf([1])]; // prettier-ignore
    const optimizer = new optim.SparseAdam([a, b], { lr: 0.5 });
    const dense = (): void => optimizer.step([rows([0], [[1, 1]]), tensor([1])]);
    expect(dense).toThrow('SparseAdam does not support dense gradients, please consider Adam instead');
    expect([a.toArray(), optimizer.stateDict().state]).toEqual([[[1, 2], [3, 4], [5, 6]], {}]); // prettier-ignore
    for (const [options, name] of [
      [{ lr: 0 }, 'learning rate: 0'],
      [{ eps: 0 }, 'epsilon value: 0'],
      [{ betas: [0.5, 1] }, 'beta parameter at index 1: 1'],
    ] as const)
      expect(() => new optim.SparseAdam([b], options as optim.SparseAdamOptions)).toThrow(`Invalid ${name}`);
    expect(() => new optim.SparseAdam([b], { weightDecay: 1 } as optim.SparseAdamOptions)).toThrow(
      "unknown option 'weightDecay'",
    );
    expect(() => new optim.SparseAdam([complex([[1, 2]])])).toThrow(
      "SparseAdam can't optimize a tensor of complex64 (parameter 0)",
    );
  });

  it('are refused where decay would touch every row', () => {
    const e = new nn.Embedding(3, 2, { sparse: true });
    e.forward(tensor([0], { dtype: 'int64' }))
      .sum()
      .backward();
    const decay = { lr: 1, weightDecay: 0.1 };
    const why = 'with weightDecay 0.1 does not support sparse gradients: decay changes rows that they do not name';
    expect(() => new optim.SGD(e.parameters(), { ...decay, momentum: 0.9 }).step()).toThrow(`SGD ${why}`);
    expect(() => new optim.Adagrad(e.parameters(), decay).step()).toThrow(`Adagrad ${why}`);
    new optim.SGD([{ params: e.parameters(), weightDecay: 0 }], decay).step();
  });
});

describe('state dicts', () => {
  const steps = [
    [1, -2],
    [0.5, 3],
    [2, 1],
  ];

  it.each([
    ['SGD', { lr: 0.1, momentum: 0.9 }, ['momentum_buffer']],
    ['Adam', { lr: 0.1, amsgrad: true }, ['exp_avg', 'exp_avg_sq', 'max_exp_avg_sq']],
    ['Adagrad', { lr: 0.1, initialAccumulatorValue: 1 }, ['sum']],
    ['Rprop', { lr: 0.1 }, ['prev', 'step_size']],
  ] as const)('%s goes on where it was saved', (name, options, names) => {
    const make = (p: Tensor): optim.Optimizer => new optim[name]([p], options);
    const [first, second] = [leaf([1, 2]), leaf([1, 2])];
    const [a, b] = [make(first), new optim[name]([second], { lr: 7 })];
    a.step([tensor(steps[0] as number[])]);
    second.detach().copy_(first.detach());
    const saved = a.stateDict();
    expect(Object.keys(saved.state[0] as object)).toEqual(['step', ...names]);
    expect(saved.paramGroups[0]).toMatchObject({ ...options, maximize: false, params: [0] });
    b.loadStateDict(saved);
    for (const g of steps.slice(1)) for (const o of [a, b]) o.step([tensor(g)]);
    expect(second.toArray()).toEqual(first.toArray());
    // A snapshot: the steps after it did not change it.
    expect(saved.state[0]?.['step']).toBe(1);
  });

  it.each(
    (['SGD', 'Adam', 'AdamW', 'Adamax', 'RAdam', 'Adagrad', 'Adadelta', 'RMSprop', 'Rprop'] as const).flatMap((name) =>
      (
        [
          ['double', 'float'],
          ['float', 'double'],
          ['half', 'double'],
        ] as const
      ).map((way) => [name, ...way] as const),
    ),
  )('of %s follow a module that is made %s and then %s', (name, before, after) => {
    const module = new nn.Linear(2, 1, { bias: false });
    module[before]();
    const options = name === 'SGD' ? { lr: 0.1, momentum: 0.9 } : { lr: 0.1 };
    const stepped = new optim[name](module.parameters(), options);
    const step = (o: optim.Optimizer, g: readonly number[]): void =>
      o.step([tensor([[...g]], { dtype: module.weight.dtype as 'float32' })]);
    step(stepped, steps[0] as number[]);
    const saved = stepped.stateDict();
    module[after]();
    const converted = stepped.stateDict().state[0] as Record<string, Tensor | number>;
    for (const [key, value] of Object.entries(saved.state[0] as object))
      expect(plain(converted[key])).toEqual(plain(value as Tensor | number));
    const start = module.weight.detach().clone();
    for (const g of steps.slice(1)) step(stepped, g);
    const reached = module.weight.toArray();
    module.weight.detach().copy_(start);
    // What loads a state makes it what its parameters are.
    const loaded = new optim[name](module.parameters(), options);
    loaded.loadStateDict(saved);
    for (const g of steps.slice(1)) step(loaded, g);
    expect(reached).toEqual(module.weight.toArray());
  });

  it('must fit, or change nothing', () => {
    const trained = (shape: Nested): optim.OptimizerState => {
      const p = leaf(shape);
      const optimizer = new optim.Adam([p], { lr: 0.5 });
      optimizer.step([p.detach()]);
      return optimizer.stateDict();
    };
    const optimizer = new optim.Adam([leaf([1, 2])]);
    expect(() => optimizer.loadStateDict(trained([1]))).toThrow(
      "loaded 'exp_avg' of parameter 0 is [1] instead of [2]",
    );
    const two = new optim.Adam([leaf([1]), leaf([1])]).stateDict();
    expect(() => optimizer.loadStateDict(two)).toThrow(/doesn't match the size/);
    expect(() => new optim.SGD([leaf([1, 2])], { lr: 1 }).loadStateDict(trained([1, 2]))).toThrow(/'betas'/);
    const wrong = trained([1, 2]);
    expect(() => optimizer.loadStateDict({ ...wrong, paramGroups: [{ ...wrong.paramGroups[0], lr: -1 }] })).toThrow(
      'Invalid learning rate: -1',
    );
    expect(optimizer.paramGroups[0].lr).toBe(1e-3);
    expect(optimizer.stateDict().state).toEqual({});
  });

  it.each<[change: object, said: string]>([
    [{ lr: '0.1' }, "lr is a number, got the text '0.1'"],
    [{ betas: undefined }, 'betas is a list of 2 numbers, got undefined'],
    [{ betas: [0.9] }, 'betas is a list of 2 numbers, got a list'],
    [{ eps: null }, 'eps is a number, got null'],
    [{ amsgrad: 0 }, 'amsgrad is true or false, got 0'],
  ])('with %o are refused by the option and the group', (change, said) => {
    const optimizer = new optim.Adam([{ params: [leaf([1])] }, { params: [leaf([2])], lr: 0.5 }]);
    const before = optimizer.stateDict();
    const [first, second] = before.paramGroups;
    const load = (): void =>
      optimizer.loadStateDict({ ...before, paramGroups: [{ ...first }, { ...second, ...change }] });
    expect(load).toThrow(`group 1 of a loaded state dict of optim.Adam: ${said}`);
    expect(optimizer.stateDict()).toEqual(before);
  });
});

function plain(value: Tensor | number | undefined): unknown {
  return typeof value === 'object' ? value.toArray() : value;
}
