/** @file DistributedDataParallel: the same module on every worker, its gradients combined bucket by bucket. */
import { noGrad } from '../autograd/record.ts';
import { runBackward } from '../autograd/engine.ts';
import { zeros } from '../creation.ts';
import { dtypes } from '../dtype.ts';
import { concat } from '../ops/join.ts';
import { sameShape } from '../shape.ts';
import type { Parameter, Tensor } from '../tensor.ts';
import { Module, type Callable } from './module.ts';

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
}

interface Timed {
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** Workers that compute together. Every member makes the same calls in the same order. */
export interface ProcessGroup {
  readonly rank: number;
  readonly size: number;
  allReduce(t: Tensor, op?: 'sum' | 'mean', options?: Timed): Promise<Tensor>;
  broadcast(t: Tensor, from: number, options?: Timed): Promise<Tensor>;
}

type Hook = (bucket: GradBucket) => Tensor | Promise<Tensor>;

/** 25 MiB, as PyTorch's buckets. */
const DEFAULT_BUCKET_BYTES = 25 * 2 ** 20;

/**
 * Replicates gradients over a group. `forward` is the module's; `backward` resolves when every bucket's hook has, and then `.grad` of
 * each parameter holds the combined gradient. Without a hook, buckets are averaged over the group.
 */
export class DistributedDataParallel<M extends Module & Callable> extends Module {
  readonly module: M;
  readonly forward: M['forward'];
  private readonly group: ProcessGroup | undefined;
  private readonly bucketBytes: number;
  private hook: Hook | undefined;

  constructor(module: M, options: { group?: ProcessGroup; bucketBytes?: number } = {}) {
    super();
    const { bucketBytes = DEFAULT_BUCKET_BYTES } = options;
    if (!(bucketBytes > 0)) throw new RangeError(`bucketBytes must be positive, got ${bucketBytes}`);
    this.module = module;
    this.group = options.group;
    this.bucketBytes = bucketBytes;
    this.forward = ((...args: never[]) => (module.forward as (...a: never[]) => unknown)(...args)) as M['forward'];
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
    const buckets = this.buckets();
    const results = await Promise.all(buckets.map(async (bucket) => this.combine(bucket)));
    noGrad(() => buckets.forEach((bucket, i) => bucket.write(results[i] as Tensor)));
  }

  private async combine(bucket: Bucket): Promise<Tensor> {
    if (this.hook !== undefined) return this.hook(bucket);
    const { group } = this;
    if (group === undefined || group.size === 1) return bucket.buffer();
    // Other members' sparse gradients have other indices: the mean is taken densely.
    return group.allReduce(bucket.buffer().toDense(), 'mean');
  }

  /** Later layers first: their gradients are ready first. A parameter without a gradient counts as zero, so that all workers agree. */
  private buckets(): Bucket[] {
    const groups: Parameter[][] = [];
    let open: Parameter[] | undefined;
    let bytes = 0;
    for (const parameter of this.module.parameters().reverse()) {
      if (!parameter.requiresGrad) continue;
      if (parameter.grad?.layout === 'sparse_coo') {
        groups.push([parameter]);
        open = undefined;
        continue;
      }
      const size = parameter.size * dtypes[parameter.dtype].bytes;
      if (open === undefined || bytes + size > this.bucketBytes || open[0]?.dtype !== parameter.dtype) {
        groups.push((open = []));
        bytes = 0;
      }
      open.push(parameter);
      bytes += size;
    }
    return groups.map((parameters, index) => new Bucket(index, index === groups.length - 1, parameters));
  }
}

class Bucket implements GradBucket {
  readonly index: number;
  readonly isLast: boolean;
  private readonly list: readonly Parameter[];
  private readonly flat: Tensor;

  constructor(index: number, isLast: boolean, list: readonly Parameter[]) {
    this.index = index;
    this.isLast = isLast;
    this.list = list;
    const only = list.length === 1 ? list[0]?.grad : undefined;
    this.flat =
      only?.layout === 'sparse_coo'
        ? only.detach()
        : noGrad(() =>
            concat(
              list.map((p) =>
                p.grad === null ? zeros([p.size], { dtype: p.dtype }) : p.grad.detach().reshape([p.size]),
              ),
            ),
          );
  }

  buffer(): Tensor {
    return this.flat;
  }

  gradients(): Tensor[] {
    return this.flat.layout === 'sparse_coo' ? [this.flat] : this.split(this.flat);
  }

  parameters(): Parameter[] {
    return [...this.list];
  }

  /** Makes the parts of `result` the parameters' gradients. */
  write(result: Tensor): void {
    const only = this.list[0] as Parameter;
    if (this.flat.layout === 'sparse_coo') {
      if (!sameShape(result.shape, only.shape)) throw sizeError(result, only);
      only.grad = result;
      return;
    }
    if (result.size !== this.flat.size) throw sizeError(result, this.flat);
    const parts = this.split(result.toDense());
    this.list.forEach((p, i) => (p.grad = (parts[i] as Tensor).clone()));
  }

  private split(flat: Tensor): Tensor[] {
    const line = flat.reshape([flat.size]);
    let at = 0;
    return this.list.map((p) => {
      const part = line.narrow(0, at, p.size).reshape(p.shape);
      at += p.size;
      return part;
    });
  }
}

function sizeError(got: Tensor, expected: Tensor): RangeError {
  return new RangeError(
    `a communication hook returned a tensor of shape [${got.shape.join(', ')}] for one of [${expected.shape.join(', ')}]`,
  );
}
