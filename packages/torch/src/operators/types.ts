/** @file Values of the types that operators take: how they are recognised, and how they travel. */
import { Tensor, type DType } from '@backwire/tensor';
import { scriptList } from '../values/containers.ts';
import { elementNamed } from '../values/dtypes.ts';
import { PyComplex, PyFloat } from '../values/numbers.ts';
import { OpaqueTensor } from '../values/opaque-tensor.ts';
import { TorchDType, TorchDevice } from '../values/torch-types.ts';
import type { Parameter } from './schema.ts';

/** torch's numbers of element types. */
const DTYPE_NUMBERS: ReadonlyMap<string, number> = new Map(
  'uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool'
    .split(' ')
    .map((name, i) => [name, i]),
);
const BFLOAT16 = 15;
const NAMES: ReadonlyMap<number, string> = new Map([
  ...[...DTYPE_NUMBERS].map(([name, number]) => [number, name] as const),
  [BFLOAT16, 'bfloat16'],
]);

/** The dtype of tensors here with this number of torch's. @throws TypeError */
export function dtypeOf(number: unknown): DType {
  const name = NAMES.get(number as number);
  const dtype = name === undefined ? undefined : elementNamed(name)?.dtype;
  if (dtype !== undefined) return dtype;
  throw new TypeError(`the dtype ${name ?? String(number)} has no tensors on this worker`);
}

/** What travels for `value`, or undefined where the parameter does not take it. */
export function fitted(value: unknown, { type, optional }: Parameter): { readonly value: unknown } | undefined {
  if (value === null || value === undefined) return optional ? { value: null } : undefined;
  const made = ofType(value, type);
  return made === undefined ? undefined : { value: made };
}

function ofType(value: unknown, type: string): unknown {
  switch (type) {
    case 'Tensor':
      return isTensor(value) ? value : undefined;
    case 'Scalar':
      return isNumber(value) || typeof value === 'boolean' || value instanceof PyComplex ? value : undefined;
    case 'int':
    case 'MemoryFormat':
    case 'Layout':
      return isInt(value) ? value : undefined;
    case 'float':
      return typeof value === 'number' ? new PyFloat(value) : value instanceof PyFloat ? value : undefined;
    case 'bool':
      return typeof value === 'boolean' ? value : undefined;
    case 'str':
      return typeof value === 'string' ? value : undefined;
    case 'ScalarType':
      return dtypeNumber(value);
    case 'Device':
      return typeof value === 'string' ? TorchDevice.parse(value) : value instanceof TorchDevice ? value : undefined;
    default:
      return listOf(value, type);
  }
}

function listOf(value: unknown, type: string): unknown {
  const element = /^(Tensor|int|float|bool)\[\]$/.exec(type)?.[1];
  if (element === undefined) return undefined;
  const items = Array.isArray(value) ? (value as unknown[]) : element === 'int' && isInt(value) ? [value] : undefined;
  if (items?.every((item) => ofType(item, element) !== undefined) !== true) return undefined;
  return scriptList(element, items);
}

function dtypeNumber(value: unknown): number | undefined {
  const name = value instanceof TorchDType ? value.name : value;
  if (name === 'bfloat16') return BFLOAT16;
  return typeof name === 'string' ? DTYPE_NUMBERS.get(name) : undefined;
}

function isTensor(value: unknown): boolean {
  return value instanceof Tensor || value instanceof OpaqueTensor;
}

function isInt(value: unknown): boolean {
  return typeof value === 'bigint' || Number.isSafeInteger(value);
}

function isNumber(value: unknown): boolean {
  return typeof value === 'number' || typeof value === 'bigint' || value instanceof PyFloat;
}
