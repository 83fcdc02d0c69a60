/** @file Values of Python that travel in a Backwire group as what they are: arguments on their way to a gateway, and results. */
import { Tensor } from '@backwire/tensor';
import { registerValueType } from '@backwire/wire';
import { PyKwargs } from '../calls/targets.ts';
import { PyGivenTuple, fill } from '../values/containers.ts';
import { elementNamed } from '../values/dtypes.ts';
import { PyComplex, PyFloat, PyRange, PySlice } from '../values/numbers.ts';
import { OpaqueTensor } from '../values/opaque-tensor.ts';
import { PyDateTime, PyTimeDelta, PyTimeZone, type DateTimeParts } from '../values/time.ts';
import { TorchDType, TorchDevice, TorchLayout } from '../values/torch-types.ts';

/** A class and how its instances travel; what comes may come from anybody. */
interface Travelling<T> {
  readonly match: abstract new (...args: never[]) => T;
  readonly parts: (value: T) => readonly unknown[];
  readonly from: (...parts: readonly unknown[]) => T;
}

const LAYOUT = /^torch\.[a-z_]{1,32}$/;

function number(value: unknown): number {
  if (typeof value !== 'number') throw new TypeError('no number');
  return value;
}

function instance<T>(value: unknown, of: abstract new (...args: never[]) => T): T {
  if (value instanceof of) return value;
  throw new TypeError(`no ${of.name}`);
}

function found<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new TypeError(`no ${what}`);
  return value;
}

/** In the order in which they travel. */
const DATE_TIME: readonly (keyof DateTimeParts)[] = [
  'year',
  'month',
  'day',
  'hour',
  'minute',
  'second',
  'microsecond',
  'fold',
];

function travelling<T>(type: Travelling<T>): Travelling<unknown> {
  return type as Travelling<unknown>;
}

const TYPES: Readonly<Record<string, Travelling<unknown>>> = {
  kwargs: travelling({
    match: PyKwargs,
    parts: ({ entries }) => [new Map(entries)],
    from: (entries) => new PyKwargs(Object.fromEntries(instance(entries, Map)) as Record<string, unknown>),
  }),
  tuple: travelling({
    match: PyGivenTuple,
    parts: (tuple) => [Array.from(tuple)],
    from: (items) => fill(new PyGivenTuple(), instance(items, Array)),
  }),
  float: travelling({ match: PyFloat, parts: ({ value }) => [value], from: (value) => new PyFloat(number(value)) }),
  complex: travelling({
    match: PyComplex,
    parts: ({ real, imag }) => [real, imag],
    from: (real, imag) => new PyComplex(number(real), number(imag)),
  }),
  range: travelling({
    match: PyRange,
    parts: ({ start, stop, step }) => [start, stop, step],
    from: (start, stop, step) => new PyRange(number(start), number(stop), number(step)),
  }),
  slice: travelling({
    match: PySlice,
    parts: ({ start, stop, step }) => [start, stop, step],
    from: (start, stop, step) => new PySlice(start, stop, step),
  }),
  timedelta: travelling({
    match: PyTimeDelta,
    parts: ({ days, seconds, microseconds }) => [days, seconds, microseconds],
    from: (days, seconds, microseconds) => new PyTimeDelta(number(days), number(seconds), number(microseconds)),
  }),
  timezone: travelling({
    match: PyTimeZone,
    parts: ({ offset }) => [offset],
    from: (offset) => new PyTimeZone(offset as PyTimeDelta),
  }),
  datetime: travelling({
    match: PyDateTime,
    parts: (time) => [time.zone ?? null, ...DATE_TIME.map((part) => time[part])],
    from: (zone, ...parts) => {
      const read = DATE_TIME.map((part, i) => [part, parts[i]] as const);
      return new PyDateTime(
        Object.fromEntries(read) as unknown as DateTimeParts,
        zone === null ? undefined : instance(zone, PyTimeZone),
      );
    },
  }),
  dtype: travelling({
    match: TorchDType as unknown as abstract new () => TorchDType,
    parts: ({ name }) => [name],
    from: (name) => found(TorchDType.named(String(name)), 'dtype of torch'),
  }),
  device: travelling({
    match: TorchDevice,
    parts: (device) => [device.toString()],
    from: (text) => TorchDevice.parse(String(text)),
  }),
  layout: travelling({
    match: TorchLayout,
    parts: ({ name }) => [name],
    from: (name) => new TorchLayout(found(LAYOUT.exec(String(name))?.[0], 'layout of torch')),
  }),
  tensor: travelling({
    match: OpaqueTensor,
    parts: ({ dtype, bytes, requiresGrad }) => [dtype, bytes, requiresGrad],
    from: (dtype, given, requiresGrad) => {
      const element = found(elementNamed(String(dtype)), 'element type of torch');
      const bytes = instance(given, Tensor);
      // Memory of another size than its type and shape say would end the Python process that reads it.
      if (bytes.dtype !== 'uint8' || bytes.shape.at(-1) !== element.bytes || element.dtype !== undefined)
        throw new TypeError(`no bytes of ${element.name}`);
      return new OpaqueTensor(element.name, bytes as Tensor<'uint8'>, requiresGrad === true);
    },
  }),
};

let registered = false;

/** Lets them travel from and to this process. */
export function registerPythonValues(): void {
  if (registered) return;
  registered = true;
  for (const [name, { match, parts, from }] of Object.entries(TYPES))
    registerValueType({
      name: `backwire.torch/${name}`,
      match,
      encode: parts,
      decode: (plain) => from(...instance(plain, Array)),
    });
}
