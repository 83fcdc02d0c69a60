/** @file Which dtypes operations take, and what they give for them, held against PyTorch's answers (golden/dtypes.json). */
import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { ported } from '../check/operations/ported/table.ts';
import * as bw from '../src/index.ts';
import { backendName, nn, optim, tensor, type DType, type Tensor } from '../src/index.ts';

interface Input {
  /** Which sample its values are taken from; `turn` says by which dtype of the pair. */
  of?: string;
  turn?: 0 | 1;
  shape?: number[];
  /** Or the same for every dtype. */
  values?: never;
  dtype?: DType;
}
/** PyTorch's answer for one dtype or pair of dtypes: the result's dtype and elements; null where it raises. */
type Answer = readonly [dtype: string, ...data: (number | string | boolean)[]] | 'complex32' | null;
interface Case {
  name: string;
  fn: string;
  inputs: Input[];
  args?: unknown[];
  answers: Record<string, Answer>;
}
const golden = JSON.parse(readFileSync(new URL('../golden/dtypes.json', import.meta.url), 'utf8')) as {
  samples: Record<string, Record<DType, (number | boolean)[]>>;
  cases: Case[];
};

function make(input: Input, dtypes: readonly DType[]): Tensor {
  const { of, turn, shape = [], values, dtype } = input;
  if (of === undefined) return tensor(values as never, { dtype: dtype as DType });
  const as = dtypes[turn ?? 0] as DType;
  const row = golden.samples[of]?.[as] ?? [];
  const lanes = as === 'complex64' ? 2 : 1;
  const size = shape.reduce((a, b) => a * b, 1) * lanes;
  const picked = Float64Array.from({ length: size }, (_, i) => Number(row[i % row.length]));
  if (lanes === 1) return tensor(picked, { shape }).to(as);
  return bw.fromBytes(new Uint8Array(Float32Array.from(picked).buffer), shape, 'complex64');
}

type Run = (...args: never[]) => Tensor;
const last = <T>(args: unknown[]): T => args.at(-1) as T;
const coo = (values: Tensor): Tensor => bw.sparseCooTensor(tensor([[1n, 0n, 1n]]), values, [2]);
const maskOf = (): Tensor => tensor([true, false, true]);
const create =
  (run: (options: { dtype: DType }) => Tensor): Run =>
  (t: Tensor) =>
    run({ dtype: t.dtype });

