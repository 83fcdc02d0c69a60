/** @file DistributedDataParallel: the same module on every worker, its gradients combined bucket by bucket. */
import { noGrad } from '../autograd/record.ts';
import { replaceGrad } from '../autograd/backward/accumulate.ts';
import { runBackward } from '../autograd/backward/engine.ts';
import { tensor, zeros } from '../creation.ts';
import { dtypes } from '../dtype.ts';
import { concat } from '../ops/join.ts';
import { sweep } from '../scope.ts';
import { sameShape } from '../shape.ts';
import { sparseCooTensor } from '../ops/sparse/coo.ts';
import type { Parameter, Tensor } from '../tensor.ts';
import { Module, type Callable } from './module.ts';
import { partReduces, replicas, type PartReduce } from './replicas.ts';
import { checkOptionNames } from '../option-names.ts';

const OPTIONS: ReadonlySet<string> = new Set(['group', 'bucketBytes']);

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

interface Timed {
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

type Tags = Readonly<Record<string, string | number>>;

/** Workers that compute together. Every member makes the same calls in the same order. */
export interface ProcessGroup {
  readonly rank: number;
  readonly size: number;
  /**
   * @param options.tags what the value belongs to, by kind. Values whose tags name different things of one kind never meet: all who
   * brought them are told, with an error that names both.
   */
  allReduce(t: Tensor, op?: 'sum' | 'mean', options?: Timed & { tags?: Tags | undefined }): Promise<Tensor>;
  broadcast(t: Tensor, from: number, options?: Timed): Promise<Tensor>;
}

type Hook = (bucket: GradBucket) => Tensor | Promise<Tensor>;

/** 25 MiB, as PyTorch's buckets. */
const DEFAULT_BUCKET_BYTES = 25 * 2 ** 20;

/**
 * Replicates gradients over a group. `forward` is the module's; `backward` resolves when every bucket's hook has, and then `.grad` of
 * each parameter holds the combined gradient. Without a hook, buckets are averaged over the group. A plain `loss.backward()` combines
 * nothing: gradients of several batches may be added up before the one that `backward` sends.
 * @example
 * ```ts
 * await initRpc({ name: 'worker0', rank: 0, worldSize: 1, store: 'memory://example-replicas' });
 * const model = new nn.DistributedDataParallel(new nn.Linear(2, 1), { group: processGroup() });
 * const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
 *
 * await model.backward(model.forward(ones([4, 2])).mean()); // averaged over all members
 * optimizer.step();
 * await shutdown();
 * ```
 */
export class DistributedDataParallel<M extends Module & Callable> extends Module {
  readonly module: M;
  readonly forward: M['forward'];
  private readonly group: ProcessGroup | undefined;
  private readonly bucketBytes: number;
  private hook: Hook | undefined;
  private layout: readonly BucketPlan[] | undefined;
  /** Which of its group's replicas this is, and which pass it is in: others' values of another one do not go with its own. */
  private readonly number: number;
  private pass = 0;
  /** Why this replica may be out of step with its group. */
  private broken: { cause: unknown } | undefined;
  /** Inside `join`: passes this worker has made since it began. */
  private joined: { passes: number } | undefined;

  constructor(module: M, options: { group?: ProcessGroup; bucketBytes?: number } = {}) {
    super();
    checkOptionNames(options, OPTIONS, 'nn.DistributedDataParallel');
    const { bucketBytes = DEFAULT_BUCKET_BYTES } = options;
    if (!(bucketBytes > 0)) throw new RangeError(`bucketBytes must be positive, got ${bucketBytes}`);
    this.module = module;
    this.group = options.group;
    this.bucketBytes = bucketBytes;
    this.number = options.group === undefined ? 0 : numberIn(options.group);
    this.forward = ((...args: never[]) => {
      replicas.onForward?.(this);
      return (module.forward as (...a: never[]) => unknown)(...args);
    }) as M['forward'];
  }

  /** Copies the parameters of the worker with rank `from` to all: call it on every worker before training. */
  async synchronize(from = 0): Promise<void> {
    const { group } = this;
    if (group === undefined) return;
    for (const parameter of this.module.parameters()) {
      const value = await group.broadcast(parameter.detach(), from);
      noGrad(() => parameter.copy_(value));
    }
  }

