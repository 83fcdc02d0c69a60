/** @file One text for each value, the same as golden/describe.py makes: how the two sides are compared. */
import { WorkerInfo } from '@backwire/rpc';
import { Parameter, Tensor } from '@backwire/tensor';
import { readBytes } from '@backwire/tensor/internal';
import type { Body, TorchCommand } from '../src/messages/commands.ts';
import { messageTypeName } from '@backwire/wire/internal';
import {
  PyByteArray,
  PyDefaultDict,
  PyDeque,
  PyFrozenSet,
  PyOrderedDict,
  PyTuple,
  ScriptDict,
  ScriptList,
  TorchSize,
} from '../src/values/containers.ts';
import { elementNamed } from '../src/values/dtypes.ts';
import { PyName } from '../src/values/name.ts';
import { PyComplex, PyFloat, PyRange, PySlice } from '../src/values/numbers.ts';
import { NumpyArray, NumpyScalar, numpyCode, scalarBytes } from '../src/values/numpy.ts';
import {
  PyAttribute,
  PyException,
  PyInstance,
  PythonUdf,
  RRefFork,
  RemoteException,
  SerializedRemoteModule,
  type TorchId,
} from '../src/values/objects.ts';
import { OpaqueTensor, type TensorLike } from '../src/values/opaque-tensor.ts';
import { PyDateTime, PyTimeDelta, PyTimeZone } from '../src/values/time.ts';
import { TorchDType, TorchDevice, TorchLayout } from '../src/values/torch-types.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function floating(value: number): string {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return `float(${bytes.toString('hex')})`;
}

/** As Python's json.dumps. */
function text(value: string): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Describes the values of one message: storages are numbered in the order in which they are met. */
export class Describer {
  private readonly storages = new Map<object, number>();
  private readonly inside = new Set<object>();

  value(value: unknown): string {
    if (value === null || value === undefined) return 'None';
    if (typeof value === 'boolean') return value ? 'True' : 'False';
    if (typeof value === 'bigint') return String(value);
    if (typeof value === 'string') return text(value);
    if (typeof value === 'number')
      return Number.isSafeInteger(value) && !Object.is(value, -0) ? String(value) : floating(value);
    if (typeof value !== 'object') throw new TypeError(`no text for a ${typeof value}`);
    if (this.inside.has(value)) return '<cycle>';
    if (!Array.isArray(value) && !(value instanceof Map)) return this.object(value);
    this.inside.add(value);
    try {
      return this.object(value);
    } finally {
      this.inside.delete(value);
    }
  }

  items(values: Iterable<unknown>): string {
    return Array.from(values, (value) => this.value(value)).join(', ');
  }

  private pairs(map: ReadonlyMap<unknown, unknown>): string {
    return Array.from(map, ([key, value]) => `${this.value(key)}: ${this.value(value)}`).join(', ');
  }

  private sorted(set: ReadonlySet<unknown>): string {
    return Array.from(set, (item) => this.value(item))
      .sort()
      .join(', ');
  }

  private object(value: object): string {
    if (value instanceof Tensor || value instanceof OpaqueTensor) return this.tensor(value);
    if (value instanceof TorchSize) return `Size(${this.items(value)})`;
    if (value instanceof PyTuple) return `(${this.items(value)})`;
    if (value instanceof ScriptList) return `List[${value.elementType}] [${this.items(value)}]`;
    if (value instanceof PyDeque) return `deque(${this.value(value.maxLength)})[${this.items(value)}]`;
    if (Array.isArray(value)) return `[${this.items(value)}]`;
    if (value instanceof ScriptDict) return `Dict[${value.keyType}, ${value.valueType}] {${this.pairs(value)}}`;
    if (value instanceof PyOrderedDict) return `OrderedDict{${this.pairs(value)}}`;
    if (value instanceof PyDefaultDict) return `defaultdict(${this.value(value.factory)}){${this.pairs(value)}}`;
    if (value instanceof Map) return `{${this.pairs(value)}}`;
    if (value instanceof PyFrozenSet) return `frozenset{${this.sorted(value)}}`;
    if (value instanceof Set) return `set{${this.sorted(value)}}`;
    if (value instanceof PyByteArray) return `bytearray(${hex(value)})`;
    if (value instanceof Uint8Array) return `bytes(${hex(value)})`;
    return this.record(value);
  }