/** Cases that are not simply the operation of that name with the arguments given. */
const special: Record<string, Run> = {
  maxValues: (t: Tensor, dim: number) => bw.max(t, dim).values,
  maxIndices: (t: Tensor, dim: number) => bw.max(t, dim).indices,
  minValues: (t: Tensor, dim: number) => bw.min(t, dim).values,
  minIndices: (t: Tensor, dim: number) => bw.min(t, dim).indices,
  sortValues: (t: Tensor) => bw.sort(t).values,
  topKValues: (t: Tensor, k: number) => bw.topK(t, k).values,
  uniqueValues: (t: Tensor) => bw.unique(t).values,
  uniqueCounts: (t: Tensor) => bw.unique(t).counts,
  concatTwo: (a: Tensor, b: Tensor, dim: number) => bw.concat([a, b], dim),
  stackTwo: (a: Tensor, b: Tensor, dim: number) => bw.stack([a, b], dim),
  whereMask: (a: Tensor, b: Tensor | number) => bw.where(maskOf(), a, b),
  whereBy: (c: Tensor) => bw.where(c, bw.ones([2, 3]), 0),
  toDTypeOf: (a: Tensor, b: Tensor) => a.to(b.dtype),
  'view:clone': (t: Tensor) => t.clone(),
  'view:contiguous': (t: Tensor) => t.transpose(0, 1).contiguous(),
  'view:detach': (t: Tensor) => t.detach(),
  'view:reshape': (t: Tensor) => t.reshape([3, 2]),
  'view:view': (t: Tensor) => t.view([6]),
  'view:flatten': (t: Tensor) => t.flatten(),
  'view:transpose': (t: Tensor) => t.transpose(0, 1),
  'view:permute': (t: Tensor) => t.permute([1, 0]),
  'view:narrow': (t: Tensor) => t.narrow(1, 1, 2),
  'view:select': (t: Tensor) => t.select(1, 2),
  'view:slice': (t: Tensor) => t.slice(1, 0, 3, 2),
  'view:expand': (t: Tensor) => t.expand([2, 2, 3]),
  'view:squeeze': (t: Tensor) => t.narrow(0, 0, 1).squeeze(0),
  'view:unsqueeze': (t: Tensor) => t.unsqueeze(1),
  'view:alias': (t: Tensor) => t.alias(),
  'view:split': (t: Tensor) => t.split(1, 1)[2] as Tensor,
  'view:chunk': (t: Tensor) => t.chunk(2, 1)[1] as Tensor,
  'view:unbind': (t: Tensor) => t.unbind(0)[1] as Tensor,
  indexSelectBy: (t: Tensor, i: Tensor, dim: number) => bw.indexSelect(t, dim, i),
  indexAddBy: (t: Tensor, i: Tensor, s: Tensor, dim: number) => bw.indexAdd(t, dim, i, s),
  gatherBy: (t: Tensor, i: Tensor, dim: number) => bw.gather(t, dim, i),
  scatterBy: (t: Tensor, i: Tensor, s: Tensor, dim: number) => bw.scatter(t, dim, i, s),
  scatterAddBy: (t: Tensor, i: Tensor, s: Tensor, dim: number) => bw.scatterAdd(t, dim, i, s),
  embedding: (w: Tensor, i: Tensor) => {
    const layer = new nn.Embedding(...(w.shape as [number, number]));
    return Object.assign(layer, { weight: w }).forward(i);
  },
  embeddingBag: (w: Tensor, i: Tensor) => {
    const layer = new nn.EmbeddingBag(...(w.shape as [number, number]), { mode: 'sum' });
    return Object.assign(layer, { weight: w }).forward(i, tensor([0n, 2n]));
  },
  conv2dBias: (x: Tensor, w: Tensor, bias: Tensor) => bw.conv2d(x, w, { bias }),
  layerNormOver: (t: Tensor, w: Tensor, b: Tensor, shape: number[]) => bw.layerNorm(t, shape, w, b),
  groupNormOf: (t: Tensor, w: Tensor, b: Tensor, groups: number) => bw.groupNorm(t, groups, w, b),
  batchNormPlain: (t: Tensor) => bw.batchNorm(t),
  batchNormOf: (t: Tensor, weight: Tensor, bias: Tensor) => bw.batchNorm(t, { weight, bias }),
  dropout: (t: Tensor, p: number, training?: boolean) => bw.dropout(t, p, training),
  klDivSum: (a: Tensor, b: Tensor) => bw.klDiv(a, b, { reduction: 'sum' }),
  nllLossWeighted: (x: Tensor, weight: Tensor) => bw.nllLoss(x, tensor([1n, 0n]), { weight }),
  crossEntropyWeighted: (x: Tensor, weight: Tensor) => bw.crossEntropy(x, tensor([1n, 0n]), { weight }),
  'sparse:dense': (v: Tensor) => coo(v).toDense(),
  'sparse:coalesce': (v: Tensor) => coo(v).coalesce().values(),
  'sparse:sum': (v: Tensor, w: Tensor) => coo(v).add(coo(w)).toDense(),
  'sparse:mixed': (d: Tensor, v: Tensor) => d.add(coo(v)),
  'sparse:double': (v: Tensor) => coo(v).mul(2).toDense(),
  'create:zeros': create((o) => bw.zeros([2], o)),
  'create:ones': create((o) => bw.ones([2], o)),
  'create:full': create((o) => bw.full([2], 2, o)),
  'create:eye': create((o) => bw.eye(2, 2, o)),
  'create:arange': create((o) => bw.arange(0, 3, 1, o)),
  'create:linspace': create((o) => bw.linspace(0, 4, 3, o)),
  'create:rand': create((o) => bw.rand([2], o)),
  'create:randn': create((o) => bw.randn([2], o)),
  'create:randint': create((o) => bw.randint(1, 2, [2], o)),
  requiresGrad: (t: Tensor) => {
    t.requiresGrad = true;
    return t.detach();
  },
};
for (const name of [
  ...(['SGD', 'Adam', 'AdamW', 'Adamax', 'Adagrad', 'Adadelta', 'RMSprop', 'Rprop'] as const),
  ...(['RAdam', 'SparseAdam'] as const),
]) {
  special[`optim:${name}`] = (start: Tensor, g: Tensor, ...options: object[]) => {
    const p = start.clone();
    p.requiresGrad = true;
    const opt = new optim[name]([p], last(options));
    const own = name === 'SparseAdam' ? g.toSparse() : g;
    for (let i = 0; i < 3; i++) opt.step([own]);
    return p.detach();
  };
}

