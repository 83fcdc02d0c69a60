/** @file Reads the pickles of Python's side: functions with their arguments, and results. A closed list of names; no code. */
import { PyCallable, type PyName } from '../values/name.ts';
import { PyFloat } from '../values/numbers.ts';
import type { RRefFork, SerializedRemoteModule } from '../values/objects.ts';
import type { TravellingTensor } from '../values/opaque-tensor.ts';
import { DEFAULT_TORCH_LIMITS, type TorchLimits } from '../limits.ts';
import { PyFunction, builtinGlobals, globalKey, integerIn } from './builtin-globals.ts';
import { pythonic, protocol4, scalars, structures } from './instructions.ts';
import { Machine, instructionTable, type Dialect } from './machine.ts';
import { numpyGlobals } from './numpy-globals.ts';
import { refuse } from './refusal.ts';
import { receiver, remoteModuleIn, scriptModuleReceiver } from './remote-modules.ts';
import { forkOf } from './rref-fields.ts';
import { readText } from './text.ts';
import { internalPickler, torchConstant, torchGlobals } from './torch-globals.ts';
import { isWhole } from './writer.ts';

/** Names that were offered to Python beside the fixed list. */
export interface OfferedNames {
  /** The function, class or constant of that name; undefined: not offered. A class whose instances may come is a PyClass. */
  find(module: string, name: string): PyName | undefined;
  /** `getattr(owner, name)` of an offered class or of one of its instances; undefined: not offered. */
  attribute(owner: unknown, name: string): unknown;
}

/** What a pickle is read with. */
export interface PythonContext {
  /** The tensors that travel beside it, by index. */
  readonly tensors: readonly TravellingTensor[];
  readonly names: OfferedNames;
  /** What a handle on an RRef becomes. */
  rref(fork: RRefFork): unknown;
  /** What a RemoteModule becomes. @default what travelled of it */
  readonly remoteModule?: ((module: SerializedRemoteModule) => unknown) | undefined;
  /**
   * Whether every value becomes one that is written again as what it was: whole floats become PyFloat, numpy's arrays and scalars
   * objects of their own. @default false
   */
  readonly exact?: boolean | undefined;
  readonly limits?: TorchLimits | undefined;
}

/** Nothing beside the list. */
export const NO_NAMES: OfferedNames = Object.freeze({ find: () => undefined, attribute: () => undefined });

const instructions = instructionTable(scalars, structures, pythonic, protocol4);

/**
 * Reads one pickle. Arrays are lists, PyTuples tuples, Maps dicts, Sets sets, Uint8Arrays bytes; null is None.
 * @throws WireError 'decode-error' or 'limit'; NotOfferedError for a name that is neither on the list nor offered.
 */
export function readPython(bytes: Uint8Array, context: PythonContext): unknown {
  return new Machine(bytes, new PythonDialect(context), context.limits ?? DEFAULT_TORCH_LIMITS).run();
}

/** What may stand in the pickle of a call or of a value. */
class PythonDialect implements Dialect {
  readonly name = 'a pickle of Python';
  readonly protocols = PROTOCOLS;
  readonly instructions = instructions;
  readonly float: (value: number) => unknown;
  readonly text = readText;
  private readonly context: PythonContext;

  constructor(context: PythonContext) {
    this.context = context;
    this.float = context.exact === true ? exactFloat : plainFloat;
  }

  list(): unknown[] {
    return [];
  }

  dict(): Map<unknown, unknown> {
    return new Map();
  }

  persistent(): undefined {
    return undefined;
  }

  global(module: string, name: string): unknown {
    const { context } = this;
    if (module === 'builtins' && name === 'getattr')
      return new PyFunction('builtins', 'getattr', (owner, attribute) => attributeOf(context, owner, attribute));
    if (module === receiver.module && name === receiver.name) return remoteModuleReceiver(context);
    if (module === scriptModuleReceiver.module && name === scriptModuleReceiver.name)
      throw refuse('a module that TorchScript has compiled has no form here: keep it where it is, by remote()');
    const key = globalKey(module, name);
    return (
      torchGlobals.get(key) ??
      builtinGlobals.get(key) ??
      torchConstant(module, name) ??
      (context.exact === true ? numpyGlobals.exact : numpyGlobals.plain).get(key) ??
      context.names.find(module, name)
    );
  }
}

const PROTOCOLS: readonly number[] = [2, 3, 4, 5];

function plainFloat(value: number): number {
  return value;
}

/** A float that would travel as an int is marked as a float. */
export function exactFloat(value: number): number | PyFloat {
  return isWhole(value) ? new PyFloat(value) : value;
}

function attributeOf(context: PythonContext, owner: unknown, name: unknown): unknown {
  if (typeof name !== 'string') throw refuse('the name of an attribute is no text');
  if (owner === internalPickler) {
    if (name === '_tensor_receiver') return tensorReceiver(context);
    if (name === '_py_rref_receiver') return rrefReceiver(context);
    throw refuse(`the pickler has no '${name.slice(0, 80)}' here`);
  }
  const found = context.names.attribute(owner, name);
  if (found === undefined) throw refuse(`'${name.slice(0, 80)}' of what a pickle names is not offered here`);
  return found;
}

/** What the pickler of torch's RPC calls for what travels beside a pickle; it looks at its arguments itself. */
class Receiver extends PyCallable {
  private readonly receive: (args: readonly unknown[]) => unknown;

  constructor(module: string, name: string, receive: (args: readonly unknown[]) => unknown) {
    super(module, name);
    this.receive = receive;
  }

  override call(args: readonly unknown[]): unknown {
    return this.receive(args);
  }
}

function tensorReceiver({ tensors }: PythonContext): Receiver {
  return new Receiver(internalPickler.module, '_InternalRPCPickler._tensor_receiver', ([index]) => {
    return tensors[integerIn(index, 0, tensors.length - 1, 'the place of a tensor')];
  });
}

function rrefReceiver(context: PythonContext): Receiver {
  return new Receiver(internalPickler.module, '_InternalRPCPickler._py_rref_receiver', ([fork]) =>
    context.rref(forkOf(fork)),
  );
}

function remoteModuleReceiver(context: PythonContext): Receiver {
  return new Receiver(receiver.module, receiver.name, (fields) => {
    const module = remoteModuleIn(fields);
    return context.remoteModule === undefined ? module : context.remoteModule(module);
  });
}
