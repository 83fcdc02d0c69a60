/** @file What a rebuilt tensor consists of, the same in tables of messages and in files. */
import { conj, neg, noGrad, type Tensor } from '@backwire/tensor';
import { integerIn } from '../pickle/builtin-globals.ts';
import { quoted, refuse } from '../pickle/refusal.ts';
import { PyTuple } from '../values/containers.ts';
import { QUANTIZED, elementOfStorage, type TorchElement } from '../values/dtypes.ts';
import { PyName } from '../values/name.ts';

/** The class of a storage: 'FloatStorage'. */
export class StorageClass extends PyName {
  readonly element: TorchElement;

  constructor(name: string, element: TorchElement) {
    super('torch', name);
    this.element = element;
  }
}

/** `torch.FloatStorage` and its like; undefined for other names. @throws WireError for a quantised storage, by its name. */
export function storageClass(module: string, name: string): StorageClass | undefined {
  if (module !== 'torch') return undefined;
  const element = elementOfStorage(name);
  if (element !== undefined) return new StorageClass(name, element);
  if (QUANTIZED.has(name)) throw refuse(`quantised tensors (${name}) have no form here`);
  return undefined;
}

/** The geometry of a strided tensor, in elements, and its flags. */
export interface DenseParts {
  readonly offset: number;
  readonly shape: number[];
  readonly strides: number[];
  readonly requiresGrad: boolean;
  /** The elements are the conjugates, or the negatives, of what the storage holds. */
  readonly conjugate: boolean;
  readonly negative: boolean;
}

/** (storage, offset, shape, strides, requires_grad, hooks[, {'conj': True}]), of which the storage is the caller's matter. */
export function denseParts(args: readonly unknown[], element: TorchElement): DenseParts {
  if (args.length < 6 || args.length > 7) throw refuse('a tensor without its six parts');
  const [, offset, shape, strides, requiresGrad, , metadata] = args;
  const flags = flagsIn(metadata);
  const from = integerIn(offset, 0, Number.MAX_SAFE_INTEGER, 'the offset of a tensor');
  const sizes = sizesIn(shape, 'the shape of a tensor');
  if ((flags.conjugate || flags.negative) && element.dtype === undefined)
    throw refuse(`a view of ${element.name} that is conjugated or negated`);
  return {
    // Views without elements may begin anywhere, also beyond their storage.
    offset: sizes.includes(0) ? 0 : from,
    shape: sizes,
    strides: sizesIn(strides, 'the strides of a tensor'),
    requiresGrad: flagIn(requiresGrad),
    ...flags,
  };
}

export function sizesIn(value: unknown, what: string): number[] {
  if (!(value instanceof PyTuple)) throw refuse(`${what} is no tuple`);
  return value.map((size) => integerIn(size, 0, Number.MAX_SAFE_INTEGER, what));
}

export function flagIn(value: unknown): boolean {
  if (typeof value !== 'boolean') throw refuse('a flag of a tensor is no bool');
  return value;
}

function flagsIn(metadata: unknown): { conjugate: boolean; negative: boolean } {
  if (metadata === undefined) return { conjugate: false, negative: false };
  if (!(metadata instanceof Map)) throw refuse('the flags of a tensor are no dict');
  for (const key of metadata.keys())
    if (key !== 'conj' && key !== 'neg')
      throw refuse(`a tensor with the flag ${typeof key === 'string' ? quoted(key) : '?'}`);
  return { conjugate: metadata.get('conj') === true, negative: metadata.get('neg') === true };
}

/** The elements that a view stands for, of its storage's: computed where it is conjugated or negated. Takes over `tensor`. */
export function resolved(tensor: Tensor, { conjugate, negative }: Pick<DenseParts, 'conjugate' | 'negative'>): Tensor {
  let out = tensor;
  for (const [wanted, compute] of [
    [conjugate, conj],
    [negative, neg],
  ] as const) {
    if (!wanted) continue;
    const before = out;
    out = noGrad(() => compute(before));
    before.dispose();
  }
  return out;
}
