/** @file Reads the pickles of torch's C++ side: arguments of operators, ids, metadata. A closed list of names. */
import { PyTuple, ScriptDict, ScriptList } from '../values/containers.ts';
import { PyName } from '../values/name.ts';
import type { RRefFork } from '../values/objects.ts';
import type { TravellingTensor } from '../values/opaque-tensor.ts';
import { PyComplex, PyFloat } from '../values/numbers.ts';
import { TorchDevice } from '../values/torch-types.ts';
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from '../limits.ts';
import { PyFunction, globalKey, integerIn, numberIn, tableOf } from './builtin-globals.ts';
import { scalars, structures } from './instructions.ts';
import { Machine, instructionTable, type Dialect } from './machine.ts';
import { Op } from './opcode.ts';
import { exactFloat } from './python-reader.ts';
import { quoted, refuse } from './refusal.ts';
import { forkOf } from './rref-fields.ts';
import { readScriptString } from './text.ts';

/** What a pickle is read with. */
export interface ScriptContext {
  /** The tensors that travel beside it, by index. */
  readonly tensors: readonly TravellingTensor[];
  /** What a handle on an RRef becomes. */
  rref(fork: RRefFork): unknown;
  /** As in `PythonContext`. @default false */
  readonly exact?: boolean | undefined;
  readonly limits?: TorchLimits | undefined;
}

/** Only objects of classes that TorchScript has compiled are built so. */
function scriptObject({ stack, dialect }: Machine): never {
  const type = stack.at(-2);
  if (!(type instanceof PyName) || !type.path.startsWith(COMPILED))
    throw refuse(`${dialect.name} has the instruction NEWOBJ`);
  const name = quoted(type.path.slice(COMPILED.length));
  throw refuse(`an object of the TorchScript class ${name} has no form here: give what is needed of it`);
}

const COMPILED = '__torch__.';

const instructions = instructionTable(scalars, structures, [[Op.NEWOBJ, scriptObject]]);

/**
 * Reads one pickle. Lists are ScriptLists, dicts ScriptDicts, tuples PyTuples; strings that are no UTF-8 are Uint8Arrays.
 * @throws WireError 'decode-error' or 'limit'.
 */
export function readScript(bytes: Uint8Array, context: ScriptContext): unknown {
  const { tensors } = context;
  const own = tableOf([
    new PyFunction('torch.jit._pickle', 'build_tensor_from_id', (index) => {
      return tensors[integerIn(index, 0, tensors.length - 1, 'the place of a tensor')];
    }),
    new PyFunction('torch.distributed.rpc', 'rref', (...fields) => context.rref(forkOf(PyTuple.from(fields)))),
  ]);
  const dialect: Dialect = {
    name: 'a pickle of TorchScript',
    protocols: [2],
    instructions,
    list: () => new ScriptList(),
    dict: () => new ScriptDict(),
    float: context.exact === true ? exactFloat : (value) => value,
    text: readScriptString,
    persistent: () => undefined,
    global: (module, name) => scriptGlobals.get(globalKey(module, name)) ?? own.get(globalKey(module, name)),
  };
  return new Machine(bytes, dialect, context.limits ?? DEFAULT_TORCH_LIMITS).run();
}

/** Builds lists of one element type, whose elements have to be of it. */
function listBuilder(name: string, elementType: string, fits: (value: unknown) => boolean): PyFunction {
  return new PyFunction('torch.jit._pickle', name, (list) => {
    if (!(list instanceof ScriptList)) throw refuse(`${name} of something that is no list`);
    if (!list.every(fits)) throw refuse(`${name} with an element that is no ${elementType}`);
    list.elementType = elementType;
    return list;
  });
}

const isInteger = (value: unknown): boolean => typeof value === 'bigint' || Number.isInteger(value);
const isFloat = (value: unknown): boolean => typeof value === 'number' || value instanceof PyFloat;
/** Tensors come from outside of the pickle: what a context has for one is not known here. */
const isTensor = (value: unknown): boolean => typeof value === 'object' && value !== null;
const isBoolean = (value: unknown): boolean => typeof value === 'boolean';

const LIST_TAG = /^List\[(.{1,256})\]$/;
const DICT_TAG = /^Dict\[([A-Za-z]{1,16}), (.{1,256})\]$/;

/** Gives a list or dict the type of what is in it: 'List[Any]', 'Dict[str, int]'. */
function restoreTypeTag(container: unknown, tag: unknown): unknown {
  if (typeof tag !== 'string') throw refuse('a type tag is no text');
  if (container instanceof ScriptList) {
    const match = LIST_TAG.exec(tag);
    if (match === null) throw refuse('a list with the tag of something else');
    container.elementType = match[1] as string;
  } else if (container instanceof ScriptDict) {
    const match = DICT_TAG.exec(tag);
    if (match === null) throw refuse('a dict with the tag of something else');
    container.keyType = match[1] as string;
    container.valueType = match[2] as string;
  } else throw refuse('a type tag for something that is neither list nor dict');
  return container;
}

function device(text: unknown): TorchDevice {
  if (typeof text !== 'string') throw refuse('a device without a name');
  return TorchDevice.parse(text);
}

/** Names that the tensor table uses, too. */
export const tagGlobal = new PyFunction('torch.jit._pickle', 'restore_type_tag', restoreTypeTag);
export const tensorListGlobal = listBuilder('build_tensorlist', 'Tensor', isTensor);

const scriptGlobals: ReadonlyMap<string, PyName> = tableOf([
  tagGlobal,
  tensorListGlobal,
  listBuilder('build_intlist', 'int', isInteger),
  listBuilder('build_doublelist', 'float', isFloat),
  listBuilder('build_boollist', 'bool', isBoolean),
  new PyFunction('torch', 'device', device),
  new PyFunction('builtins', 'complex', (real, imag) => {
    return new PyComplex(numberIn(real, 'the real part'), numberIn(imag, 'the imaginary part'));
  }),
]);
