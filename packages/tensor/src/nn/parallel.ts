/** @file DistributedDataParallel: the same module on every worker, its gradients combined bucket by bucket. */
import { isGradEnabled, noGrad } from '../autograd/record.ts';
import { replaceGrad } from '../autograd/backward/accumulate.ts';
import { runBackward } from '../autograd/backward/engine.ts';
import { checkFunction, checkGivenOptions, kindOf } from '../given.ts';
import { checkOptionNames } from '../option-names.ts';
import { untracked } from '../scope.ts';
import type { Parameter, Tensor } from '../tensor.ts';
import { agreeOn, oneOf, sumOf } from './agreements.ts';
import { Bucket, planBuckets, type BucketPlan, type Combined, type GradBucket } from './buckets.ts';
import { Exchanges, type Calls } from './exchanges.ts';
import { startInOrder } from './in-order.ts';
import { agreeOnJoined, markOfJoined } from './joining.ts';
import { Module, type Callable } from './module.ts';
import type { ProcessGroup } from './process-group.ts';
import { partReduceOf, replicas, type PartReduce, type Tags } from './replicas.ts';
import { CombinedGradients } from '../optim/uncombined.ts';

const OPTIONS: ReadonlySet<string> = new Set(['group', 'bucketBytes']);

type Hook = (bucket: GradBucket) => Tensor | Promise<Tensor>;

/** @throws TypeError for what is no module, options or group; RangeError for buckets of no size. */
function checkReplica(module: unknown, options: { readonly group?: unknown; readonly bucketBytes?: unknown }): void {
  const what = 'nn.DistributedDataParallel';
  if (!(module instanceof Module)) throw new TypeError(`${what} takes a module, got ${kindOf(module)}`);
  checkGivenOptions(what, options);
  checkOptionNames(options, OPTIONS, what);
  const { group, bucketBytes } = options;
  const reduces = (group as Partial<ProcessGroup> | null | undefined)?.allReduce;
  if (group !== undefined && typeof reduces !== 'function')
    throw new TypeError(`${what}: the group is what processGroup() gives, got ${kindOf(group)}`);
  if (bucketBytes === undefined) return;
  if (typeof bucketBytes !== 'number') throw new TypeError(`bucketBytes is a number, got ${kindOf(bucketBytes)}`);
  if (!(bucketBytes > 0)) throw new RangeError(`bucketBytes must be positive, got ${bucketBytes}`);
}

const GIVE_GROUP = 'give them a group, new nn.DistributedDataParallel(module, { group: processGroup() })';

/** 25 MiB, as PyTorch's buckets. */
const DEFAULT_BUCKET_BYTES = 25 * 2 ** 20;

