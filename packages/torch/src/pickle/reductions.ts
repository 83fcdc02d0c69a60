/** @file How objects are written that Python makes by a call: `callee(*args)`, then items, then a state. */
import { readBytes } from '@backwire/tensor/internal';
import {
  PyByteArray,
  PyDefaultDict,
  PyDeque,
  PyOrderedDict,
  PyTuple,
  TorchSize,
  tupleOf,
} from '../values/containers.ts';
import { PyName } from '../values/name.ts';
import { PyComplex, PyFloat, PyRange, PySlice } from '../values/numbers.ts';
import { NumpyArray, NumpyScalar, numpyCode, scalarBytes } from '../values/numpy.ts';
import {
  PyAttribute,
  PyException,
  PyInstance,
  PythonUdf,
  RemoteException,
  SerializedRemoteModule,
} from '../values/objects.ts';
import { OpaqueTensor } from '../values/opaque-tensor.ts';
import { PyDateTime, PyTimeDelta, PyTimeZone } from '../values/time.ts';
import { TorchDevice, TorchLayout } from '../values/torch-types.ts';
import { exceptionOf } from './exceptions.ts';
import { fieldsOfRemoteModule, receiver } from './remote-modules.ts';
import { INTERNAL } from './torch-globals.ts';

/** What Python's `__reduce__` gives. */
export interface Reduction {
  /** 'call': `callee(*args)`; 'new': `callee.__new__(callee, *args, **kwargs)`. */
  readonly how: 'call' | 'new';
  readonly callee: PyName;
  readonly args: readonly unknown[];
  readonly kwargs?: ReadonlyMap<unknown, unknown> | undefined;
  /** Items to append. */
  readonly list?: readonly unknown[] | undefined;
  /** Items to set. */
  readonly dict?: ReadonlyMap<unknown, unknown> | undefined;
  readonly state?: unknown;
}

// A constructor that makes instances of T: `instanceof` needs no more.
type Class<T> = abstract new (...args: never[]) => T;
interface Rule {
  readonly type: Class<object>;
  readonly reduce: (value: never) => Reduction;
}

function rule<T extends object>(type: Class<T>, reduce: (value: T) => Reduction): Rule {
  return { type, reduce };
}

function calling(module: string, name: string): (...args: unknown[]) => Reduction {
  const callee = new PyName(module, name);
  return (...args) => ({ how: 'call', callee, args });
}

/** Whether it is a number that Python has as a float. */
const float = (value: number): PyFloat => new PyFloat(value);
const names = {
  orderedDict: new PyName('collections', 'OrderedDict'),
  defaultDict: new PyName('collections', 'defaultdict'),
  deque: new PyName('collections', 'deque'),
  udf: new PyName(INTERNAL, 'PythonUDF'),
  remoteException: new PyName(INTERNAL, 'RemoteException'),
  reconstruct: new PyName('numpy._core.multiarray', '_reconstruct'),
  ndarray: new PyName('numpy', 'ndarray'),
  numpyDType: new PyName('numpy', 'dtype'),
};
const complex = calling('builtins', 'complex');
const byteArray = calling('builtins', 'bytearray');
const range = calling('builtins', 'range');
const slice = calling('builtins', 'slice');
const getAttribute = calling('builtins', 'getattr');
const timeDelta = calling('datetime', 'timedelta');
const timeZone = calling('datetime', 'timezone');
const dateTime = calling('datetime', 'datetime');
const device = calling('torch', 'device');
const size = calling('torch', 'Size');
const layout = calling('torch.serialization', '_get_layout');
const scalar = calling('numpy._core.multiarray', 'scalar');

/** numpy's dtype of a code; one object a code, so that arrays of one pickle share it. */
class NumpyDType {
  readonly code: string;
  private static readonly known = new Map<string, NumpyDType>();

  constructor(code: string) {
    this.code = code;
  }

  static of(element: string): NumpyDType {
    const code = numpyCode(element);
    if (code === undefined) throw new TypeError(`numpy has no ${element}`);
    const known = NumpyDType.known.get(code) ?? new NumpyDType(code);
    NumpyDType.known.set(code, known);
    return known;
  }

