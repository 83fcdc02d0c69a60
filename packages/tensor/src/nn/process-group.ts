/** @file What a group of workers does together for its replicas. */
import type { Tensor } from '../tensor.ts';
import type { Tags } from './replicas.ts';

interface Timed {
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** Workers that compute together. Every member makes the same calls in the same order. */
export interface ProcessGroup {
  readonly rank: number;
  readonly size: number;
  /**
   * The sum, or the mean, of what all bring. A sum is in the dtype of its parts, as `add` has it; a mean is of the numbers, also where
   * their sum is beyond whole numbers of the dtype, or float16: that of whole numbers is float32.
   * @param options.tags what the value belongs to, by kind. Values whose tags name different things of one kind never meet: all who
   * brought them are told, with an error that names both.
   */
  allReduce(t: Tensor, op?: 'sum' | 'mean', options?: Timed & { tags?: Tags | undefined }): Promise<Tensor>;
  broadcast(t: Tensor, from: number, options?: Timed): Promise<Tensor>;
}