  /**
   * Combines gradients by `hook` instead of the group's mean. The hook gets each bucket once a pass, in order, and answers a tensor of
   * the size of the buffer (or sparse, for a sparse one). @throws TypeError when there is a hook already.
   */
  registerCommHook<S>(state: S, hook: (state: S, bucket: GradBucket) => Tensor | Promise<Tensor>): void {
    if (this.hook !== undefined) throw new TypeError('a communication hook is already registered');
    this.hook = (bucket) => hook(state, bucket);
  }

  /** Runs the local backward pass, then the hooks. Rejects with the first error of a hook; gradients are then the local ones. */
  async backward(loss: Tensor): Promise<void> {
    runBackward([loss]);
    // Past `.grad`: what the program has not looked at is freed when it is replaced.
    const combined = await this.combine((p) => p.meta?.grad ?? null);
    for (const [parameter, gradient, ours] of combined)
      if (ours && parameter.meta !== undefined) replaceGrad(parameter.meta, gradient);
      else parameter.grad = gradient;
  }

  /**
   * Combines gradients that were collected elsewhere, as a distributed autograd context's are: what the group agrees on, by parameter.
   * `.grad` is neither read nor set. Counts as a pass: every worker makes the same calls of this and `backward` in the same order.
   * `tags` go with this worker's values, as in `ProcessGroup.allReduce`.
   * `signal` withdraws what this worker has brought. After that, or any failure of the group, the workers may be out of step: every
   * later pass of this replica is refused.
   */
  async reduceGradients(
    gradients: ReadonlyMap<Tensor, Tensor>,
    options: { signal?: AbortSignal; tags?: Tags } = {},
  ): Promise<Map<Parameter, Tensor>> {
    const combined = await this.combine((p) => gradients.get(p) ?? null, options);
    return new Map(combined.map(([parameter, gradient]) => [parameter, gradient]));
  }

  /** A pass that the group would have met in failed on this worker: later ones are refused, as they might meet others' old values. */
  fail(cause: unknown): void {
    if (this.group !== undefined && this.group.size > 1) this.broken ??= { cause };
  }

  /**
   * For workers with unequal numbers of batches: every worker runs its own loop in `fn`; those that end first answer the others' passes
   * with zeros, which still count in the mean, until all have ended. Then all take the parameters of the worker with most passes.
   * Inside, each pass asks first who is still there: one more small all-reduce. When `fn` throws, its worker answers no longer.
   */
  async join<T>(fn: () => Promise<T>): Promise<T> {
    const { group } = this;
    if (group === undefined || group.size === 1) return fn();
    if (this.joined !== undefined) throw new TypeError('join() is already running');
    const state = (this.joined = { passes: 0 });
    try {
      const result = await fn();
      while ((await this.countActive(false)) > 0) await this.exchange(() => null);
      const passes = new Float32Array(group.size);
      passes[group.rank] = state.passes;
      await this.synchronize((await group.allReduce(tensor(passes), 'sum')).argMax().item());
      return result;
    } finally {
      this.joined = undefined;
    }
  }

  /** How many workers have a pass to make now. */
  private async countActive(active: boolean): Promise<number> {
    const tags = { replica: this.number, pass: this.pass + 1, bucket: 'who is there' };
    return (await (this.group as ProcessGroup).allReduce(tensor([active ? 1 : 0]), 'sum', { tags })).item();
  }

  private async combine(gradientOf: (p: Parameter) => Tensor | null, options: Exchange = {}): Promise<Combined[]> {
    if (this.broken !== undefined) throw brokenError(this.broken.cause);
    if (this.joined !== undefined) {
      this.joined.passes++;
      await this.countActive(true);
    }
    return this.exchange(gradientOf, options);
  }