/** Arguments that JSON has no number for. */
const words: Record<string, unknown> = { none: undefined, inf: Infinity, '-inf': -Infinity };
const argument = (a: unknown): unknown => (typeof a === 'string' && a in words ? words[a] : a);

/** The ways to call an operation: our function, and the method of the same name. */
function waysOf(fn: string): Run[] {
  if (special[fn] !== undefined) return [special[fn]];
  const ways: Run[] = [];
  const own = (bw as unknown as Record<string, Run>)[fn];
  if (own !== undefined) ways.push(own);
  if (fn in bw.Tensor.prototype) {
    ways.push(((t: Tensor, ...rest: unknown[]) =>
      (t as unknown as Record<string, (...a: unknown[]) => Tensor>)[fn]?.(...rest)) as Run);
  }
  if (ways.length === 0) throw new Error(`no operation '${fn}'`);
  return ways;
}

/** What was got: as an answer of PyTorch's, or the text of the error. */
type Got = { dtype: DType; data: number[] } | { error: string };

function call(run: Run, inputs: readonly Tensor[], args: readonly unknown[]): Got {
  try {
    const out = run(...([...inputs, ...args] as never[]));
    const dense = out.toDense();
    const lanes =
      dense.dtype === 'complex64' ? bw.stack([bw.real(dense), bw.imag(dense)], -1).to('float64') : dense.to('float64');
    return { dtype: out.dtype, data: [...lanes.dataSync()] };
  } catch (error) {
    return { error: `${(error as Error).name}: ${(error as Error).message}` };
  }
}

const digits = { nan: NaN, inf: Infinity, '-inf': -Infinity };
const number = (v: number | string | boolean): number => (typeof v === 'string' ? digits[v as 'nan'] : Number(v));

/** How far results may be off: a step of the coarsest grid of what goes in and out, and a little of what float32 sums to. */
const STEP: Partial<Record<string, number>> = {
  float16: 2e-3,
  bfloat16: 1.6e-2,
  float32: 2e-6,
  complex64: 4e-6,
  float64: 1e-12,
};

function close(got: readonly number[], wanted: readonly number[], dtypes: readonly string[]): boolean {
  const complex = dtypes.at(-1) === 'complex64';
  const step = Math.max(...dtypes.map((dtype) => STEP[dtype] ?? 0));
  // What rounds at each step loses more where parts of a sum cancel.
  const share = step > 1e-3 ? 0.5 : 0.05;
  const largest = Math.max(0.05, ...wanted.filter(Number.isFinite).map((w) => share * Math.abs(w)));
  return wanted.every((w, i) => {
    const g = got[i] as number;
    if (Object.is(g, w) || g === w) return true;
    // Either part of a complex number is as exact as the larger of them.
    const size = complex ? Math.max(Math.abs(w), Math.abs(wanted[i ^ 1] as number)) : Math.abs(w);
    return Math.abs(g - w) <= step * Math.max(size, largest);
  });
}

/** In one line what differs from PyTorch, or undefined. */
function difference(got: Got, wanted: Answer, given: readonly DType[]): string | undefined {
  if (wanted === null || wanted === 'complex32')
    return 'error' in got ? undefined : `gives ${got.dtype}, PyTorch refuses`;
  const [dtype, ...data] = wanted;
  if ('error' in got) return `refuses (${got.error}), PyTorch gives ${dtype}`;
  if (got.dtype !== dtype) return `gives ${got.dtype}, PyTorch ${dtype}`;
  if (data.length === 0) return undefined;
  const same = got.data.length === data.length && close(got.data, data.map(number), [...given, dtype]);
  return same ? undefined : `gives ${got.data.join(' ')}, PyTorch ${data.join(' ')}`;
}

