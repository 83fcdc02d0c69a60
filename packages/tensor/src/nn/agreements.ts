/** @file What replicas agree on before they exchange anything: sums of whole numbers over their group. */
import { tensor } from '../creation.ts';
import { hashText } from '../hash-text.ts';
import type { Parameter } from '../tensor.ts';
import type { Calls } from './exchanges.ts';
import type { ProcessGroup } from './process-group.ts';
import { partReduceOf, type Tags } from './replicas.ts';

/**
 * The sums over the group of what each member brings beside its parameters.
 * @throws Error on all members where the parameters are not the same.
 */
export async function agreeOn(
  group: ProcessGroup,
  parameters: readonly Parameter[],
  beside: readonly number[],
  calls: Calls,
  tags: Tags,
): Promise<readonly number[]> {
  const marks = parameters.map(markOf);
  const heard = await sumOf(group, [...beside, ...marks, ...marks.map((mark) => mark ** 2)], calls, tags);
  const sums = heard.slice(beside.length, beside.length + marks.length);
  const squares = heard.slice(beside.length + marks.length);
  // All marks are equal exactly where their sum's square is as many times the sum of their squares.
  const other = sums.findIndex((sum, i) => sum ** 2 !== group.size * (squares[i] as number));
  if (other === -1) return heard.slice(0, beside.length);
  const { shape, dtype, requiresGrad } = parameters[other] as Parameter;
  const text = `the replicas of this group differ in parameter ${other} of ${parameters.length}, which has shape [${shape.join(', ')}] and dtype ${dtype} here${requiresGrad ? '' : ', and needs no gradient'}`;
  throw new Error(text);
}

/** Sums of whole numbers over the group; with `bucket` beside what is called for buckets, as one more of them. */
export async function sumOf(
  group: ProcessGroup,
  values: ArrayLike<number>,
  { call, signal }: Calls,
  tags: Tags,
  bucket?: number,
): Promise<number[]> {
  const brought = tensor(Float64Array.from(values));
  const mean = await call(tags, bucket, () => group.allReduce(brought, 'mean', { signal, tags }));
  const sums = Array.from(mean.dataSync() as Float64Array, (value) => Math.round(value * group.size));
  // A group of the program's may have kept them.
  if (partReduceOf(group) !== undefined) for (const done of [brought, mean]) done.release();
  return sums;
}

/** A number for a shape and dtype, and whether there is a gradient; small enough that sums of squares over a group are exact. */
function markOf({ shape, dtype, requiresGrad }: Parameter): number {
  const mark = hashText(`${dtype} ${shape.join()} ${requiresGrad}`);
  return (mark ^ (mark >>> 16)) & 0xffff;
}