  private async exchange(
    gradientOf: (p: Parameter) => Tensor | null,
    { signal, tags }: Exchange = {},
  ): Promise<Combined[]> {
    const own = { ...tags, replica: this.number, pass: ++this.pass };
    const plans = await this.plan(gradientOf, { signal, tags: { ...own, bucket: 'layout' } });
    if (signal?.aborted === true) throw signal.reason;
    const withdrawals = plans.map(() => new AbortController());
    const buckets = plans.map((plan, i) => {
      const about = { signal: (withdrawals[i] as AbortController).signal, tags: { ...own, bucket: i } };
      return new Bucket(i, i === plans.length - 1, plan, gradientOf, about);
    });
    // The last one first: what is left of this worker's still lines up with the others' buckets.
    const withdraw = (): void => {
      this.fail(signal?.reason);
      for (const one of [...withdrawals].reverse()) one.abort(signal?.reason);
    };
    signal?.addEventListener('abort', withdraw, { once: true });
    const sent = buckets.map(async (bucket) => this.send(bucket));
    const results = await Promise.all(sent).finally(() => signal?.removeEventListener('abort', withdraw));
    const owned = this.hook === undefined && (this.alone || this.partReduce !== undefined);
    return noGrad(() => buckets.flatMap((bucket, i) => bucket.parts(results[i] as Tensor, owned)));
  }

  private get alone(): boolean {
    return this.group === undefined || this.group.size === 1;
  }

  /** The group's own reduction for passes; a group of the program's has none. What it takes and gives nobody else has. */
  private get partReduce(): PartReduce | undefined {
    return this.group === undefined
      ? undefined
      : partReduces.get((this.group as { readonly allReduce: object }).allReduce);
  }

  private async send(bucket: Bucket): Promise<Tensor> {
    const { hook, group, partReduce } = this;
    const { signal, tags } = bucket;
    if (hook !== undefined) return unlessAborted(hook(bucket), signal);
    if (group === undefined || group.size === 1) return bucket.buffer();
    if (partReduce !== undefined) return this.met(partReduce(bucket.dense(), { signal, tags }));
    return this.met(group.allReduce(bucket.dense(), 'mean', { signal, tags }));
  }

