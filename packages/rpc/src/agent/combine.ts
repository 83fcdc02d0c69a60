/** @file What the values of a meeting become: the answer that each who came gets. */
import { Tensor, type DType } from '@backwire/tensor';
import { sweep, untracked } from '@backwire/tensor/internal';
import { RpcError } from '../base/errors.ts';

/** How the values of all become the answer to each; `mean-there` is the mean for who collects, and nothing for those who have brought it something. */
export type Combine = 'all' | 'sum' | 'mean' | 'mean-there' | 'first';
type Reduction = 'sum' | 'mean' | 'mean-there';

/** What a value belongs to. Two whose tags name different things under one key never meet. */
export type CollectiveTags = Readonly<Record<string, string | number>>;

/** What a member brought, and where its answer goes. */
export interface Brought {
  readonly value: unknown;
  /** That of the first to arrive is everybody's. */
  readonly combine: Combine;
  resolve(result: unknown): void;
  reject(error: RpcError): void;
}

/** Everybody has come to `collector`: each gets the answer, or the reason why there is none. */
export function answer(arrivals: ReadonlyMap<string, Brought>, collector: string): void {
  const names = [...arrivals.keys()].sort();
  const combine = arrivals.get(names[0] as string)?.combine ?? 'all';
  const values = names.map((name) => arrivals.get(name)?.value);
  if (!reduces(combine)) {
    const found = values.find(isSome);
    const result = (): unknown =>
      combine === 'all' ? new Map(names.map((name, i) => [name, handleOf(values[i])])) : handleOf(found);
    for (const arrival of arrivals.values()) arrival.resolve(result());
    return;
  }
  try {
    const other = names.find((name) => arrivals.get(name)?.combine !== combine);
    if (other !== undefined)
      throw new TypeError(
        `worker '${names[0]}' asked for the ${combine}, worker '${other}' for the ${arrivals.get(other)?.combine}`,
      );
    const result = reduced(names, values, combine);
    for (const [name, arrival] of arrivals)
      arrival.resolve(combine === 'mean-there' && name !== collector ? null : handleOf(result));
    result.release();
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    const failure = new RpcError('invalid-argument', text, { executed: 'yes', cause: error });
    for (const arrival of arrivals.values()) arrival.reject(failure);
  }
}

/** For each who came one of its own: answers are written, and freed, at times of their own. What only holds tensors is everybody's. */
function handleOf(value: unknown): unknown {
  return value instanceof Tensor ? untracked(() => value.detach()) : value;
}

/** The handles in an answer that are for one alone. */
export function ownIn(result: unknown): Tensor[] {
  const values = result instanceof Map ? [...(result as Map<string, unknown>).values()] : [result];
  return values.filter((value): value is Tensor => value instanceof Tensor);
}

/** In the order of names, so that every run gives the same bits. @throws TypeError for what cannot be added up, with whose it is. */
function reduced(names: readonly string[], values: readonly unknown[], combine: Reduction): Tensor {
  const tensors = values.map((value) => {
    if (!(value instanceof Tensor)) throw new TypeError('only tensors can be reduced');
    return value as Tensor;
  });
  const [first, ...rest] = tensors as [Tensor, ...Tensor[]];
  const kind = kindOf(first);
  const other = tensors.findIndex((t) => kindOf(t) !== kind);
  if (other !== -1) {
    const [one, two] = [names[0], names[other]];
    throw new TypeError(
      `worker '${one}' brought a tensor of ${kind}, worker '${two}' one of ${kindOf(tensors[other] as Tensor)}`,
    );
  }
  return sweep(() => {
    if (combine !== 'sum') return meanOf(tensors);
    return rest.length > 0 ? rest.reduce((so, next) => so.add(next), first) : first.detach();
  });
}

/** As what the sum is taken for a mean: it may be beyond the numbers of a dtype that the mean is among. */
const SUMMED: Readonly<Partial<Record<DType, DType>>> = {
  float16: 'float32',
  bfloat16: 'float32',
  bool: 'float64',
  uint8: 'float64',
  int8: 'float64',
  int16: 'float64',
  int32: 'float64',
  int64: 'float64',
};

/** Rounded once for halves and whole numbers; the mean of whole numbers is float32, as a quotient of them is. */
function meanOf(tensors: readonly Tensor[]): Tensor {
  const { dtype } = tensors[0] as Tensor;
  const wide = SUMMED[dtype];
  const [first, ...rest] = (wide === undefined ? tensors : tensors.map((one) => one.to(wide))) as [Tensor, ...Tensor[]];
  const mean = rest.reduce((so, next) => so.add(next), first).div(tensors.length);
  return wide === undefined ? mean : mean.to(wide === 'float32' ? dtype : 'float32');
}

function kindOf({ shape, dtype }: Tensor): string {
  return `shape [${shape.join(', ')}] and dtype ${dtype}`;
}

function reduces(combine: Combine): combine is Reduction {
  return combine !== 'all' && combine !== 'first';
}

/** The tensor that an answer has to be. */
export function tensorIn(found: unknown): Tensor {
  if (found instanceof Tensor) return found as Tensor;
  throw new RpcError('decode-error', 'a tensor was due', { executed: 'yes' });
}

const isSome = (value: unknown): boolean => value !== null;

export const COMBINES: ReadonlySet<string> = new Set<Combine>(['all', 'sum', 'mean', 'mean-there', 'first']);
