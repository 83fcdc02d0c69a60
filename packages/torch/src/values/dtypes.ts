/** @file torch's element types: their names, the names of their storages, and which of them tensors here compute with. */
import type { DType } from '@backwire/tensor';

/** What is known about one element type of torch. */
export interface TorchElement {
  /** 'float32': the name after `torch.`. */
  readonly name: string;
  /** 'Float': the name before `Storage`. */
  readonly storage: string;
  /** Bytes an element. */
  readonly bytes: number;
  /** The dtype of tensors here; undefined for those that are only handed on. */
  readonly dtype: DType | undefined;
  /** Whether Python has a class for storages of it. Later types do not: files have storages of bytes for them. */
  readonly hasStorageClass: boolean;
}

const rows: readonly (readonly [string, string, number, DType?])[] = [
  ['float32', 'Float', 4, 'float32'],
  ['float64', 'Double', 8, 'float64'],
  ['float16', 'Half', 2, 'float16'],
  ['bfloat16', 'BFloat16', 2, 'bfloat16'],
  ['int64', 'Long', 8, 'int64'],
  ['int32', 'Int', 4, 'int32'],
  ['int16', 'Short', 2, 'int16'],
  ['int8', 'Char', 1, 'int8'],
  ['uint8', 'Byte', 1, 'uint8'],
  ['bool', 'Bool', 1, 'bool'],
  ['complex64', 'ComplexFloat', 8, 'complex64'],
  ['complex128', 'ComplexDouble', 16],
  ['complex32', 'ComplexHalf', 4],
  ['uint16', 'UInt16', 2],
  ['uint32', 'UInt32', 4],
  ['uint64', 'UInt64', 8],
  ['float8_e4m3fn', 'Float8_e4m3fn', 1],
  ['float8_e4m3fnuz', 'Float8_e4m3fnuz', 1],
  ['float8_e5m2', 'Float8_e5m2', 1],
  ['float8_e5m2fnuz', 'Float8_e5m2fnuz', 1],
  ['float8_e8m0fnu', 'Float8_e8m0fnu', 1],
];

/** All element types whose bytes can be read. */
export const torchElements: readonly TorchElement[] = rows.map(([name, storage, bytes, dtype]) =>
  Object.freeze({ name, storage, bytes, dtype, hasStorageClass: dtype !== undefined || name === 'complex128' }),
);

const byStorage = new Map(torchElements.map((element) => [element.storage, element]));
const byName = new Map(torchElements.map((element) => [element.name, element]));

/** The element type of 'FloatStorage', or undefined. */
export function elementOfStorage(storageClass: string): TorchElement | undefined {
  return storageClass.endsWith('Storage') ? byStorage.get(storageClass.slice(0, -'Storage'.length)) : undefined;
}

/** The element type of 'float32', or undefined. Every DType is the name of one. */
export function elementNamed(name: string): TorchElement | undefined {
  return byName.get(name);
}

/** The element type of a tensor here. */
export function elementOf(dtype: DType): TorchElement {
  const element = byName.get(dtype);
  if (element === undefined) throw new Error(`invariant: torch has no ${dtype}`);
  return element;
}

/** Names of quantised storages, which are refused by name. */
export const QUANTIZED: ReadonlySet<string> = new Set([
  'QUInt8Storage',
  'QInt8Storage',
  'QInt32Storage',
  'QUInt4x2Storage',
  'QUInt2x4Storage',
]);
