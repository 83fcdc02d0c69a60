/**
 * @file The all-reduce of a data-parallel pass: of a large tensor several members collect a part each, so that no member takes and answers
 * more than its share. A reduce-scatter and an all-gather, as in Rabenseifner's algorithm (Thakur, Rabenseifner and Gropp, "Optimization of
 * Collective Communication Operations in MPICH", 2005), with every part sent directly. Two members give each other all they have, and
 * reduce it both (recursive doubling, ibid.): as many bytes, which travel once instead of there and back.
 *
 * Each part is a meeting of its own. A call that some members give up may have met at one collector and not at another; what is left at the
 * second must never meet a later call, or a sum would be of two. So this is for callers whose tags name every call differently, and
 * that make no other after one has failed. What a program reduces itself meets as a whole, at one member.
 */
import { concat, noGrad, Tensor } from '@backwire/tensor';
import { untracked } from '@backwire/tensor/internal';
import { dtypeBytes } from '@backwire/wire/internal';
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import type { MeetOptions } from './collectives.ts';
import { tensorIn, type CollectiveTags, type Combine } from './combine.ts';

/** Fewer bytes are not worth a message of their own. */
const PART_BYTES = 64 * 1024;

/** More bytes are not worth being held twice, nor a message twice as long. */
const MOST_EXCHANGED_BYTES = 8 * 1024 * 1024;

export interface PartsOptions {
  /** The members by name, this worker among them. */
  readonly workers: readonly string[];
  /** The name of this worker. */
  readonly own: string;
  /** They name this call and no other. */
  readonly tags: CollectiveTags;
  readonly signal?: AbortSignal | undefined;
}

/** Brings a value to a meeting, as `Collectives.meet`. */
type Meet = (name: string, value: Tensor, combine: Combine, options: MeetOptions) => Promise<unknown>;

/** What is brought to each collector, in the order of their names, and what comes of their answers. */
interface Plan {
  readonly brought: readonly Tensor[];
  readonly combine: 'mean' | 'mean-there';
  /** Takes those of the collectors that answer, which gives them back. */
  readonly result: (answers: readonly Tensor[]) => Tensor;
}

/**
 * The mean of all members' tensors, which have one shape and dtype; the same bits for every member. The caller owns it.
 * @throws what the first part that failed rejects with; nothing of this worker's waits anywhere then.
 */
export async function reduceInParts(
  meet: Meet,
  name: string,
  tensor: Tensor,
  { signal, own, ...options }: PartsOptions,
): Promise<Tensor> {
  const { brought, combine, result } = planOf(tensor, options.workers.length);
  const over = new AbortController();
  const withdraw = (): void => over.abort(signal?.reason);
  if (signal?.aborted === true) withdraw();
  else if (signal !== undefined) watchAbort(signal, withdraw);
  const place = [...options.workers].sort().indexOf(own);
  const answers: (Tensor | null | undefined)[] = brought.map(() => undefined);
  let failure: { readonly error: unknown } | undefined;
  const bring = async (value: Tensor, collector: number): Promise<void> => {
    // One line at a time says whom this worker waits for: that of the first part which has not come.
    const speaks = (): boolean => answers.indexOf(undefined) === collector;
    try {
      const about = { ...options, signal: over.signal, collector, speaks, isPrivate: true };
      const answer = await meet(name, value, combine, about);
      answers[collector] = combine === 'mean' || collector === place ? tensorIn(answer) : null;
    } catch (error) {
      failure ??= { error };
      // What was brought to the other members is of no use to anybody.
      over.abort(error);
    }
  };
  await Promise.all(brought.map(bring));
  if (signal !== undefined) unwatchAbort(signal, withdraw);
  for (const value of brought) value.release();
  const given = answers.filter((answer) => answer instanceof Tensor);
  if (failure === undefined) return result(given);
  for (const answer of given) answer.release();
  throw failure.error;
}

function planOf(tensor: Tensor, members: number): Plan {
  return untracked(() =>
    noGrad(() => {
      const whole = tensor.detach();
      const bytes = tensor.size * (dtypeBytes(tensor.dtype) ?? 0);
      const wanted = Math.min(members, Math.ceil(bytes / PART_BYTES));
      if (wanted < 2 || tensor.layout !== 'strided')
        return { brought: [whole], combine: 'mean', result: ([only]) => copied(only as Tensor) };
      // Nobody else has the answer of the meeting here.
      if (members === 2 && bytes <= MOST_EXCHANGED_BYTES)
        return { brought: [whole, tensor.detach()], combine: 'mean-there', result: ([only]) => only as Tensor };
      const brought = partsOf(whole, wanted);
      whole.release();
      return { brought, combine: 'mean', result: (found) => joined(found, tensor.shape) };
    }),
  );
}

/** Views of the elements, one after the other. */
function partsOf(whole: Tensor, wanted: number): Tensor[] {
  const { size } = whole;
  const line = whole.reshape([size]);
  const length = Math.ceil(size / wanted);
  const parts: Tensor[] = [];
  for (let from = 0; from < size; from += length) parts.push(line.narrow(0, from, Math.min(length, size - from)));
  line.release();
  return parts;
}

/** One that nobody else has: the answer of a meeting at this worker is everybody's who has come there. */
function copied(answer: Tensor): Tensor {
  const copy = noGrad(() => answer.clone());
  answer.release();
  return copy;
}

/** What was one tensor as one again. */
function joined(answers: readonly Tensor[], shape: readonly number[]): Tensor {
  const line = noGrad(() => concat(answers));
  for (const answer of answers) answer.release();
  const whole = line.reshape(shape);
  line.release();
  return whole;
}