/** A difference from PyTorch that is meant. */
interface Purpose {
  readonly why: string;
  readonly covers: (name: string, dtypes: readonly DType[], got: Got, wanted: Answer) => boolean;
}
const gives = (got: Got): boolean => !('error' in got);
const refuses = (wanted: Answer): boolean => wanted === null;

const PURPOSES: readonly Purpose[] = [
  {
    why: 'complex64 is the one complex dtype: beside float64 and float16 PyTorch has complex128 and complex32, the latter without most operations',
    covers: (name, dtypes, got, wanted) => {
      if (!gives(got) || wanted === null || !(dtypes.includes('complex64') || name === 'complex')) return false;
      if (wanted === 'complex32') return true;
      const [dtype, ...data] = wanted;
      const single = { complex128: 'complex64', complex32: 'complex64', float64: 'float32' }[dtype];
      return single !== undefined && difference(got, [single, ...data], ['complex64']) === undefined;
    },
  },
  {
    why: 'positions and classes may be of every dtype whose elements are whole: a list of numbers is float32 here',
    covers: (name, _dtypes, got, wanted) =>
      / (by|by index|target)$|^oneHot$/.test(name) && gives(got) && refuses(wanted),
  },
  {
    why: 'a condition of bytes, which PyTorch warns of, is none',
    covers: (name, [dtype], got) => name === 'where by' && dtype === 'uint8' && !gives(got),
  },
  {
    why: 'linear algebra of complex matrices is not there',
    covers: (name, [dtype], got) => /^(inverse|det|solve|cholesky)$/.test(name) && dtype === 'complex64' && !gives(got),
  },
  {
    why: 'PyTorch takes imaginary parts off weights, and lets a complex target into a real loss',
    covers: (name, dtypes, got) =>
      /^(bincount weights|binaryCrossEntropyWithLogits)$/.test(name) && dtypes.includes('complex64') && !gives(got),
  },
  {
    why: 'PyTorch adds sparse tensors of all dtypes but these two',
    covers: (name, dtypes, got, wanted) =>
      name === 'sparse sum' && dtypes.some((d) => d === 'float16' || d === 'bool') && gives(got) && refuses(wanted),
  },
  {
    why: 'optimisers compute in float32 and round once a step, where PyTorch rounds each operation to half precision',
    covers: (name, [dtype], got, wanted) =>
      name.startsWith('optim ') && dtype === 'bfloat16' && gives(got) && !refuses(wanted),
  },
];

/** Words of engines and of what is inside, which say nothing to who called. */
const OBSCURE =
  /BigInt|typed array|undefined|NaN|Invalid|\[, \]|is not a function|is not iterable|Cannot (read|mix|convert)/;

/** Whether an error names the operation and what is wrong with the dtype; positions may also be refused for their values. */
function speaks(error: string): boolean {
  const named = /^(DTypeError|RangeError|AutogradError): .*(float|complex|int|bool)/.test(error);
  return (named || error.includes('whole numbers')) && !OBSCURE.test(error);
}

const used = new Set<Purpose>();
let compared = 0;

/** What differs from PyTorch without a purpose, and what is refused without a word, by pair of dtypes. */
function unexplained({ name, fn, inputs, args = [], answers }: Case): string[] {
  const found: string[] = [];
  for (const [key, wanted] of Object.entries(answers)) {
    const dtypes = key.split(',') as DType[];
    for (const run of waysOf(fn)) {
      compared++;
      const tensors = inputs.map((input) => make(input, dtypes));
      const got = call(run, tensors, args.map(argument));
      if ('error' in got && !speaks(got.error)) found.push(`${key}: says ${got.error}`);
      const text = difference(got, wanted, dtypes);
      if (text === undefined) continue;
      const purpose = PURPOSES.find(({ covers }) => covers(name, dtypes, got, wanted));
      if (purpose === undefined) found.push(`${key}: ${text}`);
      else used.add(purpose);
    }
  }
  return found;
}