  get reduction(): Reduction {
    const { code } = this;
    const order = code.endsWith('1') ? '|' : '<';
    const state = PyTuple.of<unknown>(3, order, null, null, null, -1, -1, 0);
    return { how: 'call', callee: names.numpyDType, args: [code, false, true], state };
  }
}

/** b'b': the type of an array whose own comes with its state. One object, so that arrays of one pickle share it. */
const anyType = Uint8Array.of(0x62);

function numpyArray({ tensor }: NumpyArray): Reduction {
  const dtype = NumpyDType.of(tensor.dtype);
  const bytes = readBytes(tensor instanceof OpaqueTensor ? tensor.bytes : tensor).slice();
  return {
    how: 'call',
    callee: names.reconstruct,
    args: [names.ndarray, PyTuple.of(0), anyType],
    state: PyTuple.of<unknown>(1, tupleOf(tensor.shape), dtype, false, bytes),
  };
}

/** The ten bytes of a datetime's state. */
function dateTimeState(time: PyDateTime): Uint8Array {
  const { year, month, day, hour, minute, second, microsecond, fold } = time;
  return Uint8Array.of(
    year >> 8,
    year & 0xff,
    month | (fold << 7),
    day,
    hour,
    minute,
    second,
    microsecond >> 16,
    (microsecond >> 8) & 0xff,
    microsecond & 0xff,
  );
}

const rules: readonly Rule[] = [
  rule(PythonUdf, ({ func, args, kwargs }) => ({ how: 'new', callee: names.udf, args: [func, args, kwargs] })),
  rule(RemoteException, ({ message, type }) => ({ how: 'new', callee: names.remoteException, args: [message, type] })),
  rule(PyInstance, ({ made, type, args, kwargs, state }) => ({ how: made, callee: type, args, kwargs, state })),
  rule(SerializedRemoteModule, (module) => ({ how: 'call', callee: receiver, args: fieldsOfRemoteModule(module) })),
  rule(PyAttribute, ({ owner, name }) => getAttribute(owner, name)),
  rule(PyException, ({ type, args, state }) => ({ how: 'call', callee: type, args, state })),
  rule(Error, (error) => ({ how: 'call', ...exceptionOf(error) })),
  rule(PyComplex, ({ real, imag }) => complex(float(real), float(imag))),
  rule(PyRange, ({ start, stop, step }) => range(start, stop, step)),
  rule(PySlice, ({ start, stop, step }) => slice(start, stop, step)),
  rule(PyByteArray, (bytes) => (bytes.length === 0 ? byteArray() : byteArray(new Uint8Array(bytes)))),
  rule(PyOrderedDict, (dict) => ({ how: 'call', callee: names.orderedDict, args: [], dict, state: dict.attributes })),
  rule(PyDefaultDict, (dict) => ({
    how: 'call',
    callee: names.defaultDict,
    args: dict.factory === null ? [] : [dict.factory],
    dict,
  })),
  rule(PyDeque, (deque) => ({
    how: 'call',
    callee: names.deque,
    args: deque.maxLength === null ? [] : [new PyTuple(), deque.maxLength],
    list: deque,
  })),
  rule(PyTimeDelta, ({ days, seconds, microseconds }) => timeDelta(days, seconds, microseconds)),
  rule(PyTimeZone, ({ offset }) => timeZone(offset)),
  rule(PyDateTime, (time) =>
    time.zone === undefined ? dateTime(dateTimeState(time)) : dateTime(dateTimeState(time), time.zone),
  ),
  rule(TorchDevice, ({ type, index }) => (index === null ? device(type) : device(type, index))),
  rule(TorchSize, (sizes) => size(tupleOf(sizes))),
  rule(TorchLayout, ({ name }) => layout(name)),
  rule(NumpyArray, numpyArray),
  rule(NumpyScalar, (value) => scalar(NumpyDType.of(value.dtype), scalarBytes(value))),
  rule(NumpyDType, (dtype) => dtype.reduction),
];

/** How an object is written; undefined for one that has no rule. @throws TypeError for an array that numpy has no dtype for. */
export function reductionOf(value: object): Reduction | undefined {
  for (const { type, reduce } of rules) if (value instanceof type) return reduce(value as never);
  return undefined;
}