  private record(value: object): string {
    if (value instanceof PyName) return `<${value.path}>`;
    if (value instanceof PyFloat) return floating(value.value);
    if (value instanceof PyComplex) return `complex(${floating(value.real)}, ${floating(value.imag)})`;
    if (value instanceof PyRange) return `range(${value.start}, ${value.stop}, ${value.step})`;
    if (value instanceof PySlice) return `slice(${this.items([value.start, value.stop, value.step])})`;
    if (value instanceof TorchDType || value instanceof TorchLayout)
      return value instanceof TorchLayout ? `layout(${value.name})` : `torch.${value.name}`;
    if (value instanceof TorchDevice) return `device(${value.toString()})`;
    if (value instanceof WorkerInfo) return `WorkerInfo(${text(value.name)}, ${value.id})`;
    if (value instanceof RRefFork) return `RRef(${this.items(forkFields(value))})`;
    if (value instanceof SerializedRemoteModule)
      return `RemoteModule(${this.items([value.on, value.device, value.moduleRRef])})`;
    if (value instanceof PythonUdf)
      return `call ${this.items([value.func])} ${this.value(value.args)} ${this.value(value.kwargs)}`;
    if (value instanceof RemoteException) return `raise ${this.value(value.type)} ${text(value.message)}`;
    if (value instanceof PyAttribute) return `<${value.name} of ${this.value(value.owner)}>`;
    if (value instanceof PyException) return `${value.type.name}(${this.items(value.args)})`;
    if (value instanceof PyInstance) return this.instance(value);
    if (value instanceof NumpyScalar) return `scalar(${numpyCode(value.dtype)}, ${hex(scalarBytes(value))})`;
    if (value instanceof NumpyArray) return this.numpy(value);
    if (value instanceof PyDateTime) return `datetime(${isoFormat(value)})`;
    if (value instanceof PyTimeZone) return `timezone(${this.value(value.offset)})`;
    if (value instanceof PyTimeDelta) return `timedelta(${value.days}, ${value.seconds}, ${value.microseconds})`;
    throw new TypeError(`no text for a ${value.constructor.name}`);
  }

  private instance({ type, args, state }: PyInstance): string {
    return state === undefined ? `${type.path}(${this.items(args)})` : `${type.path}${this.value(state)}`;
  }

  private numpy({ tensor }: NumpyArray): string {
    const bytes = tensor instanceof OpaqueTensor ? tensor.bytes : tensor;
    return `ndarray(${numpyCode(tensor.dtype)}, [${tensor.shape.join(', ')}], ${hex(readBytes(bytes))})`;
  }

  private tensor(tensor: TensorLike): string {
    const { dtype, shape } = tensor;
    const grad = tensor.requiresGrad ? ', grad' : '';
    const name = tensor instanceof Parameter ? 'Parameter' : 'Tensor';
    if (tensor instanceof Tensor && tensor.sparse !== undefined) {
      const { indices, values } = tensor.sparse;
      return `Sparse(${dtype}, [${shape.join(', ')}]${grad}, ${this.tensor(indices)}, ${this.tensor(values)})`;
    }
    const view = tensor instanceof OpaqueTensor ? tensor.bytes : tensor;
    return `${name}(${dtype}, [${shape.join(', ')}]${grad}, ${this.place(tensor, view)}, ${content(view)})`;
  }

  private place(tensor: TensorLike, view: Tensor): string {
    const width = tensor instanceof OpaqueTensor ? (elementNamed(tensor.dtype)?.bytes ?? 1) : 1;
    const strides = view.strides.slice(0, tensor.shape.length).map((stride) => stride / width);
    const { storage } = view;
    if (storage.nbytes === 0) return `no storage, strides [${strides.join(', ')}]`;
    if (tensor instanceof Tensor && computed.has(tensor)) return 'computed';
    const number = this.storages.get(storage) ?? this.storages.size;
    this.storages.set(storage, number);
    return `storage ${number} of ${storage.nbytes}, offset ${view.offset / width}, strides [${strides.join(', ')}]`;
  }
}

/** Tensors that a test knows to have been computed from what came. */
export const computed = new WeakSet<Tensor>();

function content(view: Tensor): string {
  const data = hex(readBytes(view));
  return data.length > 256 ? `${data.slice(0, 128)}… ${data.length / 2}` : data;
}

function forkFields({ owner, rref, fork, parent, type }: RRefFork): unknown[] {
  return [owner, rref.worker, rref.local, fork.worker, fork.local, parent, type];
}

const id = ({ worker, local }: TorchId): string => `(${worker}, ${local})`;
const flag = (value: boolean): string => (value ? 'True' : 'False');

/** What a command is read with: its pickles and the message inside of it are read here. */
export interface DeepReader {
  python(pickled: Uint8Array, tensors: Body['tensors']): unknown;
  command(body: Body): TorchCommand;
}

