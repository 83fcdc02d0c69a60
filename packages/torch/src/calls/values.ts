/** @file Values on their way to a worker and from one: pickles with the RRefs, functions and tensors in them. */
import type { WorkerInfo } from '@backwire/rpc';
import { nn } from '@backwire/tensor';
import { DISPOSE } from '@backwire/tensor/internal';
import type { TorchLimits } from '../limits.ts';
import { readPython } from '../pickle/python-reader.ts';
import { writePython, type WrittenPython } from '../pickle/python-writer.ts';
import { refuse } from '../pickle/refusal.ts';
import type { ScriptContext } from '../pickle/script-reader.ts';
import { stateOf } from '../values/module-state.ts';
import { PyName } from '../values/name.ts';
import { PyInstance, SerializedRemoteModule, type RRefFork } from '../values/objects.ts';
import type { TravellingTensor } from '../values/opaque-tensor.ts';
import type { Names } from './names.ts';

/** One message that is being read. */
export interface Reading {
  readonly from: WorkerInfo;
  /** What has to be settled before a function that gets the values may start. */
  readonly pending: Promise<unknown>[];
  /** Handles on RRefs that came, each once. */
  readonly handles: Set<Disposable>;
}

/** One message that is being written. */
export interface Writing {
  readonly to: WorkerInfo;
  /** How to take back what was drawn for it, should it never be sent. */
  readonly undo: (() => void)[];
  /** What is over as soon as the worker has answered, whatever it says: torch says nothing of handles in what it could not read. */
  readonly answered: (() => void)[];
  /** What is in doubt when the call has failed: whether the worker could read it. */
  readonly failed: (() => void)[];
}

/** Begins to write a message to `to`. */
export function writingTo(to: WorkerInfo): Writing {
  return { to, undo: [], answered: [], failed: [] };
}

/** Handles on RRefs in messages. */
export interface References {
  receive(fork: RRefFork, reading: Reading): object;
  /** The fork that travels instead of a handle; undefined for what is no handle. */
  share(value: object, writing: Writing): RRefFork | undefined;
}

/** RemoteModules in messages. */
export interface RemoteModuleHandles {
  /** The RemoteModule over a handle that has come. */
  over(rref: object, device: string): object;
  /** What travels of a RemoteModule beside the fork of its RRef; undefined for what is none. */
  partsOf(value: object): RemoteModuleParts | undefined;
}

export interface RemoteModuleParts {
  readonly rref: object;
  /** The owner's name. */
  readonly on: string;
  readonly device: string;
}

/** Begins to read a message of `from`. */
export function readingFrom(from: WorkerInfo): Reading {
  return { from, pending: [], handles: new Set() };
}

/** Reads and writes for one worker. */
export class Values {
  readonly limits: TorchLimits;
  private readonly names: Names;
  private readonly references: References;
  private readonly modules: RemoteModuleHandles;

  constructor(names: Names, references: References, modules: RemoteModuleHandles, limits: TorchLimits) {
    this.names = names;
    this.references = references;
    this.modules = modules;
    this.limits = limits;
  }

  /** Reads a pickle of Python's side. @throws as `readPython`; handles that were received by then are let go of. */
  read(pickled: Uint8Array, tensors: readonly TravellingTensor[], reading: Reading): unknown {
    const { names, limits } = this;
    try {
      const rref = (fork: RRefFork): object => this.received(fork, reading);
      const remoteModule = ({ moduleRRef, device }: SerializedRemoteModule): object =>
        this.modules.over(rref(moduleRRef), device);
      return readPython(pickled, { tensors, names, limits, rref, remoteModule });
    } catch (error) {
      letGo(reading);
      throw error;
    }
  }

  /** What the bodies of messages are read with; `exact`: floats of whole numbers as PyFloats. */
  script(reading: Reading, exact = false): Omit<ScriptContext, 'tensors'> {
    return { limits: this.limits, exact, rref: (fork) => this.received(fork, reading) };
  }

  /** Writes a value for another worker. @throws as `writePython`; what was drawn for it is taken back. */
  write(value: unknown, writing: Writing): WrittenPython {
    try {
      const replace = (object: object): unknown => this.replaced(object, writing);
      return writePython(value, { replace, maxDepth: this.limits.maxWriteDepth });
    } catch (error) {
      takeBack(writing);
      throw error;
    }
  }

  /** What travels in a script value instead of an object. */
  fork(value: object, writing: Writing): RRefFork | undefined {
    return this.references.share(value, writing);
  }

  private received(fork: RRefFork, reading: Reading): object {
    if (fork.parent !== reading.from.id)
      throw refuse(`worker '${reading.from.name}' hands on an RRef in another's name`);
    return this.references.receive(fork, reading);
  }

  private replaced(value: object, writing: Writing): unknown {
    const fork = this.references.share(value, writing);
    if (fork !== undefined) return fork;
    const module = this.modules.partsOf(value);
    if (module !== undefined) return this.remoteModule(module, writing);
    const path = typeof value === 'function' ? this.names.pathOf(value) : undefined;
    if (path !== undefined) return pathName(path);
    return typeof value === 'function' ? undefined : this.instance(value);
  }

  private remoteModule({ rref, on, device }: RemoteModuleParts, writing: Writing): SerializedRemoteModule | undefined {
    const fork = this.references.share(rref, writing);
    return fork === undefined ? undefined : new SerializedRemoteModule(on, device, fork);
  }

  /** An instance of a class that is offered: its class by name, and its own properties. */
  private instance(value: object): PyInstance | undefined {
    const ctor: unknown = (Object.getPrototypeOf(value) as { constructor?: unknown } | null)?.constructor;
    const path = typeof ctor === 'function' ? this.names.pathOf(ctor) : undefined;
    if (path === undefined || !path.includes('.') || path.startsWith('nn.') || path.startsWith('optim.'))
      return undefined;
    const state = value instanceof nn.Module ? stateOf(value) : new Map(Object.entries(value));
    return new PyInstance(pathName(path), [], { state });
  }
}

/** Lets go of the handles of a message that nobody gets. */
export function letGo({ handles }: Reading): void {
  for (const handle of handles) handle[DISPOSE]();
  handles.clear();
}

/** Takes back what was drawn for a message that is not sent. */
export function takeBack({ undo }: Writing): void {
  for (const undone of undo.splice(0)) undone();
}

/** The worker has answered. */
export function heard({ answered }: Writing): void {
  for (const known of answered.splice(0)) known();
}

/** The call has failed there, or no answer will come. */
export function doubt({ failed }: Writing): void {
  for (const doubted of failed.splice(0)) doubted();
}

function pathName(path: string): PyName {
  const dot = path.lastIndexOf('.');
  return dot <= 0 ? new PyName('__main__', path) : new PyName(path.slice(0, dot), path.slice(dot + 1));
}
