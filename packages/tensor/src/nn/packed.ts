/** @file Sequences of different lengths: packed, one step of all after the other, or padded: `nn.utils.rnn`. */
import { full, tensor } from '../creation.ts';
import { ShapeError } from '../errors.ts';
import { readNumbers } from '../host.ts';
import { concat } from '../ops/join.ts';
import { stack } from '../ops/stack.ts';
import { checkOptionNames } from '../option-names.ts';
import { Tensor } from '../tensor.ts';

/** Sequences sorted by falling length: the first step of each, then the second of each that has one, and so on. */
export class PackedSequence {
  /** [elements, ...]. */
  readonly data: Tensor;
  /** How many sequences have each step. */
  readonly batchSizes: readonly number[];
  /** The order of the sequences, and its inverse; null where they came sorted. */
  readonly sortedIndices: Tensor | null;
  readonly unsortedIndices: Tensor | null;

  constructor(
    data: Tensor,
    batchSizes: readonly number[],
    sortedIndices: Tensor | null = null,
    unsortedIndices: Tensor | null = null,
  ) {
    this.data = data;
    this.batchSizes = batchSizes;
    this.sortedIndices = sortedIndices;
    this.unsortedIndices = unsortedIndices;
  }
}

const PACK: ReadonlySet<string> = new Set(['batchFirst', 'enforceSorted']);
const UNPAD: ReadonlySet<string> = new Set(['batchFirst']);
const PAD: ReadonlySet<string> = new Set(['batchFirst', 'paddingValue', 'totalLength']);

function indices(values: readonly number[]): Tensor {
  return tensor(BigInt64Array.from(values, BigInt), { dtype: 'int64', shape: [values.length] });
}

/** Packs [steps, batch, ...], of which sequence i has lengths[i] steps. Sorts them unless `enforceSorted` (default true) says they are. */
export function packPaddedSequence(
  input: Tensor,
  lengths: readonly number[] | Tensor,
  options: { batchFirst?: boolean; enforceSorted?: boolean } = {},
): PackedSequence {
  checkOptionNames(options, PACK, 'packPaddedSequence()');
  const given = lengths instanceof Tensor ? Array.from(readNumbers(lengths)) : [...lengths];
  const steps = options.batchFirst === true ? input.transpose(0, 1) : input;
  const [length, batch] = steps.shape as [number, number];
  if (given.length !== batch)
    throw new ShapeError(
      `Expected \`len(lengths)\` to be equal to batch_size, but got ${given.length} (batch_size=${batch})`,
    );
  const wrong = given.find((n) => !Number.isInteger(n) || n <= 0 || n > length);
  if (wrong !== undefined)
    throw new ShapeError(`Length of all samples has to be greater than 0 and at most ${length}, but found ${wrong}`);
  if (batch === 0) throw new ShapeError('Cannot pack empty tensors.');
  const order = given.map((_, i) => i);
  if (options.enforceSorted !== false) {
    if (given.some((n, i) => i > 0 && n > (given[i - 1] as number)))
      throw new RangeError(
        'lengths must be sorted in decreasing order when enforceSorted is true; pass enforceSorted: false to have them sorted',
      );
  } else order.sort((a, b) => (given[b] as number) - (given[a] as number) || a - b);
  const sorts = options.enforceSorted === false;
  const sorted = sorts ? steps.indexSelect(1, indices(order)) : steps;
  const longest = Math.max(0, ...given);
  const sizes = Array.from({ length: longest }, (_, t) => given.filter((n) => n > t).length);
  const data = concat(sizes.map((size, t) => sorted.select(0, t).narrow(0, 0, size)));
  if (!sorts) return new PackedSequence(data, sizes);
  return new PackedSequence(data, sizes, indices(order), indices(order.map((_, i) => order.indexOf(i))));
}

/** The sequences as [steps, batch, ...] with padding, and their lengths (int64). */
export function padPackedSequence(
  packed: PackedSequence,
  options: { batchFirst?: boolean; paddingValue?: number; totalLength?: number } = {},
): [Tensor, Tensor] {
  checkOptionNames(options, PAD, 'padPackedSequence()');
  const { data, batchSizes, unsortedIndices } = packed;
  const batch = batchSizes[0] ?? 0;
  const total = options.totalLength ?? batchSizes.length;
  if (total < batchSizes.length)
    throw new RangeError(
      `Expected total_length to be at least the length of the longest sequence in input, but got total_length=${total} and max sequence length being ${batchSizes.length}`,
    );
  const rest = data.shape.slice(1);
  let at = 0;
  const filler = (rows: number): Tensor => full([rows, ...rest], options.paddingValue ?? 0, { dtype: data.dtype });
  const steps = Array.from({ length: total }, (_, t) => {
    const size = batchSizes[t] ?? 0;
    const part = data.narrow(0, at, size);
    at += size;
    return size === batch ? part : concat([part, filler(batch - size)]);
  });
  let padded = stack(steps);
  const lengths = Array.from({ length: batch }, (_, i) => batchSizes.filter((size) => size > i).length);
  let lengthsOut = indices(lengths);
  if (unsortedIndices !== null) {
    padded = padded.indexSelect(1, unsortedIndices);
    lengthsOut = lengthsOut.indexSelect(0, unsortedIndices);
  }
  return [options.batchFirst === true ? padded.transpose(0, 1) : padded, lengthsOut];
}

const PAD_SEQUENCE: ReadonlySet<string> = new Set(['batchFirst', 'paddingValue', 'paddingSide']);

/** Sequences [steps, ...] of different lengths as [steps, batch, ...], with padding at the end, or on the left. */
export function padSequence(
  sequences: readonly Tensor[],
  options: { batchFirst?: boolean; paddingValue?: number; paddingSide?: 'right' | 'left' } = {},
): Tensor {
  checkOptionNames(options, PAD_SEQUENCE, 'padSequence()');
  if (sequences.length === 0) throw new ShapeError('padSequence() expects a non-empty list of tensors');
  const { paddingSide = 'right' } = options;
  if (paddingSide !== 'left' && paddingSide !== 'right')
    throw new RangeError(`paddingSide should be either 'right' or 'left', but got '${String(paddingSide)}'`);
  const longest = Math.max(...sequences.map((t) => t.shape[0] ?? 0));
  const left = paddingSide === 'left';
  const padded = sequences.map((t) => {
    const missing = longest - (t.shape[0] as number);
    const pads = [...Array<number>(2 * (t.rank - 1)).fill(0), left ? missing : 0, left ? 0 : missing];
    return t.pad(pads, options.paddingValue ?? 0);
  });
  return stack(padded, options.batchFirst === true ? 0 : 1);
}

/** Packs sequences [steps, ...]; sorted by falling length unless `enforceSorted` is false. */
export function packSequence(sequences: readonly Tensor[], options: { enforceSorted?: boolean } = {}): PackedSequence {
  const lengths = sequences.map((t) => t.shape[0] as number);
  return packPaddedSequence(padSequence(sequences), lengths, options);
}

/** The sequences of a padded tensor. */
export function unpadSequence(
  padded: Tensor,
  lengths: readonly number[] | Tensor,
  options: { batchFirst?: boolean } = {},
): Tensor[] {
  checkOptionNames(options, UNPAD, 'unpadSequence()');
  const given = lengths instanceof Tensor ? Array.from(readNumbers(lengths)) : [...lengths];
  const rows = options.batchFirst === true ? padded : padded.transpose(0, 1);
  return given.map((n, i) => rows.select(0, i).narrow(0, 0, n));
}
