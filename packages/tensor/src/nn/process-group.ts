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
   * @param options.tags what the value belongs to, by kind. Values whose tags name different things of one kind never meet: all who
   * brought them are told, with an error that names both.
   */
  allReduce(t: Tensor, op?: 'sum' | 'mean', options?: Timed & { tags?: Tags | undefined }): Promise<Tensor>;
  broadcast(t: Tensor, from: number, options?: Timed): Promise<Tensor>;
}