/**
 * Replicates gradients over a group. `forward` is the module's; `backward` resolves when every bucket's hook has, and then `.grad` of
 * each parameter holds the combined gradient. Without a hook, buckets are averaged over the group. A plain `loss.backward()` combines
 * nothing: gradients of several batches may be added up before the one that `backward` sends, and an optimizer's `step()` by what one
 * worker alone has is refused.
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
  /** Which parameters travel together, as the group has agreed on for these. */
  private layout: { readonly of: readonly Parameter[]; readonly plans: readonly BucketPlan[] } | undefined;
  private readonly exchanges: Exchanges;
  private readonly gradients: CombinedGradients;
  private pass = 0;
  /** Inside `join`: passes this worker has made since it began. */
  private joined: { passes: number } | undefined;

  constructor(module: M, options: { group?: ProcessGroup; bucketBytes?: number } = {}) {
    super();
    checkReplica(module, options);
    const { bucketBytes = DEFAULT_BUCKET_BYTES } = options;
    this.module = module;
    this.group = options.group;
    this.bucketBytes = bucketBytes;
    this.exchanges = new Exchanges(options.group);
    this.gradients = new CombinedGradients(module.parameters(), () => !this.alone || this.hook !== undefined);
    this.forward = ((...args: never[]) => {
      replicas.onForward?.(this, this.exchanges.turn);
      if (isGradEnabled()) this.gradients.ran();
      return (module.forward as (...a: never[]) => unknown)(...args);
    }) as M['forward'];
  }

  /**
   * Copies the parameters and buffers of the worker with rank `from` to all: call it on every worker before training. In passes buffers, such
   * as the running mean of a `BatchNorm1d`, are each worker's own.
   * @throws Error on all of them where their parameters, buffers or `from` are not the same, or no member has that rank; TypeError without a
   *   group.
   */
  async synchronize(from = 0): Promise<void> {
    const { group, exchanges } = this;
    if (group === undefined && this.hook !== undefined) return;
    if (group === undefined) throw new TypeError(`synchronize() has nobody to copy from: ${GIVE_GROUP}`);
    if (group.size === 1) return;
    const { module } = this;
    const [parameters, buffers] = [module.namedParameters(), module.namedBuffers()];
    const tags = this.tagsOf(this.pass, 'synchronize');
    await exchanges.run(async (calls) => {
      if (!Number.isInteger(from) || from < 0 || from >= group.size)
        throw new RangeError(`synchronize(): no member has rank ${typeof from === 'number' ? from : kindOf(from)}`);
      await agreeOn(group, { parameters, buffers }, [], calls, tags);
      for (const [, copied] of [...parameters, ...buffers]) {
        const { signal } = calls;
        const own = copied.detach();
        const value = await calls.call(tags, undefined, () => group.broadcast(own, from, { signal }));
        noGrad(() => copied.copy_(value));
        // A group of the program's may have kept them.
        if (this.partReduce !== undefined) for (const done of [own, value]) done.release();
      }
    });
  }

  /**
   * Combines gradients by `hook` instead of the group's mean: register one on every worker. It gets each bucket once a pass, in order,
   * and answers a tensor of the size of the buffer (or sparse, for a sparse one). What it calls of groups, as often and as late as it
   * likes, meets what the hooks of other workers call for the same bucket. @throws TypeError when there is a hook already.
   */
  registerCommHook<S>(state: S, hook: (state: S, bucket: GradBucket) => Tensor | Promise<Tensor>): void {
    checkFunction('registerCommHook', hook);
    if (this.hook !== undefined) throw new TypeError('a communication hook is already registered');
    this.hook = (bucket) => hook(state, bucket);
    // The workers agree that all have one.
    this.layout = undefined;
  }

  /**
   * Runs the local backward pass, then the hooks. Rejects with the first error of a hook; gradients are then the local ones. When any of
   * it fails on one worker, it does on all, and so does every later pass of these replicas.
   * @throws TypeError without a group and without a hook: each worker would train a model of its own.
   */
  async backward(loss: Tensor): Promise<void> {
    this.requireOthers();
    try {
      runBackward([loss]);
    } catch (error) {
      this.fail(error);
      throw error;
    }
    // Past `.grad`: what the program has not looked at is freed when it is replaced.
    const combined = await this.combine((p) => p.meta?.grad ?? null).finally(() => this.gradients.passed());
    for (const [parameter, gradient, ours] of combined)
      if (ours && parameter.meta !== undefined) replaceGrad(parameter.meta, gradient);
      else parameter.grad = gradient;
    this.gradients.gave(combined.map(([parameter]) => parameter));
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
    this.requireOthers();
    const combined = await this.combine((p) => gradients.get(p) ?? null, options).finally(() =>
      this.gradients.passed(),
    );
    return new Map(combined.map(([parameter, gradient]) => [parameter, gradient]));
  }

  /**
   * A pass that the group would have met in failed on this worker: later ones are refused, as they might meet others' old values, and
   * the others are told.
   */
  fail(cause: unknown): void {
    this.gradients.passed();
    this.exchanges.fail(cause);
  }

  /**
   * For workers with unequal numbers of batches: every worker runs its own loop in `fn`; those that end first answer the others' passes
   * with zeros, which still count in the mean, until all have ended. Then all take the parameters and buffers of the worker with most passes.
   * Inside, each pass asks first who is still there: one more small all-reduce. When `fn` throws, the others are told in their next pass.
   * @param beside other models that are trained in the same loop, each over a process group of its own; the loops make passes with them all
   *   in the same order until they end
   * @throws Error on all workers where they name different models over the same workers; what `fn` throws
   */
  async join<T>(fn: () => Promise<T>, ...beside: readonly DistributedDataParallel<Module & Callable>[]): Promise<T> {
    checkFunction('join', fn);
    const all = [this, ...beside].filter((model) => !model.alone);
    if (all.some(({ joined }) => joined !== undefined)) throw new TypeError('join() is already running');
    const lines = all.map(({ group, exchanges }) => exchanges.turn.line || group);
    if (new Set(lines).size < lines.length)
      throw new TypeError(
        'join() of several models needs a processGroup() for each: passes over one are made in one order',
      );
    for (const model of all) model.joined = { passes: 0 };
    let first: { readonly error: unknown } | undefined;
    const fail = (error: unknown): void => {
      first ??= { error };
      for (const model of all) model.fail(error);
    };
    // Beside the loop, whose passes come after it.
    const agreed = Promise.all(all.map((model) => model.agreeOnJoined(all)));
    agreed.catch(fail);
    try {
      const result = await fn();
      await agreed;
      await Promise.all(all.map((model) => model.exchanges.together(() => model.answerOthers())));
      return result;
    } catch (error) {
      fail(error);
      // What the loop threw may be what came of that.
      throw first?.error;
    } finally {
      for (const model of all) model.joined = undefined;
    }
  }

  /** This worker joins these models, and the others of the group do, too. */
  private agreeOnJoined(all: readonly DistributedDataParallel<Module & Callable>[]): Promise<void> {
    const group = this.group as ProcessGroup;
    const mark = markOfJoined(
      this.exchanges,
      all.map(({ exchanges }) => exchanges),
    );
    const tags = this.tagsOf(this.pass, 'models that are joined');
    return this.exchanges.run((calls) => agreeOnJoined(group, mark, calls, tags));
  }

  /** The loop of this worker has ended: answers the passes of the others until theirs have, too. */
  private async answerOthers(): Promise<void> {
    const group = this.group as ProcessGroup;
    while ((await this.exchange(() => null, {}, false)) !== undefined);
    const own = oneOf(group, this.joined?.passes ?? 0);
    const tags = this.tagsOf(this.pass, 'passes');
    const passes = await this.exchanges.run((calls) => sumOf(group, own, calls, tags));
    await this.synchronize(passes.indexOf(Math.max(...passes)));
  }

  /** There is no group of all workers by default, since the module may be on some of them alone. */
  private requireOthers(): void {
    if (this.group !== undefined || this.hook !== undefined) return;
    throw new TypeError(`nothing combines the gradients of these replicas: ${GIVE_GROUP}, or registerCommHook()`);
  }

  private async combine(gradientOf: GradientOf, options: PassOptions = {}): Promise<Combined[]> {
    this.exchanges.check();
    if (this.joined !== undefined) this.joined.passes++;
    return (await this.exchange(gradientOf, options)) ?? [];
  }

  /** A pass with the gradients as they are now. In `join`, undefined when no worker has one to make. */
  private async exchange(
    gradientOf: GradientOf,
    { signal, tags }: PassOptions = {},
    active = true,
  ): Promise<Combined[] | undefined> {
    const pass = ++this.pass;
    const isJoined = this.joined !== undefined;
    // A hook is given gradients and nothing else.
    const isMarked = !this.alone && this.hook === undefined;
    const bucketed = (plans: readonly BucketPlan[], of: GradientOf): readonly Bucket[] =>
      plans.map((plan, i) => {
        const about = { ...tags, ...this.tagsOf(pass, i) };
        return new Bucket(i, i === plans.length - 1, plan, of, about, isMarked);
      });
    const plans = this.planned(gradientOf);
    const ready = plans && bucketed(plans, gradientOf);
    const kept = ready === undefined ? copiesOf(this.trained(), gradientOf) : undefined;
    try {
      return await this.exchanges.run(async (calls) => {
        const layout = { ...tags, ...this.tagsOf(pass, 'layout') };
        if (isJoined && (await this.countActive(active, calls, pass)) === 0) return undefined;
        const own = (p: Parameter): Tensor | null => kept?.get(p) ?? null;
        // A pass that was under way may have agreed on it.
        const buckets = ready ?? bucketed(this.planned(own) ?? (await this.agreedPlan(own, calls, layout)), own);
        calls.signal.throwIfAborted();
        const room = await calls.room();
        const [results, used] = await Promise.all([
          startInOrder(buckets, room, (bucket) => this.exchanges.together(() => this.send(bucket, calls))),
          isMarked || this.alone ? undefined : this.usedOf(buckets, calls, pass),
        ]);
        const owned = this.hook === undefined && (this.alone || this.partReduce !== undefined);
        return noGrad(() => buckets.flatMap((bucket, i) => bucket.parts(results[i] as Tensor, owned, used?.[i])));
      }, signal);
    } finally {
      for (const copy of kept?.values() ?? []) copy.release();
    }
  }

  /** How many workers have a pass to make now. */
  private async countActive(active: boolean, calls: Calls, pass: number): Promise<number> {
    const [count] = await sumOf(this.group as ProcessGroup, [active ? 1 : 0], calls, this.tagsOf(pass, 'who is there'));
    return count as number;
  }

  /** Which parameters of each bucket any worker has a gradient of, asked beside the hooks. */
  private async usedOf(buckets: readonly Bucket[], calls: Calls, pass: number): Promise<boolean[][]> {
    const own = buckets.flatMap(({ present }) => present.map(Number));
    const about = this.tagsOf(pass, 'who has gradients');
    const sums = await sumOf(this.group as ProcessGroup, own, calls, about, buckets.length);
    return buckets.map(({ present }) => sums.splice(0, present.length).map((count) => count > 0));
  }

  private tagsOf(pass: number, bucket: string | number): Tags {
    return { replica: this.exchanges.replica, pass, bucket };
  }

  private get alone(): boolean {
    return this.group === undefined || this.group.size === 1;
  }

  /** The group's own reduction for passes. What it takes and gives nobody else has. */
  private get partReduce(): PartReduce | undefined {
    return this.group && partReduceOf(this.group);
  }

  private async send(bucket: Bucket, { signal, call }: Calls): Promise<Tensor> {
    const { hook, group, partReduce } = this;
    const { index, tags } = bucket;
    bucket.begin(signal);
    if (hook !== undefined) return call(tags, index, () => hook(bucket));
    if (group === undefined || group.size === 1) return bucket.buffer();
    return call(tags, index, () =>
      partReduce === undefined
        ? group.allReduce(bucket.dense(), 'mean', { signal, tags })
        : partReduce(bucket.dense(), { signal, tags }),
    );
  }

  /** Which parameters travel together, where this worker need ask nobody. */
  private planned(gradientOf: GradientOf): readonly BucketPlan[] | undefined {
    const parameters = this.trained();
    if (this.alone) return this.plan(new Set(parameters.filter((p) => isSparse(gradientOf(p)))));
    const { layout } = this;
    return layout?.of.length === parameters.length && parameters.every((p, i) => p === layout.of[i])
      ? layout.plans
      : undefined;
  }

  private trained(): Parameter[] {
    return this.module.parameters().filter((p) => p.requiresGrad);
  }

  private plan(sparse: ReadonlySet<Parameter>): readonly BucketPlan[] {
    const of = this.trained();
    const plans = planBuckets(of, (i) => sparse.has(of[i] as Parameter), this.bucketBytes);
    this.layout = { of, plans };
    return plans;
  }

  /**
   * The workers agree once which gradients are sparse, in their first pass: a worker that has no gradient, or an ended one, cannot know.
   * @throws Error on all of them where their parameters are not the same, or only some have a hook.
   */
  private async agreedPlan(gradientOf: GradientOf, calls: Calls, tags: Tags): Promise<readonly BucketPlan[]> {
    const group = this.group as ProcessGroup;
    // All of them, those too that need no gradient here: another member's may be others.
    const parameters = this.module.namedParameters();
    const all = parameters.map(([, p]) => p);
    const sparse = all.map((p) => Number(p.requiresGrad && isSparse(gradientOf(p))));
    const hooks = this.hook === undefined ? 0 : 1;
    const [hooked = 0, ...flags] = await agreeOn(group, { parameters }, [hooks, ...sparse], calls, tags);
    if (hooked !== hooks * group.size)
      throw new Error(
        `the replicas of this group have a communication hook on some of its workers only, ${hooks === 0 ? 'not' : 'also'} here`,
      );
    return this.plan(new Set(all.filter((_, i) => flags[i] !== 0)));
  }
}

/** The gradients that there are, as they are now: while workers agree on what travels together, a program may go on. */
function copiesOf(parameters: readonly Parameter[], gradientOf: GradientOf): Map<Parameter, Tensor> {
  const copies = new Map<Parameter, Tensor>();
  for (const p of parameters) {
    const gradient = gradientOf(p);
    if (gradient !== null)
      copies.set(
        p,
        untracked(() => noGrad(() => gradient.detach().clone())),
      );
  }
  return copies;
}

const isSparse = (gradient: Tensor | null): boolean => gradient?.layout === 'sparse_coo';

type GradientOf = (p: Parameter) => Tensor | null;

interface PassOptions {
  readonly signal?: AbortSignal | undefined;
  /** They go with the values of the pass. */
  readonly tags?: Tags | undefined;
}
