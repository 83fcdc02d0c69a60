/** @file What replicas agree on before they exchange anything: sums of whole numbers over their group. */
import { tensor } from '../creation.ts';
import { hashText } from '../hash-text.ts';
import type { Tensor } from '../tensor.ts';
import type { Calls } from './exchanges.ts';
import type { ProcessGroup } from './process-group.ts';
import { partReduceOf, type Tags } from './replicas.ts';

type Named = readonly (readonly [name: string, tensor: Tensor])[];

/** What members have to have alike. */
export interface Alike {
  readonly parameters: Named;
  readonly buffers?: Named;
}

/**
 * The sums over the group of what each member brings beside its parameters and buffers.
 * @throws Error on all members where these are not the same, with the names of the workers that have others than this one.
 */
export async function agreeOn(
  group: ProcessGroup,
  { parameters, buffers = [] }: Alike,
  beside: readonly number[],
  calls: Calls,
  tags: Tags,
): Promise<readonly number[]> {
  const tensors = [...parameters, ...buffers];
  const marks = tensors.map(([, one]) => markOf(one));
  const heard = await sumOf(group, [...beside, ...marks, ...marks.map((mark) => mark ** 2)], calls, tags);
  const sums = heard.slice(beside.length, beside.length + marks.length);
  const squares = heard.slice(beside.length + marks.length);
  // All marks are equal exactly where their sum's square is as many times the sum of their squares.
  const other = sums.findIndex((sum, i) => sum ** 2 !== group.size * (squares[i] as number));
  if (other === -1) return heard.slice(0, beside.length);
  const isBuffer = other >= parameters.length;
  const which = isBuffer ? `buffer ${other - parameters.length}` : `parameter ${other}`;
  const of = (isBuffer ? buffers : parameters).length;
  // All members have found the same, and ask each other.
  const mark = marks[other] as number;
  const all = await sumOf(group, oneOf(group, mark), calls, { ...tags, bucket: `who differs in ${which}` });
  const others = othersText(all, mark, calls);
  const [name, { shape, dtype, requiresGrad }] = tensors[other] as Named[number];
  const here = `has shape [${shape.join(', ')}] and dtype ${dtype} here${isBuffer || requiresGrad ? '' : ', and needs no gradient'}`;
  const text = `the replicas of this group differ in ${which} of ${of}, '${name}', which ${here}, and is another on ${others}`;
  throw new Error(text);
}

/** The names of the members that have brought another number than this one. */
export function othersText(all: readonly number[], own: number, { workers }: Calls): string {
  return all.flatMap((one, rank) => (one === own ? [] : [`'${workers?.[rank] ?? `rank ${rank}`}'`])).join(', ');
}

/** What a member brings, when the others are to know each member's: zeros in the places of the others. */
export function oneOf({ rank, size }: ProcessGroup, value: number): Float64Array {
  return new Float64Array(size).fill(value, rank, rank + 1);
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
function markOf({ shape, dtype, requiresGrad }: Tensor): number {
  const mark = hashText(`${dtype} ${shape.join()} ${requiresGrad}`);
  return (mark ^ (mark >>> 16)) & 0xffff;
}
