/**
 * @file The all-reduce of a data-parallel pass: of a large tensor several members collect a part each, so that no member takes and answers
 * more than its share. A reduce-scatter and an all-gather, as in Rabenseifner's algorithm (Thakur, Rabenseifner and Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005), with every part sent directly.
 *
 * Each part is a meeting of its own. A call that some members give up may have met at one collector and not at another; what is left at the
 * second must never meet a later call, or a sum would be of two. So this is for callers whose tags name every call differently, and
 * that make no other after one has failed. What a program reduces itself meets as a whole, at one member.
 */
import { concat, noGrad, type Tensor } from '@backwire/tensor';
import { untracked } from '@backwire/tensor/internal';
import { dtypeBytes } from '@backwire/wire/internal';
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import type { MeetOptions } from './collectives.ts';
import type { CollectiveTags } from './combine.ts';

/** Fewer bytes are not worth a message of their own. */
const PART_BYTES = 64 * 1024;

export interface PartsOptions {
  /** The members by name, this worker among them. */
  readonly workers: readonly string[];
  /** They name this call and no other. */
  readonly tags: CollectiveTags;
  readonly signal?: AbortSignal | undefined;
}

/** Brings a value to a meeting, as `Collectives.meet`. */
type Meet = (name: string, value: Tensor, options: MeetOptions) => Promise<Tensor>;

/**
 * What `meet` makes of all members' tensors, which have one shape and dtype; the same bits for every member. The caller owns it.
 * @throws what the first part that failed rejects with; nothing of this worker's waits anywhere then.
 */
export async function reduceInParts(
  meet: Meet,
  name: string,
  tensor: Tensor,
  { signal, ...options }: PartsOptions,
): Promise<Tensor> {
  const parts = partsOf(tensor, options.workers.length);
  const over = new AbortController();
  const withdraw = (): void => over.abort(signal?.reason);
  if (signal?.aborted === true) withdraw();
  else if (signal !== undefined) watchAbort(signal, withdraw);
  const answers: (Tensor | undefined)[] = parts.map(() => undefined);
  let failure: { readonly error: unknown } | undefined;
  const bring = async (part: Tensor, collector: number): Promise<void> => {
    // One line at a time says whom this worker waits for: that of the first part which has not come.
    const speaks = (): boolean => answers.indexOf(undefined) === collector;
    try {
      answers[collector] = await meet(name, part, {
        ...options,
        signal: over.signal,
        collector,
        speaks,
        isPrivate: true,
      });
    } catch (error) {
      failure ??= { error };
      // What was brought to the other members is of no use to anybody.
      over.abort(error);
    }
  };
  await Promise.all(parts.map(bring));
  if (signal !== undefined) unwatchAbort(signal, withdraw);
  for (const part of parts) part.release();
  if (failure === undefined) return joined(answers as Tensor[], tensor.shape);
  for (const answer of answers) answer?.release();
  throw failure.error;
}

/** Views of the elements, one after the other, for some of so many members; or the tensor, where it is too small for that. */
function partsOf(tensor: Tensor, members: number): Tensor[] {
  return untracked(() =>
    noGrad(() => {
      const whole = tensor.detach();
      const { size } = tensor;
      const wanted = Math.min(members, Math.ceil((size * (dtypeBytes(tensor.dtype) ?? 0)) / PART_BYTES));
      if (wanted < 2 || tensor.layout !== 'strided') return [whole];
      const line = whole.reshape([size]);
      const length = Math.ceil(size / wanted);
      const parts: Tensor[] = [];
      for (let from = 0; from < size; from += length) parts.push(line.narrow(0, from, Math.min(length, size - from)));
      line.release();
      whole.release();
      return parts;
    }),
  );
}

/** What was one tensor as one again, that nobody else has: the answer of a meeting at this worker is everybody's who has come there. */
function joined(answers: readonly Tensor[], shape: readonly number[]): Tensor {
  const [only] = answers as [Tensor];
  const line = noGrad(() => (answers.length === 1 ? only.clone() : concat(answers)));
  for (const answer of answers) answer.release();
  if (answers.length === 1) return line;
  const whole = line.reshape(shape);
  line.release();
  return whole;
}
