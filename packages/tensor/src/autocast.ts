/** @file autocast: which operations compute in lower precision, which in single, while a function runs. */
import { checkFunction, checkGivenOptions, kindOf } from './given.ts';
import { ambient, runWith } from './ambient.ts';
import { DTypeError } from './errors.ts';
import { checkOptionNames } from './option-names.ts';
import { sweep, untracked } from './scope.ts';
import { Tensor, type AutogradMeta } from './tensor.ts';

/** What a region of autocast has for all that runs in it; a slot of the ambient record. */
interface Autocast {
  readonly dtype: 'bfloat16' | 'float16';
  /** Parameters in lower precision, made once for all of their uses: their gradients meet there, as in PyTorch. */
  readonly casts: Map<AutogradMeta, { readonly cast: Tensor; readonly version: number }>;
}

type Policy = 'lower' | 'single' | 'widest' | 'as given';

/** PyTorch's lists for CPUs, by the names of its operator library. */
const POLICIES: Readonly<Record<string, Policy | ((args: readonly unknown[]) => Policy | undefined)>> = {
  ...all('lower', 'matmul mm bmm addmm baddbmm linear prelu scaled_dot_product_attention mkldnn_rnn_layer'),
  ...all('lower', 'conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d'),
  ...all('single', 'mse_loss l1_loss smooth_l1_loss huber_loss nll_loss cross_entropy_loss kl_div poisson_nll_loss'),
  ...all('single', 'binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss hinge_embedding_loss'),
  ...all('single', 'margin_ranking_loss soft_margin_loss triplet_margin_loss'),
  ...all('single', 'prod quantile cdist trace linalg_cholesky linalg_inv linalg_solve linalg_qr linalg_svd'),
  ...all('single', 'linalg_svdvals linalg_eigh linalg_eigvalsh'),
  ...all('widest', 'index_copy'),
  // Made of products here, and of none in PyTorch.
  ...all('as given', 'dot outer linalg_det linalg_slogdet logdet multilabel_soft_margin_loss'),
  pad: ([, , mode]) => (mode === 'reflect' || mode === 'replicate' ? 'single' : undefined),
};

function all(policy: Policy, names: string): Record<string, Policy> {
  return Object.fromEntries(names.split(' ').map((name) => [name, policy]));
}

/** Regions open anywhere in the process: while there are none, an operation does not look. */
let open = 0;

/** `fn`, or the same under the policy that operation `name` ('aten::mm') has while autocast is on. */
export function underAutocast<F extends (...args: never[]) => unknown>(name: string, fn: F): F {
  const key = name.startsWith('aten::') ? name.slice('aten::'.length) : '';
  const rule = Object.hasOwn(POLICIES, key) ? POLICIES[key] : undefined;
  if (rule === undefined) return fn;
  const run = fn as unknown as (...args: unknown[]) => unknown;
  const cast = (...args: unknown[]): unknown => {
    const region = open === 0 ? undefined : (ambient().autocast as Autocast | undefined);
    const policy = region === undefined || typeof rule === 'string' ? rule : rule(args);
    if (region === undefined || policy === undefined) return run(...args);
    // What it is made of computes as it does.
    return runWith({ autocast: undefined }, () => sweep(() => run(...castAll(args, policy as Policy, region))));
  };
  return cast as unknown as F;
}

function castAll(args: readonly unknown[], policy: Policy, region: Autocast): unknown[] {
  if (policy === 'as given') return [...args];
  const wide = policy === 'widest' && args.some((one) => one instanceof Tensor && one.dtype === 'float32');
  const dtype = policy === 'single' || wide ? 'float32' : region.dtype;
  const inside = (value: unknown): unknown => {
    if (value instanceof Tensor) return castOne(value as Tensor, dtype, region);
    if (Array.isArray(value) && value.some((one) => one instanceof Tensor)) return value.map(inside);
    return value;
  };
  return args.map((one) => {
    const plain = typeof one === 'object' && one !== null && Object.getPrototypeOf(one) === Object.prototype;
    return plain ? Object.fromEntries(Object.entries(one).map(([key, value]) => [key, inside(value)])) : inside(one);
  });
}

/** Of single and half precision; all else computes as it is. */
function castOne(t: Tensor, dtype: Autocast['dtype'] | 'float32', region: Autocast): Tensor {
  const eligible = t.dtype === 'float32' || t.dtype === 'float16' || t.dtype === 'bfloat16';
  if (!eligible || t.dtype === dtype || t.sparse !== undefined) return t;
  const { meta } = t;
  if (dtype === 'float32' || meta === undefined || !t.isLeaf || !t.requiresGrad || !ambient().gradMode)
    return t.to(dtype);
  const known = region.casts.get(meta);
  if (known?.version === t.storage.version) return known.cast;
  known?.cast.release();
  const cast = untracked(() => t.to(dtype));
  region.casts.set(meta, { cast, version: t.storage.version });
  return cast;
}

/** What `autocast` computes in. */
export interface AutocastOptions {
  /** What products and convolutions are computed in. @default 'bfloat16' */
  dtype?: 'bfloat16' | 'float16';
  /** Whether autocast is on in `fn`; false computes as given inside of a region, too. @default true */
  enabled?: boolean;
}
const OPTIONS: ReadonlySet<string> = new Set(['dtype', 'enabled']);

/**
 * Runs `fn`, in which products, convolutions and attention compute in `dtype`, losses and decompositions in float32, as under PyTorch's
 * `autocast('cpu')`; what the others get, they compute in. Holds across `await`. float64 and integers stay as they are. Backward passes
 * belong outside. @throws DTypeError for another dtype.
 */
export function autocast<T>(fn: () => T, options: AutocastOptions = {}): T {
  checkFunction('autocast', fn);
  checkGivenOptions('autocast()', options);
  checkOptionNames(options, OPTIONS, 'autocast()');
  const { dtype = 'bfloat16', enabled = true } = options;
  if (dtype !== 'bfloat16' && dtype !== 'float16')
    throw new DTypeError(`autocast takes bfloat16 or float16, got ${kindOf(dtype)}`);
  if (!enabled) return runWith({ autocast: undefined }, fn);
  const region: Autocast = { dtype, casts: new Map() };
  open++;
  let result: T;
  try {
    result = runWith({ autocast: region }, fn);
  } catch (error) {
    close(region);
    throw error;
  }
  if (!(result instanceof Promise)) {
    close(region);
    return result;
  }
  return (result as Promise<unknown>).finally(() => close(region)) as T;
}

function close({ casts }: Autocast): void {
  open--;
  for (const { cast } of casts.values()) cast.release();
  casts.clear();
}

/** Whether operations here are under autocast. */
export function isAutocastEnabled(): boolean {
  return ambient().autocast !== undefined;
}

/** Runs `fn` as under `outer`, a region that may have ended. */
export function autocastAs<T>(outer: object | undefined, fn: () => T): T {
  return outer === undefined ? autocast(fn, { enabled: false }) : autocast(fn, { dtype: (outer as Autocast).dtype });
}
