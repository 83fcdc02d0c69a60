/** @file Norms of gradients, clipping, and parameters as one vector: `nn.utils`. */
import { noGrad } from '../autograd/record.ts';
import { zeros } from '../creation.ts';
import { checkGivenOptions, checkIterable, kindOf } from '../given.ts';
import { norm } from '../ops/composite.ts';
import { concat } from '../ops/join.ts';
import { stack } from '../ops/stack.ts';
import { checkOptionNames } from '../option-names.ts';
import { sweep } from '../scope.ts';
import { sizeOf } from '../shape.ts';
import { Tensor } from '../tensor.ts';

const OPTIONS: ReadonlySet<string> = new Set(['normType', 'errorIfNonfinite']);

/** How gradients are measured before they are clipped. */
export interface ClipOptions {
  /** @default 2 */
  normType?: number;
  /** Refuses a norm that is infinite or NaN. @default false */
  errorIfNonfinite?: boolean;
}

/** @throws TypeError for what holds something else than tensors. */
function listOf(given: Iterable<Tensor> | Tensor, what: string): readonly Tensor[] {
  if (given instanceof Tensor) return [given];
  checkIterable(given, what);
  const list: readonly unknown[] = [...given];
  const wrong = list.findIndex((one) => !(one instanceof Tensor));
  if (wrong !== -1) throw new TypeError(`${what} are Tensors, got ${kindOf(list[wrong])} at ${wrong}`);
  return list as readonly Tensor[];
}

function gradientsOf(parameters: Iterable<Tensor> | Tensor, what: string): Tensor[] {
  const list = listOf(parameters, what);
  return list.flatMap((p) => (p.grad === null ? [] : [p.grad]));
}

/** The norm of tensors taken as one vector: float64 where one of them is, else float32. */
export function getTotalNorm(tensors: Iterable<Tensor>, options: ClipOptions = {}): Tensor {
  checkOptions(options, 'getTotalNorm()');
  const given = listOf(tensors, 'getTotalNorm(): tensors');
  const p = options.normType ?? 2;
  checkNumber(p, 'getTotalNorm(): normType');
  const total = noGrad(() =>
    sweep(() => {
      const dtype = isWide(given) ? 'float64' : 'float32';
      const norms = given.map((t) => norm(t.detach().toDense(), p).to(dtype));
      return norms.length === 0 ? zeros([]) : norm(stack(norms), p);
    }),
  );
  if (options.errorIfNonfinite === true && !Number.isFinite(total.item())) {
    throw new RangeError(
      `The total norm of order ${p} for gradients from \`parameters\` is non-finite, so it cannot be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set errorIfNonfinite: false`,
    );
  }
  return total;
}

/**
 * Scales the gradients of `parameters`, in place, so that their norm, taken as one vector, is at most `maxNorm`. Returns the norm that
 * they had.
 * @param parameters those whose gradients are one vector together
 * @param maxNorm what its norm is at most afterwards
 * @param options `normType` (2), `errorIfNonfinite` (false)
 * @throws RangeError where the norm is infinite or NaN, if `errorIfNonfinite` asks for that.
 * @example
 * ```ts
 * const w = tensor([1, 1], { requiresGrad: true });
 * w.mul(tensor([3, 4])).sum().backward();
 * console.log(nn.utils.clipGradNorm_([w], 1).item(), w.grad?.norm().item().toFixed(3)); // 5 1.000
 * ```
 */
export function clipGradNorm_(
  parameters: Iterable<Tensor> | Tensor,
  maxNorm: number,
  options: ClipOptions = {},
): Tensor {
  checkNumber(maxNorm, 'clipGradNorm_(): maxNorm');
  checkOptions(options, 'clipGradNorm_()');
  const grads = gradientsOf(parameters, 'clipGradNorm_(): parameters');
  const total = getTotalNorm(grads, options);
  clipGradsWithNorm_(grads, maxNorm, total.item());
  return total;
}

function checkOptions(options: ClipOptions, what: string): void {
  checkGivenOptions(what, options);
  checkOptionNames(options, OPTIONS, what);
  const { errorIfNonfinite } = options;
  if (errorIfNonfinite !== undefined && typeof errorIfNonfinite !== 'boolean')
    throw new TypeError(`${what}: errorIfNonfinite is true or false, got ${kindOf(errorIfNonfinite)}`);
}

/** Programs without types may leave it out, or give a text: every gradient would be NaN. @throws TypeError saying what is a number. */
export function checkNumber(value: unknown, what: string): void {
  if (typeof value !== 'number') throw new TypeError(`${what} is a number, got ${kindOf(value)}`);
}

function isWide(tensors: readonly Tensor[]): boolean {
  return tensors.some((t) => t.dtype === 'float64');
}

/** What scales gradients of norm `total` to `maxNorm`, in the precision of that norm: 1 where they are short enough. */
export function clipFactor(maxNorm: number, total: number, wide: boolean): number {
  const rounded = wide ? Number : Math.fround;
  return Math.min(1, rounded(maxNorm / rounded(total + 1e-6)));
}

/** Scales tensors in place so that their norm, `total`, becomes at most `maxNorm`. */
export function clipGradsWithNorm_(grads: Iterable<Tensor>, maxNorm: number, total: number): void {
  checkNumber(maxNorm, 'clipGradsWithNorm_(): maxNorm');
  checkNumber(total, 'clipGradsWithNorm_(): total');
  const list = listOf(grads, 'clipGradsWithNorm_(): grads');
  const factor = clipFactor(maxNorm, total, isWide(list));
  noGrad(() => {
    for (const grad of list) if (factor !== 1) (grad.sparse?.values ?? grad.detach()).mul_(factor);
  });
}

/**
 * Clamps each element of the gradients of `parameters`, in place, to at most `clipValue` in size. A sparse gradient that names a place
 * more than once is replaced by one that names it once.
 */
export function clipGradValue_(parameters: Iterable<Tensor> | Tensor, clipValue: number): void {
  checkNumber(clipValue, 'clipGradValue_(): clipValue');
  const list = listOf(parameters, 'clipGradValue_(): parameters');
  noGrad(() => {
    for (const p of list) {
      if (p.grad?.sparse?.coalesced === false) p.grad = p.grad.coalesce();
      (p.grad?.sparse?.values ?? p.grad?.detach())?.clamp_(-clipValue, clipValue);
    }
  });
}

/** The parameters one after the other as a vector. */
export function parametersToVector(parameters: Iterable<Tensor>): Tensor {
  const list = listOf(parameters, 'parametersToVector(): parameters');
  return sweep(() => concat(list.map((p) => p.reshape([p.size]))));
}

/** Copies a vector into the parameters, one after the other. */
export function vectorToParameters(vector: Tensor, parameters: Iterable<Tensor>): void {
  if (!(vector instanceof Tensor))
    throw new TypeError(`vectorToParameters(): vector is a Tensor, got ${kindOf(vector)}`);
  const list = listOf(parameters, 'vectorToParameters(): parameters');
  const count = sizeOf([list.reduce((sum, p) => sum + p.size, 0)]);
  if (vector.rank !== 1 || vector.size !== count)
    throw new RangeError(
      `vectorToParameters: expected a vector of ${count} elements, got [${vector.shape.join(', ')}]`,
    );
  noGrad(() =>
    sweep(() => {
      let at = 0;
      for (const p of list) {
        p.copy_(vector.narrow(0, at, p.size).reshape(p.shape));
        at += p.size;
      }
    }),
  );
}
