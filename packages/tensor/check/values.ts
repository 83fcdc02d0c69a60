/** @file The elements of inputs: large ones by a formula that peer.py has too, and the weights of backward passes. */
import * as bw from '../src/index.ts';
import { isDifferentiable } from './dtypes.ts';
import type { Input } from './program.ts';

/** The elements both sides make of a pattern's number: fractions of 2048 between -2 and 2, whole numbers from 0 to 6, some truths. */
function patternOf(dtype: bw.DType, size: number, seed: number): bw.Tensor {
  const at = (i: number, salt: number): number => ((i * 7919 + salt * 104_729) % 8191) - 4095;
  if (dtype === 'bool') {
    const truths = Uint8Array.from({ length: size }, (_, i) => ((i * 7919 + seed * 131) % 3 === 0 ? 1 : 0));
    return bw.tensor(truths, { dtype });
  }
  const floats = (salt: number): Float64Array => Float64Array.from({ length: size }, (_, i) => at(i, salt) / 2048);
  if (dtype === 'complex64') return bw.complex(bw.tensor(floats(seed)), bw.tensor(floats(seed + 1)));
  if (isDifferentiable(dtype)) return bw.tensor(floats(seed), { dtype });
  return bw.tensor(
    Float64Array.from({ length: size }, (_, i) => ((at(i, seed) % 7) + 7) % 7),
    { dtype },
  );
}

/** A leaf of the given elements. */
export function makeInput({ dtype, shape, data, pattern, requiresGrad }: Input): bw.Tensor {
  const t =
    data === undefined
      ? patternOf(
          dtype,
          shape.reduce((a, b) => a * b, 1),
          pattern,
        ).reshape(shape)
      : bw.fromBytes(new Uint8Array(data), shape, dtype);
  const leaf = t.detach();
  if (requiresGrad) leaf.requiresGrad = true;
  return leaf;
}

/** What a result is weighted by in a backward pass: no weight is zero, every dtype holds them. */
export function weights(t: bw.Tensor): bw.Tensor {
  const of = (step: number): Float64Array =>
    Float64Array.from({ length: t.size }, (_, i) => ((i * step) % 16) / 8 - 0.9375);
  if (t.dtype === 'complex64') return bw.complex(bw.tensor(of(37)), bw.tensor(of(29))).reshape(t.shape);
  return bw.tensor(of(37), { dtype: t.dtype, shape: t.shape });
}

/** Weighted gradients of a result; of one that requires none, nothing. */
export function backward(
  t: bw.Tensor | null,
  options: { retainGraph?: boolean; createGraph?: boolean } = {},
): undefined {
  if (t === null || !(t instanceof bw.Tensor) || !t.requiresGrad) return;
  const dense = t.layout === 'sparse_coo' ? t.toDense() : t;
  dense.backward(weights(dense), options);
}

/** A module with its parameters set to multiples of 1/128. */
export function filled<M extends bw.nn.Module>(module: M, seed: number): M {
  bw.noGrad(() => {
    for (const [k, p] of module.parameters().entries()) {
      const value = (i: number): number => (((i * 7919 + k * 104_729 + seed * 1_299_709) % 127) - 63) / 128;
      p.copy_(
        bw.tensor(
          Float64Array.from({ length: p.size }, (_, i) => value(i)),
          { shape: p.shape },
        ),
      );
    }
  });
  return module;
}

/** The recorded gradient of a result, or the result where it has none. */
export function secondly(t: unknown, leaf: bw.Tensor): unknown {
  if (!(t instanceof bw.Tensor) || !t.requiresGrad) return t;
  const result = t as bw.Tensor;
  const [first] = bw.grad([result], [leaf], { gradOutputs: [weights(result)], createGraph: true, allowUnused: true });
  return first ?? result.detach();
}

