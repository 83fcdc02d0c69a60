/** @file Requests about RRefs that others send: creations, fetches, what keeps count of who holds them, and proxies of Python. */
import { RpcError, type WorkerInfo } from '@backwire/rpc';
import {
  callMethod,
  type ProtocolWorker,
  type OwnedValue,
  type OwnerEntry,
  type Failure,
  type GlobalId,
} from '@backwire/rref/internal';
import { Tensor, nn } from '@backwire/tensor';
import { raising, refusal } from '../calls/errors.ts';
import type { Names } from '../calls/names.ts';
import { Thrown, type Runnable, type Server, type Serving } from '../calls/server.ts';
import { withKwargs } from '../calls/targets.ts';
import { writingTo, type Values } from '../calls/values.ts';
import { writeCommand } from '../messages/codec.ts';
import type { Body, Creation, FetchCall } from '../messages/commands.ts';
import { tensorMethod } from '../operators/method.ts';
import { NotOfferedError } from '../pickle/refusal.ts';
import { torchModule } from '../values/module-names.ts';
import { PyName } from '../values/name.ts';
import { globalId } from './ids.ts';
import { TorchRRef } from './handle.ts';

export interface RequestHost {
  readonly self: WorkerInfo;
  readonly worker: ProtocolWorker<OwnedValue>;
  readonly names: Names;
  readonly values: Values;
  readonly server: Server;
  /** The value of an entry, empty when nobody has made it yet. */
  valueOf(entry: OwnerEntry<OwnedValue>): OwnedValue;
  /** The refusal of the fork request that was just heard. */
  takeRefusal(): Failure | undefined;
  /** A worker says that it has a handle that it was handed. */
  accepted(fork: GlobalId, from: number): void;
  /** Runs a pass of distributed autograd. */
  backward(contextId: bigint, roots: readonly Tensor[], options: { retainGraph: boolean }): Promise<void>;
  /** The type with which forks of what is made here travel, kept with it. */
  typed(owned: OwnedValue, type: string): void;
}

/** torch's word for a pass within one process. */
const NO_CONTEXT = -1n;

const ACKNOWLEDGED = (): Body => writeCommand({ kind: 'rref-ack' });

/** Serves them. */
export function serveRRefs(host: RequestHost): void {
  const { server, worker } = host;
  server.handle('python-remote-call', (request, serving) =>
    create(host, request, serving, 'PyObject', () => server.readUdf(request, serving)),
  );
  server.handle('script-remote-call', (request, serving) =>
    create(host, request, serving, 'Tensor', () => server.scriptRunnable(request.callee, request.args, serving)),
  );
  server.handle('python-rref-fetch-call', (request, { from }) => fetchPython(host, request, from));
  server.handle('script-rref-fetch-call', (request, { from }) => fetchScript(host, request, from));
  server.handle('rref-fork-request', ({ rref, fork }, { from }) => {
    worker.control(from.id, { kind: 'fork-request', rref: globalId(rref), fork: globalId(fork) });
    const refusal = host.takeRefusal();
    if (refusal !== undefined) throw new RpcError('resource-exhausted', refusal.text);
    return ACKNOWLEDGED();
  });
  server.handle('rref-child-accept', ({ fork }, { from }) => {
    host.accepted(globalId(fork), from.id);
    return ACKNOWLEDGED();
  });
  server.handle('rref-user-delete', ({ fork }, { from }) => {
    worker.control(from.id, { kind: 'user-delete', forks: [globalId(fork)] });
    return ACKNOWLEDGED();
  });
  server.handle('rref-backward-req', async ({ rref, context, retainGraph }, { from }) => {
    const value = await host.valueOf(worker.owners.mention(globalId(rref), from.id)).wait();
    if (!(value instanceof Tensor))
      throw new RpcError('failed-precondition', 'RRef should contain a tensor for .backward()');
    if (context === NO_CONTEXT) value.backward(undefined, { retainGraph });
    else await host.backward(context, [value as Tensor], { retainGraph });
    return writeCommand({ kind: 'rref-backward-resp' });
  });
  serveProxies(host);
}

/** A call whose result stays here. The ids stand outside of what may be refused: whoever waits for the value hears of it, too. */
function create(
  host: RequestHost,
  { rref, fork }: Creation,
  serving: Serving,
  type: string,
  read: () => Runnable,
): Body | Promise<Body> {
  const { worker, server } = host;
  // What this worker creates on itself is in the table since it was asked for.
  const refused =
    serving.from.id === host.self.id
      ? undefined
      : worker.createArrived(serving.from.id, { kind: 'create', rref: globalId(rref), fork: globalId(fork) });
  if (refused !== undefined) throw new RpcError('failed-precondition', refused.text);
  const answer = writeCommand({ kind: 'remote-ret', rref, fork });
  const entry = worker.owners.start(globalId(rref));
  // Its creator has let go of it already, or has sent it twice.
  if (entry === undefined) return answer;
  const owned = host.valueOf(entry);
  host.typed(owned, type);
  const failed = (error: unknown): Body => {
    // What kept the function from running is the RRef's, too: a creation that is not acknowledged stays pending in torch for ever.
    owned.reject(error instanceof Thrown ? error.thrown : refusedWith(error));
    worker.owners.settle(entry);
    return answer;
  };
  const made = (value: unknown): Body => {
    owned.resolve(value);
    worker.owners.settle(entry);
    return answer;
  };
  try {
    const result = server.run(read(), serving);
    return result instanceof Promise ? (result as Promise<unknown>).then(made, failed) : made(result);
  } catch (error) {
    return failed(error);
  }
}