/** Describes whole messages. */
export class CommandDescriber {
  private readonly d = new Describer();
  private readonly read: DeepReader;

  constructor(read: DeepReader) {
    this.read = read;
  }

  text(body: Body): string {
    return `${messageTypeName(body.type)} ${this.fields(this.read.command(body))}`;
  }

  private pickled({ pickled, tensors }: { pickled: Uint8Array; tensors: Body['tensors'] }): string {
    return this.d.value(this.read.python(pickled, tensors));
  }

  private call({ callee, args }: Extract<TorchCommand, { kind: 'script-call' | 'script-remote-call' }>): string {
    const what =
      'schema' in callee
        ? `schema=${text(callee.schema)}`
        : `function=${text(callee.function)} async=${flag(callee.isAsync)}`;
    return `${what} args=(${this.d.items(args)})`;
  }

  private fields(c: TorchCommand): string {
    switch (c.kind) {
      case 'script-call':
        return this.call(c);
      case 'script-remote-call':
        return `${this.call(c)} rref=${id(c.rref)} fork=${id(c.fork)}`;
      case 'python-call':
        return `async=${flag(c.isAsync)} ${this.pickled(c)}`;
      case 'python-remote-call':
        return `async=${flag(c.isAsync)} rref=${id(c.rref)} fork=${id(c.fork)} ${this.pickled(c)}`;
      case 'script-ret':
      case 'script-rref-fetch-ret':
        return this.d.value(c.value);
      case 'python-ret':
      case 'python-rref-fetch-ret':
        return this.pickled(c);
      case 'remote-ret':
      case 'rref-user-delete':
      case 'rref-fork-request':
        return `rref=${id(c.rref)} fork=${id(c.fork)}`;
      case 'rref-child-accept':
        return `fork=${id(c.fork)}`;
      case 'script-rref-fetch-call':
      case 'python-rref-fetch-call':
        return `rref=${id(c.rref)} from=${c.from}`;
      case 'exception':
        return text(c.text);
      default:
        return this.autograd(c);
    }
  }

  private autograd(c: TorchCommand): string {
    switch (c.kind) {
      case 'forward-autograd-req':
      case 'forward-autograd-resp': {
        const devices = this.d.value(new Map(c.devices));
        return `context=${c.context} message=${c.message} from=${c.from} devices=${devices} around ${this.text(c.inner)}`;
      }
      case 'backward-autograd-req': {
        const gradients = this.d.items(c.gradients);
        return `context=${c.context} message=${c.message} retain=${flag(c.retainGraph)} gradients=(${gradients})`;
      }
      case 'cleanup-autograd-context-req':
        return `context=${c.context}`;
      case 'rref-backward-req':
        return `rref=${id(c.rref)} context=${c.context} retain=${flag(c.retainGraph)}`;
      case 'run-with-profiling-req': {
        const config = `List[Any] [${this.d.items([c.state, c.shapes, c.memory])}]`;
        return `profile=${id(c.profile)} config=${config} around ${this.text(c.inner)}`;
      }
      case 'run-with-profiling-resp': {
        const events = c.events.map((event) => {
          const shapes = event.shapes.map((shape) => `List[int] [${shape.join(', ')}]`).join(', ');
          const { kind, name, thread, node, cpuBytes, cpuNs, cudaBytes, cudaDevice, cudaUs } = event;
          const head = `${kind}, ${text(name)}, ${thread}, ${floating(event.handle)}, ${node}, ${cpuBytes}, ${cpuNs}`;
          const cuda = `${flag(event.hasCuda)}, ${cudaBytes}, ${cudaDevice}, ${cudaUs}`;
          return `List[Any] [${head}, ${cuda}, List[List[int]] [${shapes}]]`;
        });
        return `profile=${id(c.profile)} events=(${events.join(', ')}) around ${this.text(c.inner)}`;
      }
      default:
        return 'empty';
    }
  }
}

/** As Python's isoformat() writes it, for zones of whole minutes. */
function isoFormat({ year, month, day, hour, minute, second, microsecond, zone }: PyDateTime): string {
  const two = (part: number): string => String(part).padStart(2, '0');
  const date = `${String(year).padStart(4, '0')}-${two(month)}-${two(day)}`;
  const fraction = microsecond === 0 ? '' : `.${String(microsecond).padStart(6, '0')}`;
  const time = `${two(hour)}:${two(minute)}:${two(second)}${fraction}`;
  if (zone === undefined) return `${date}T${time}`;
  const minutes = zone.offset.milliseconds / 60_000;
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `${date}T${time}${minutes < 0 ? '-' : '+'}${two(hours)}:${two(rest)}`;
}