/** A state dict as it comes back from disk: its tensors from a file of safetensors, the rest from one of JSON. */
export function carried<T>(state: T): T {
  const tensors = new Map<string, bw.Tensor>();
  const text = JSON.stringify(state, (_, value: unknown) => {
    if (!(value instanceof bw.Tensor)) return value;
    const name = `${tensors.size}`;
    tensors.set(name, value as bw.Tensor);
    return { tensor: name };
  });
  const loaded = bw.loadSafetensors(bw.saveSafetensors(tensors)).tensors;
  return JSON.parse(text, (_, value: unknown) => {
    const name = (value as { tensor?: unknown } | null)?.tensor;
    return typeof name === 'string' ? loaded.get(name) : value;
  }) as T;
}

/** An optimiser of two groups, whose rates are 0.1 and 0.05. */
function twoGroups(): bw.optim.Optimizer {
  const one = (): bw.Tensor => bw.zeros([1], { requiresGrad: true });
  return new bw.optim.SGD([{ params: [one()] }, { params: [one()], lr: 0.05 }], { lr: 0.1, momentum: 0.9 });
}

/** The rates, and the momentum, of both groups at each of twelve steps of a schedule. */
export function rates(make: (optimizer: bw.optim.Optimizer) => { step(): void }): bw.Tensor {
  const optimizer = twoGroups();
  const scheduler = make(optimizer);
  const seen = (): number[] => optimizer.paramGroups.flatMap(({ lr, momentum }) => [lr, momentum as number]);
  const rows = [seen()];
  for (let i = 0; i < 11; i++) {
    scheduler.step();
    rows.push(seen());
  }
  return bw.tensor(rows, { dtype: 'float64' });
}

/** The rates at each metric of a plateau. */
export function plateau(metrics: readonly number[], options: object): bw.Tensor {
  const optimizer = twoGroups();
  const scheduler = new bw.optim.lrScheduler.ReduceLROnPlateau(optimizer, options);
  const rows = metrics.map((metric) => {
    scheduler.step(metric);
    return optimizer.paramGroups.map(({ lr }) => lr);
  });
  return bw.tensor(rows, { dtype: 'float64' });
}

/** What `followed` needs of a schedule. */
interface Schedule {
  step(metric?: number): void;
  getLastLr(): readonly number[];
  stateDict(): Record<string, unknown>;
  loadStateDict(saved: Readonly<Record<string, unknown>>): void;
}

/**
 * The rates, momenta and last rates of both groups at each of 14 steps of a schedule. Before step `reload` the state dicts of the
 * optimiser and of the schedule go into a new optimiser and its new schedule, made by `anew`, which go on.
 */
export function followed(
  make: (optimizer: bw.optim.Optimizer) => Schedule,
  kind: 'SGD' | 'Adam' | 'RMSprop',
  reload?: number,
  metrics?: readonly number[],
  anew = make,
): bw.Tensor {
  const begin = (by: typeof make): [bw.optim.Optimizer, Schedule] => {
    const [a, b] = [bw.zeros([1], { requiresGrad: true }), bw.zeros([1], { requiresGrad: true })];
    const options = kind === 'Adam' ? { lr: 0.1 } : { lr: 0.1, momentum: 0.9 };
    const optimizer = new bw.optim[kind]([{ params: [a] }, { params: [b], lr: 0.05 }], options);
    return [optimizer, by(optimizer)];
  };
  let [optimizer, scheduler] = begin(make);
  const seen = (): number[] => [
    ...optimizer.paramGroups.flatMap(({ lr, betas, momentum }) => [
      lr,
      (betas as number[] | undefined)?.[0] ?? (momentum as number),
    ]),
    ...scheduler.getLastLr(),
  ];
  const rows = [seen()];
  for (let i = 0; i < 14; i++) {
    if (i === reload) {
      const saved = [optimizer.stateDict(), scheduler.stateDict()] as const;
      [optimizer, scheduler] = begin(anew);
      optimizer.loadStateDict(saved[0]);
      scheduler.loadStateDict(saved[1]);
    }
    scheduler.step(metrics?.[i]);
    rows.push(seen());
  }
  return bw.tensor(rows, { dtype: 'float64' });
}