  /** What the group makes of this worker's part; without an answer nobody knows who is in step. */
  private async met(answer: Promise<Tensor>): Promise<Tensor> {
    try {
      return await answer;
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  /**
   * Which parameters travel together. In a group the workers agree once which gradients are sparse, in their first pass: a worker
   * that has no gradient, or an ended one, cannot know. @throws Error on all of them where their parameters are not the same.
   */
  private async plan(gradientOf: (p: Parameter) => Tensor | null, options: Exchange): Promise<readonly BucketPlan[]> {
    const parameters = this.module.parameters().filter((p) => p.requiresGrad);
    const known = this.layout?.flatMap((plan) => plan.parameters);
    if (known?.length === parameters.length && parameters.every((p) => known.includes(p)) && this.group !== undefined)
      return this.layout as readonly BucketPlan[];
    const sparse = parameters.map((p) => gradientOf(p)?.layout === 'sparse_coo');
    const { group } = this;
    if (group === undefined || group.size === 1 || parameters.length === 0)
      return (this.layout = planBuckets(parameters, (i) => sparse[i] === true, this.bucketBytes));
    const marks = parameters.map(markOf);
    const said = Float64Array.from([...sparse.map(Number), ...marks, ...marks.map((mark) => mark ** 2)]);
    const heard = (await this.met(group.allReduce(tensor(said), 'sum', options))).dataSync() as Float64Array;
    const [flags, sums, squares] = [0, 1, 2].map((k) => heard.subarray(k * marks.length, (k + 1) * marks.length)) as [
      Float64Array,
      Float64Array,
      Float64Array,
    ];
    // All marks are equal exactly where their sum's square is as many times the sum of their squares.
    const other = sums.findIndex((sum, i) => sum ** 2 !== group.size * (squares[i] as number));
    if (other !== -1) {
      const { shape, dtype } = parameters[other] as Parameter;
      const text = `the replicas of this group differ in parameter ${other} of ${parameters.length}, which has shape [${shape.join(', ')}] and dtype ${dtype} here`;
      const error = new Error(text);
      this.fail(error);
      throw error;
    }
    return (this.layout = planBuckets(parameters, (i) => flags[i] !== 0, this.bucketBytes));
  }
}

/** A number for a shape and dtype; small enough that sums of squares over a group are exact. */
function markOf({ shape, dtype }: Parameter): number {
  let mark = 0x811c9dc5;
  for (const char of `${dtype} ${shape.join()}`) mark = Math.imul(mark ^ (char.codePointAt(0) as number), 0x01000193);
  return (mark ^ (mark >>> 16)) & 0xffff;
}

/** A parameter with its gradient, and whether that is the library's own: nobody else has it. */
type Combined = [parameter: Parameter, gradient: Tensor, ours: boolean];

/** What goes with the values of one pass. */
interface Exchange {
  readonly signal?: AbortSignal | undefined;
  readonly tags?: Tags | undefined;
}

const replicasOf = new WeakMap<ProcessGroup, number>();

/** Members make their replicas in the same order, so that each has the same number on all of them. */
function numberIn(group: ProcessGroup): number {
  const number = (replicasOf.get(group) ?? 0) + 1;
  replicasOf.set(group, number);
  return number;
}

/** What a hook of the program answers; nobody waits for it once the pass has failed. */
function unlessAborted(answer: Tensor | Promise<Tensor>, signal: AbortSignal): Tensor | Promise<Tensor> {
  if (!(answer instanceof Promise)) return answer;
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

function brokenError(cause: unknown): Error {
  const why = cause instanceof Error ? cause.message : String(cause);
  const text = `this DistributedDataParallel may be out of step with its group since a pass failed (${why})`;
  return new Error(`${text}: make new replicas on every worker`, { cause });
}

/** What one bucket holds: some parameters, or one whose gradient is sparse. */
interface BucketPlan {
  readonly parameters: Parameter[];
  readonly sparse: boolean;
}

/** Later layers first: their gradients are ready first. */
function planBuckets(parameters: readonly Parameter[], isSparse: (i: number) => boolean, limit: number): BucketPlan[] {
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

class Bucket implements GradBucket {
  readonly index: number;
  readonly isLast: boolean;
  readonly signal: AbortSignal;
  readonly tags: Tags;
  private readonly plan: BucketPlan;
  private readonly flat: Tensor;
  private sent: Tensor | undefined;

  /** A parameter without a gradient counts as zero, so that all workers agree. */
  constructor(
    index: number,
    isLast: boolean,
    plan: BucketPlan,
    gradientOf: (p: Parameter) => Tensor | null,
    about: { signal: AbortSignal; tags: Tags },
  ) {
    this.signal = about.signal;
    this.tags = about.tags;
    this.index = index;
    this.isLast = isLast;
    this.plan = plan;
    this.flat = noGrad(() => (plan.sparse ? this.sparseOf(gradientOf) : this.denseOf(gradientOf)));
  }

  private sparseOf(gradientOf: (p: Parameter) => Tensor | null): Tensor {
    const [only] = this.plan.parameters as [Parameter];
    const own = gradientOf(only)?.detach() ?? emptySparse(only);
    return own.layout === 'sparse_coo' ? own : own.toSparse();
  }

  private denseOf(gradientOf: (p: Parameter) => Tensor | null): Tensor {
    const lineOf = (p: Parameter): Tensor =>
      gradientOf(p)?.detach().toDense().reshape([p.size]) ?? zeros([p.size], { dtype: p.dtype });
    return sweep(() => concat(this.plan.parameters.map(lineOf)));
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
    return (this.sent = this.plan.sparse ? noGrad(() => this.flat.toDense()) : this.flat);
  }

  /** The parts of an answer, a copy for each parameter. `owned`: nobody else has the answer or the buffer, and both are freed. */
  parts(result: Tensor, owned: boolean): Combined[] {
    const { parameters, sparse } = this.plan;
    if (sparse) {
      const [only] = parameters as [Parameter];
      if (!sameShape(result.shape, only.shape)) throw sizeError(result, only);
      const ours = owned && result !== this.flat;
      if (ours) for (const done of [this.flat, this.sent]) done?.release();
      return [[only, result, ours]];
    }
    if (result.size !== this.flat.size) throw sizeError(result, this.flat);
    const parts = sweep(() => this.split(result.toDense()).map((part) => part.clone()));
    if (owned) for (const done of [result, this.flat]) done.release();
    return parts.map((part, i) => [parameters[i] as Parameter, part, owned]);
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
