/** @file The buckets of a data-parallel pass: which parameters travel together, and their gradients as one vector. */
import { noGrad } from '../autograd/record.ts';
import { tensor, zeros } from '../creation.ts';
import { dtypes } from '../dtype.ts';
import { kindOf } from '../given.ts';
import { concat } from '../ops/join.ts';
import { sparseCooTensor } from '../ops/sparse/coo.ts';
import { sweep } from '../scope.ts';
import { sameShape } from '../shape.ts';
import { Tensor, type Parameter } from '../tensor.ts';
import type { Tags } from './replicas.ts';

/** The gradients of some parameters, as one vector; or one sparse gradient. */
export interface GradBucket {
  readonly index: number;
  /** Whether this is the last bucket of the pass. */
  readonly isLast: boolean;
  /** The gradients one after the other, flat; for a sparse gradient, that tensor. */
  buffer(): Tensor;
  /** The gradients in the parameters' shapes: views of the buffer. */
  gradients(): Tensor[];
  parameters(): Parameter[];
  /** Fires when the pass has failed: a hook that calls others gives it to them, so that nothing of the pass is left there. */
  readonly signal: AbortSignal;
  /** What the pass is, for `ProcessGroup.allReduce`. */
  readonly tags: Tags;
}

/** A parameter with its gradient, and whether that is the library's own: nobody else has it. */
export type Combined = [parameter: Parameter, gradient: Tensor, ours: boolean];

/** What one bucket holds: some parameters, or one whose gradient is sparse. */
export interface BucketPlan {
  readonly parameters: Parameter[];
  readonly sparse: boolean;
}

/** Later layers first: their gradients are ready first. */
export function planBuckets(
  parameters: readonly Parameter[],
  isSparse: (i: number) => boolean,
  limit: number,
): BucketPlan[] {
  const plans: BucketPlan[] = [];
  let open: BucketPlan | undefined;
  let bytes = 0;
  for (let i = parameters.length - 1; i >= 0; i--) {
    const parameter = parameters[i] as Parameter;
    if (isSparse(i)) {
      plans.push({ parameters: [parameter], sparse: true });
      open = undefined;
      continue;
    }
    const size = parameter.size * dtypes[parameter.dtype].bytes;
    if (open === undefined || bytes + size > limit || open.parameters[0]?.dtype !== parameter.dtype) {
      plans.push((open = { parameters: [], sparse: false }));
      bytes = 0;
    }
    open.parameters.push(parameter);
    bytes += size;
  }
  return plans;
}

export class Bucket implements GradBucket {
  readonly index: number;
  readonly isLast: boolean;
  readonly tags: Tags;
  /** Which of the parameters have a gradient here. The others count as zero, so that all workers agree. */
  readonly present: readonly boolean[];
  private readonly plan: BucketPlan;
  private readonly isMarked: boolean;
  private readonly flat: Tensor;
  private sent: Tensor | undefined;
  private over: AbortSignal | undefined;

  /** `isMarked`: behind the gradients it says for each parameter whether it has one here, so that the group's mean says whether any member has. */
  constructor(
    index: number,
    isLast: boolean,
    plan: BucketPlan,
    gradientOf: (p: Parameter) => Tensor | null,
    tags: Tags,
    isMarked: boolean,
  ) {
    this.tags = tags;
    this.index = index;
    this.isLast = isLast;
    this.plan = plan;
    this.isMarked = isMarked;
    this.present = plan.parameters.map((p) => gradientOf(p) !== null);
    this.flat = noGrad(() => (plan.sparse ? this.sparseOf(gradientOf) : this.denseOf(gradientOf)));
  }

  /** The pass to which it belongs begins, and fires `signal` when it fails. */
  begin(signal: AbortSignal): void {
    this.over = signal;
  }

  get signal(): AbortSignal {
    return (this.over ??= new AbortController().signal);
  }

  get bytes(): number {
    return this.flat.size * dtypes[this.flat.dtype].bytes;
  }

  private sparseOf(gradientOf: (p: Parameter) => Tensor | null): Tensor {
    const [only] = this.plan.parameters as [Parameter];
    const own = gradientOf(only)?.detach() ?? emptySparse(only);
    return own.layout === 'sparse_coo' ? own : own.toSparse();
  }

  private denseOf(gradientOf: (p: Parameter) => Tensor | null): Tensor {
    const lineOf = (p: Parameter): Tensor =>
      gradientOf(p)?.detach().toDense().reshape([p.size]) ?? zeros([p.size], { dtype: p.dtype });
    return sweep(() => this.withMarks(this.plan.parameters.map(lineOf)));
  }

  private withMarks(lines: readonly Tensor[]): Tensor {
    const dtype = (lines[0] as Tensor).dtype;
    return concat(this.isMarked ? [...lines, tensor(this.present.map(Number), { dtype })] : lines);
  }

  buffer(): Tensor {
    return this.flat;
  }

  gradients(): Tensor[] {
    return this.plan.sparse ? [this.flat] : this.split(this.flat);
  }

  parameters(): Parameter[] {
    return [...this.plan.parameters];
  }

  /** What a group reduces: other members' sparse gradients have other indices. */
  dense(): Tensor {
    const line = (): Tensor => this.flat.toDense().reshape([this.flat.size]);
    return (this.sent = this.plan.sparse ? noGrad(() => sweep(() => this.withMarks([line()]))) : this.flat);
  }

  /**
   * The parts of an answer, a copy for each parameter that is `used`: that any member has a gradient of. `owned`: nobody else has the answer or
   * the buffer, and both are freed.
   */
  parts(result: Tensor, owned: boolean, used = this.usedIn(result)): Combined[] {
    const { parameters, sparse } = this.plan;
    if (!(result instanceof Tensor))
      throw new TypeError(`a communication hook answers a tensor, got ${kindOf(result)}`);
    if (sparse && !this.isMarked) {
      const [only] = parameters as [Parameter];
      if (!sameShape(result.shape, only.shape)) throw sizeError(result, only);
      return used[0] === true ? [[only, result, owned && result !== this.flat]] : [];
    }
    const sent = this.sent ?? this.flat;
    if (result.size !== sent.size) throw sizeError(result, sent);
    const parts = sweep(() => this.split(result.toDense()).map((part, i) => (used[i] === true ? part.clone() : null)));
    if (owned) for (const done of [result, sent, this.flat]) done.release();
    return parts.flatMap((part, i) => (part === null ? [] : [[parameters[i] as Parameter, part, true]]));
  }

  private usedIn(result: Tensor): readonly boolean[] {
    const { present, isMarked } = this;
    if (!isMarked || present.every((has) => has)) return present;
    const marks = (): Tensor => result.narrow(0, result.size - present.length, present.length).ne(0);
    return sweep(marks).toArray() as boolean[];
  }

  private split(flat: Tensor): Tensor[] {
    const line = flat.reshape([flat.size]);
    let at = 0;
    return this.plan.parameters.map((p) => {
      const part = line.narrow(0, at, p.size).reshape(p.shape);
      at += p.size;
      return part;
    });
  }
}

/** No rows of the first dimension. */
function emptySparse(p: Parameter): Tensor {
  const values = zeros([0, ...p.shape.slice(1)], { dtype: p.dtype });
  return sparseCooTensor(zeros([1, 0], { dtype: 'int64' }), values, p.shape);
}

function sizeError(got: Tensor, expected: Tensor): RangeError {
  return new RangeError(
    `a communication hook returned a tensor of shape [${got.shape.join(', ')}] for one of [${expected.shape.join(', ')}]`,
  );
}