/** Why values were never made. */
const refusals = new WeakSet<object>();

function refusedWith(error: unknown): Error {
  const code = error instanceof NotOfferedError ? 'not-found' : 'failed-precondition';
  const refused = error instanceof RpcError ? error : new RpcError(code, refusal(error), { cause: error });
  refusals.add(refused);
  return refused;
}

/** The value that a peer asks for, once it is there. */
function fetched(host: RequestHost, { rref }: FetchCall, from: WorkerInfo): Promise<unknown> {
  return host.valueOf(host.worker.owners.mention(globalId(rref), from.id)).wait();
}

async function fetchPython(host: RequestHost, request: FetchCall, from: WorkerInfo): Promise<Body> {
  let value: unknown;
  try {
    value = await fetched(host, request, from);
  } catch (error) {
    // What kept the function from running is no error of Python's.
    if (typeof error === 'object' && error !== null && refusals.has(error)) throw error;
    value = raising(error, host.self);
  }
  const { bytes, tensors } = host.values.write(value, writingTo(from));
  return writeCommand({ kind: 'python-rref-fetch-ret', pickled: bytes, tensors });
}

async function fetchScript(host: RequestHost, request: FetchCall, from: WorkerInfo): Promise<Body> {
  return writeCommand({ kind: 'script-rref-fetch-ret', value: await fetched(host, request, from) });
}

// Proxies: Python asks for the class first, and then has its method called.

function serveProxies({ names }: RequestHost): void {
  names.answer('torch.distributed.rpc.api._rref_typeof_on_owner', async ([rref]) =>
    classOf(names, await valueIn(rref)),
  );
  const invoke = async ([rref, method, args, kwargs]: readonly unknown[]): Promise<unknown> => {
    if (typeof method !== 'string' || !Array.isArray(args) || !(kwargs instanceof Map))
      throw new TypeError('a malformed call of a method');
    const value = await valueIn(rref);
    // It returns the module itself, which would travel as a whole.
    if (value instanceof nn.Module && (method === 'train' || method === 'eval')) {
      value.train(method === 'train' && args[0] !== false);
      return null;
    }
    if (value instanceof Tensor) {
      const found = tensorMethod(value as Tensor, method, args, kwargs as ReadonlyMap<string, unknown>);
      if (found !== undefined) return found.value;
    }
    const all = withKwargs(args as readonly unknown[], kwargs as ReadonlyMap<unknown, unknown>);
    const offered = offeredMethod(names, value, method);
    return offered === undefined ? callMethod(value, method, all) : offered(all);
  };
  names.answer('torch.distributed.rpc.rref_proxy._local_invoke', invoke);
  names.answer('torch.distributed.rpc.rref_proxy._local_invoke_async_execution', invoke);
}

/** A method of an object whose class is offered by a path. */
function offeredMethod(
  names: Names,
  value: unknown,
  name: string,
): ((args: readonly unknown[]) => unknown) | undefined {
  if (typeof value !== 'object' || value === null || names.offeredClassOf(value)?.methods.has(name) !== true)
    return undefined;
  const method = (value as Readonly<Record<string, unknown>>)[name];
  return typeof method === 'function' ? (args) => Reflect.apply(method, value, args) as unknown : undefined;
}

/** The value of a handle that came back to its owner. */
export async function valueIn(rref: unknown): Promise<unknown> {
  if (!(rref instanceof TorchRRef) || rref.owned === undefined)
    throw new TypeError('what is asked of an RRef of this worker, of something else');
  return rref.owned.wait();
}

/** The class of a value, as Python imports it. @throws TypeError for a class that has no name there. */
function classOf(names: Names, value: unknown): PyName {
  if (value instanceof Tensor) return new PyName('torch', 'Tensor');
  if (typeof value === 'number') return new PyName('builtins', Number.isInteger(value) ? 'int' : 'float');
  const simple = BUILTIN.get(typeof value);
  if (simple !== undefined) return new PyName('builtins', simple);
  if (value === null || value === undefined) return new PyName('builtins', 'NoneType');
  if (Array.isArray(value)) return new PyName('builtins', 'list');
  if (value instanceof Map || Object.getPrototypeOf(value) === Object.prototype) return new PyName('builtins', 'dict');
  const { constructor } = value;
  const path = names.pathOf(constructor);
  const own = path === undefined ? undefined : torchModule(path);
  if (own !== undefined) return own;
  const dot = path?.lastIndexOf('.') ?? -1;
  if (path === undefined || dot <= 0)
    throw new TypeError(
      `class '${constructor.name}' has no name that Python can import; define it with rpcClass() as 'module.Class'`,
    );
  return new PyName(path.slice(0, dot), path.slice(dot + 1));
}

const BUILTIN: ReadonlyMap<string, string> = new Map([
  ['string', 'str'],
  ['boolean', 'bool'],
  ['bigint', 'int'],
]);