describe('operations take and give the dtypes that PyTorch takes and gives, and refuse the others by name', () => {
  it.each(golden.cases)('$name', (c) => {
    expect(unexplained(c)).toEqual([]);
  });

  it('but for differences that there are', () => {
    // Run alone by a filter, this test has nothing to look at.
    if (compared < golden.cases.length * 11) return;
    expect(PURPOSES.filter((purpose) => !used.has(purpose)).map(({ why }) => why)).toEqual([]);
  });

  afterAll(() => {
    console.info(`${backendName()}: ${compared} answers for dtypes and pairs of dtypes compared with PyTorch`);
  });
});

/** Names of the operations that the table has under other names. */
const UNDER: Readonly<Record<string, string>> = {
  concat: 'concatTwo',
  stack: 'stackTwo',
  where: 'whereMask',
  to: 'toDTypeOf',
  max: 'maxValues',
  min: 'minValues',
  sort: 'sortValues',
  topK: 'topKValues',
  unique: 'uniqueValues',
  indexSelect: 'indexSelectBy',
  indexAdd: 'indexAddBy',
  gather: 'gatherBy',
  scatter: 'scatterBy',
  scatterAdd: 'scatterAddBy',
  groupNorm: 'groupNormOf',
  batchNorm: 'batchNormOf',
  klDiv: 'klDivSum',
  sparseCooTensor: 'sparse:dense',
  toDense: 'sparse:dense',
  toSparse: 'sparse:dense',
  coalesce: 'sparse:coalesce',
  values: 'sparse:coalesce',
  indices: 'sparse:coalesce',
};
/** What computes nothing of elements. */
const NO_OPERATIONS = new Set([
  ...[
    'tensor',
    'fromBytes',
    'fromTf',
    'toTf',
    'lift',
    'loadSafetensors',
    'saveSafetensors',
    'randperm',
    ...['randLike', 'randnLike', 'bernoulli', 'multinomial', 'gumbelSoftmax', 'normal_', 'uniform_', 'bernoulli_'],
    'become',
    'promoteTypes',
  ],
  ...['item', 'itemAsync', 'toArray', 'data', 'dataSync', 'equal', 'allClose', 'isCoalesced'],
  ...[
    'backward',
    'registerHook',
    'retainGrad',
    'toString',
    'grad',
    'gradcheck',
    'runBackward',
    'customFunction',
    'noGrad',
    'enableGrad',
  ],
  ...['isGradEnabled', 'detectAnomaly', 'manualSeed', 'scope', 'keep', 'memory', 'findLeaks', 'setMemoryBudget'],
  ...[
    'backendName',
    'describeBackend',
    'setBackend',
    'getNumThreads',
    'setNumThreads',
    'constructor',
    'storage',
    'layout',
    'device',
    'size',
    'rank',
    'isContiguous',
    'current',
  ],
  ...['deviceMemory', 'devices', 'openHostDevice', 'checkpoint', 'isAutocastEnabled'],
  ...['requiresGrad', 'isLeaf', 'gradFn', 'disposed', 'dispose', 'release', 'adoptSparse', 'joined'],
]);

it('every function and method of tensors is in the table', () => {
  const names = [
    ...Object.entries(bw)
      .filter(([name, value]) => typeof value === 'function' && /^[a-z]/.test(name))
      .map(([name]) => name),
    ...Object.getOwnPropertyNames(bw.Tensor.prototype),
  ];
  const known = new Set(golden.cases.map(({ fn }) => fn));
  // Those of ported models are drawn in every dtype: test/ported.test.ts.
  const drawn = new Set(ported.flatMap(({ forms }) => forms.flatMap(({ ts }) => ts.match(/\w+(?=\()/g) ?? [])));
  const has = (name: string): boolean =>
    drawn.has(name) ||
    drawn.has(`${name[0]?.toUpperCase()}${name.slice(1)}`) ||
    [name, UNDER[name] ?? name, `view:${name}`, `create:${name}`].some((fn) => known.has(fn));
  expect(names.filter((name) => !has(name) && !NO_OPERATIONS.has(name))).toEqual([]);
  const optimizers = Object.keys(optim).filter((name) => !['Optimizer', 'lrScheduler'].includes(name));
  expect(optimizers.filter((name) => !known.has(`optim:${name}`))).toEqual([]);
});
