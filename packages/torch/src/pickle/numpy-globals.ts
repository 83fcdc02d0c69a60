/** @file numpy's names that a pickle may use: arrays and scalars of plain numbers. */
import { PyTuple } from '../values/containers.ts';
import type { TorchElement } from '../values/dtypes.ts';
import { PyName } from '../values/name.ts';
import { NumpyArray, NumpyScalar, numpyElement, scalarOf, tensorOverBytes } from '../values/numpy.ts';
import { narrowed } from './integers.ts';
import { PyFunction, integerIn, tableOf } from './builtin-globals.ts';
import { Unbuilt } from './machine.ts';
import { quoted, refuse } from './refusal.ts';

/** numpy.dtype of plain numbers, little-endian. */
class NumpyDType {
  readonly element: TorchElement;

  constructor(element: TorchElement) {
    this.element = element;
  }
}

class UnbuiltDType extends Unbuilt {
  private readonly element: TorchElement;

  constructor(element: TorchElement) {
    super();
    this.element = element;
  }

  /** (version, byte order, …) */
  override build(state: unknown): NumpyDType {
    const order: unknown = state instanceof PyTuple ? state[1] : undefined;
    if (order !== '<' && order !== '|' && order !== '=') throw refuse('an array of numpy that is not little-endian');
    return new NumpyDType(this.element);
  }
}

class UnbuiltArray extends Unbuilt {
  private readonly exact: boolean;

  constructor(exact: boolean) {
    super();
    this.exact = exact;
  }

  /** (version, shape, dtype, whether the first dimension is the fastest, bytes) */
  override build(state: unknown): unknown {
    if (!(state instanceof PyTuple) || state.length !== 5) throw refuse('an array of numpy without its five parts');
    const [, shape, dtype, fortran, bytes] = state;
    if (!(shape instanceof PyTuple) || !(dtype instanceof NumpyDType))
      throw refuse('an array of numpy without a shape or dtype');
    if (!(bytes instanceof Uint8Array)) throw refuse('an array of numpy without bytes');
    const sizes = shape.map((size) => integerIn(size, 0, Number.MAX_SAFE_INTEGER, 'a size of an array'));
    const elements = sizes.reduce((product, size) => product * size, 1);
    if (elements * dtype.element.bytes !== bytes.length)
      throw refuse(`an array of numpy of ${elements} elements in ${bytes.length} bytes`);
    const tensor = tensorOverBytes(dtype.element, bytes, sizes, stridesOf(sizes, fortran === true));
    return this.exact ? new NumpyArray(tensor) : tensor;
  }
}

function stridesOf(sizes: readonly number[], fortran: boolean): number[] {
  const strides = new Array<number>(sizes.length);
  let step = 1;
  for (let i = 0; i < sizes.length; i++) {
    const d = fortran ? i : sizes.length - 1 - i;
    strides[d] = step;
    step *= sizes[d] as number;
  }
  return strides;
}

function dtype(code: unknown): UnbuiltDType {
  const element = typeof code === 'string' ? numpyElement(code) : undefined;
  if (element === undefined)
    throw refuse(`numpy's dtype ${typeof code === 'string' ? quoted(code) : '?'} is not known here`);
  return new UnbuiltDType(element);
}

function scalar(exact: boolean): (dtype: unknown, bytes: unknown) => unknown {
  return (dtype, bytes) => {
    if (!(dtype instanceof NumpyDType) || !(bytes instanceof Uint8Array) || bytes.length !== dtype.element.bytes)
      throw refuse('a scalar of numpy without a dtype or its bytes');
    const value = scalarOf(dtype.element, bytes);
    if (exact) return new NumpyScalar(dtype.element.name, value);
    return typeof value === 'bigint' ? narrowed(value) : value;
  };
}

/** As a name only: what `_reconstruct` is told to make. */
const ndarray = new PyName('numpy', 'ndarray');

function reconstruct(exact: boolean): (type: unknown) => UnbuiltArray {
  return (type) => {
    if (type !== ndarray) throw refuse('an array of a subclass of numpy.ndarray');
    return new UnbuiltArray(exact);
  };
}

function tableFor(exact: boolean): ReadonlyMap<string, PyName> {
  const modules = ['numpy._core.multiarray', 'numpy.core.multiarray'];
  return tableOf([
    ndarray,
    new PyFunction('numpy', 'dtype', dtype),
    ...modules.flatMap((module) => [
      new PyFunction(module, '_reconstruct', reconstruct(exact)),
      new PyFunction(module, 'scalar', scalar(exact)),
    ]),
  ]);
}

/** Arrays become tensors and scalars numbers; `exact`: NumpyArray and NumpyScalar, which are written as what they were. */
export const numpyGlobals = { plain: tableFor(false), exact: tableFor(true) } as const;
