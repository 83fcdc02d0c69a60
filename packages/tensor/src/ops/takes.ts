/** @file Which dtypes an operation takes: what each says of itself, and the sentence for what it does not take. */
import type { DType } from '../dtype.ts';
import { DTypeError } from '../errors.ts';
import { kindOf } from '../given.ts';
import { commonDType } from './promotion.ts';
import { Tensor } from '../tensor.ts';

/** Why an operation does not take its operands; undefined where it does. */
export type Takes = (operands: readonly Tensor[]) => string | undefined;

/** Throws DTypeError, naming the operation, for operands of dtypes that it does not take. */
export function check(name: string, takes: Takes, operands: readonly Tensor[]): void {
  const why = takes(operands);
  if (why !== undefined) throw refusal(name, why, operands);
}

/** What is thrown for operands that are not taken. Callers of other workers are not checked by our types. */
export function refusal(name: string, why: string, operands: readonly unknown[]): Error {
  const odd = operands.findIndex((t) => !(t instanceof Tensor));
  if (odd === -1) return new DTypeError(`${name}() ${why}`);
  return new TypeError(`${name}() takes a tensor as operand ${odd + 1}, not ${kindOf(operands[odd])}`);
}

/** @throws TypeError naming the function, and what one of `operands` is that is no tensor. */
export function checkTensors(name: string, operands: readonly unknown[]): void {
  if (operands.some((t) => !(t instanceof Tensor))) throw refusal(name, '', operands);
}

const BIT: Readonly<Record<DType, number>> = {
  float16: 1,
  bfloat16: 2,
  float32: 4,
  float64: 8,
  complex64: 16,
  int8: 32,
  uint8: 64,
  int16: 128,
  int32: 256,
  int64: 512,
  bool: 1024,
};

/** Several dtypes. */
export type DTypes = number & { readonly dtypes: unique symbol };

export function setOf(...dtypes: readonly DType[]): DTypes {
  return dtypes.reduce((set, dtype) => set | BIT[dtype], 0) as DTypes;
}

export function without(set: DTypes, ...dtypes: readonly DType[]): DTypes {
  return (set & ~setOf(...dtypes)) as DTypes;
}

export function union(a: DTypes, b: DTypes): DTypes {
  return (a | b) as DTypes;
}

/** The real floating types. */
export const FLOAT = setOf('float16', 'bfloat16', 'float32', 'float64');
/** The floating types in which linear algebra is done, complex64 not among them. */
export const PRECISE = setOf('float32', 'float64');
/** What can have a gradient. */
export const FLOATING = setOf('float16', 'bfloat16', 'float32', 'float64', 'complex64');
/** Every dtype. */
export const ALL = setOf(...(Object.keys(BIT) as DType[]));
/** Every dtype with an order. */
export const REAL = without(ALL, 'complex64');
/** Every dtype that counts. */
export const NUMBER = without(ALL, 'bool');
/** The integers and the real floating types. Positions and classes are of these: lists of numbers make whole elements of floating types. */
export const REAL_NUMBER = without(NUMBER, 'complex64');
export const BOOL = setOf('bool');
export const COMPLEX = setOf('complex64');

const has = (set: DTypes, dtype: DType): boolean => (set & BIT[dtype]) !== 0;

function list(words: readonly string[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

function names(set: DTypes): string {
  return list((Object.keys(BIT) as DType[]).filter((dtype) => has(set, dtype)));
}

/** Throws DTypeError for a dtype in which `name` makes no tensors. */
export function checkCreated(name: string, set: DTypes, dtype: DType): void {
  if (!has(set, dtype)) throw new DTypeError(`${name}() makes no tensors of ${dtype}: it makes ${names(set)}`);
}

/** Each operand is of one of these. `instead` says what to use for others. */
export function each(set: DTypes, instead?: string): Takes {
  // Every operation asks: the dtype that was taken last is most often the next. At first none was, not even that of what is no tensor.
  let last: DType | null = null;
  return (operands) => {
    for (let i = 0; i < operands.length; i++) {
      const dtype = dtypeOf(operands[i]);
      if (dtype === last) continue;
      if (!has(set, dtype)) return `does not take ${dtype}: ${instead ?? `it takes ${names(set)}`}`;
      last = dtype;
    }
    return undefined;
  };
}

/** Also of what is no tensor: then it is in no set, and `refusal` says so. */
const dtypeOf = (t: Tensor | undefined): DType => (t as Partial<Tensor> | null | undefined)?.dtype as DType;

/** The operands meet in one of these. */
export function promoted(set: DTypes): Takes {
  const any = each(ALL);
  return (operands) => {
    const odd = any(operands);
    if (odd !== undefined) return odd;
    const met = commonDType(operands);
    if (has(set, met)) return undefined;
    return `does not take ${list(operands.map((t) => t.dtype))}, which meet in ${met}: it takes ${names(set)}`;
  };
}

/** All operands are of one and the same of these. */
export function same(set: DTypes): Takes {
  const one = each(set);
  return (operands) => {
    const first = dtypeOf(operands[0]);
    for (let i = 1; i < operands.length; i++) {
      const dtype = dtypeOf(operands[i]);
      if (dtype !== first) return `takes operands of one dtype, but got ${first} and ${dtype}: convert one with to()`;
    }
    return one(operands);
  };
}

/** Each operand by its position; those that follow as the last. */
export function operands(...sets: readonly [DTypes, ...DTypes[]]): Takes {
  return (given) => {
    for (let i = 0; i < given.length; i++) {
      const dtype = dtypeOf(given[i]);
      const set = sets[Math.min(i, sets.length - 1)] as DTypes;
      if (!has(set, dtype)) return `does not take ${dtype} as operand ${i + 1}: that is ${names(set)}`;
    }
    return undefined;
  };
}

/** Positions come second; what `takes` says is of the other operands. */
export function indexed(takes: Takes): Takes {
  return (given) => {
    const index = dtypeOf(given[1]);
    if (!has(REAL_NUMBER, index))
      return `does not take ${index} for positions: an index is of integers, int64 as a rule`;
    return takes(given.filter((_, i) => i !== 1));
  };
}
