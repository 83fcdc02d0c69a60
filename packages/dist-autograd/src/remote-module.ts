/** @file RemoteModule: a module that lives on another worker and is called like one that is here. */
import { currentAgent, RpcError, rpcSync, type CallOptions, type To } from '@backwire/rpc';
import {
  CALL_OPTIONS,
  checkSwitch,
  refuseUnknown,
  show,
  invokeServed,
  nameOf,
  runInScope,
  served,
  servedClassOf,
  systemError,
  systemFunction,
  type Definition,
  type Kind,
} from '@backwire/rpc/internal';
import { createRRef, isRRef, remote, type RRef } from '@backwire/rref';
import { localValueNow } from '@backwire/rref/internal';
import { nn, type Named, type Parameter } from '@backwire/tensor';
import { thenHere } from '@backwire/tensor/internal';
import { registerValueType } from '@backwire/wire';
import { modulesOf, type RemoteModules } from './api.ts';
import { parseRemoteDevice } from './remote-device.ts';
import type { ArgumentsOf, ResultFor } from './signatures.ts';

type AnyModule = nn.Module & nn.Callable;
// Only `any` accepts every constructor.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type ModuleClass = (new (...args: any[]) => AnyModule) & Named;

/** A RemoteModule over a reference that has come, in a group of another kind. The class sets it: nobody else can make one. */
export let remoteModuleOver: (rref: RRef<unknown>, device: string, modules: RemoteModules) => RemoteModule<AnyModule>;

/**
 * A handle of a module on another worker. `forward` runs there; inside a `context()` its gradients are recorded. It may be sent to
 * other workers in calls, which then use the same module. Its parameters are there too: `remoteParameters()`.
 *
 * Inside another module it counts as a layer without parameters of its own, and `train()`/`eval()` of the outer one reach it.
 * @example
 * ```ts workers=ps
 * const layer = await distAutograd.RemoteModule.create('ps', nn.Linear, [4, 2]);
 * const y = await layer.forward(ones([3, 4]));
 * console.log(y.shape, layer.remoteDevice); // [ 3, 2 ] ps/cpu
 * ```
 */
export class RemoteModule<M extends AnyModule> extends nn.Module {
  readonly #rref: RRef<M>;
  readonly #device: string;
  readonly #on: To;
  /** How the group does it, where that is not as here. */
  readonly #modules: RemoteModules | undefined;

  private constructor(rref: RRef<M>, device: string, modules?: RemoteModules) {
    super();
    if (!isRRef(rref))
      throw new TypeError("a RemoteModule is made by await RemoteModule.create('worker/cpu', nn.Linear, [2, 3])");
    this.#rref = rref;
    this.#device = device;
    this.#on = rref.owner();
    this.#modules = modules;
  }

  /**
   * Makes the module on a worker and waits for it.
   * @param device 'worker/device', 'rank:N/device', 'worker' (its cpu) or 'device' (on this worker).
   * @param module a class of `nn`, or one of your own that carries `[rpcName]` and is defined with `rpcClass` on that worker.
   * @throws RpcError 'invalid-argument' for a device that cannot be parsed; else what the constructor threw.
   */
  static async create<C extends ModuleClass>(
    device: string,
    module: C,
    args: ConstructorParameters<C>,
    options: CallOptions = {},
  ): Promise<RemoteModule<InstanceType<C>>> {
    refuseUnknown(options, CALL_OPTIONS, 'RemoteModule.create()');
    if (!Array.isArray(args))
      throw new TypeError(`RemoteModule.create() takes the arguments of the constructor as a list, got ${show(args)}`);
    const place = parseRemoteDevice(device);
    const agent = options.agent ?? currentAgent();
    const to = place.worker ?? agent.id;
    const modules = modulesOf(agent);
    const made =
      modules?.create(to, nameOf(module), args, place.device, options) ??
      remote(to, createModule, [nameOf(module), [...(args as unknown[])], place.device], options);
    const rref = made as RRef<InstanceType<C>>;
    try {
      await rref.confirmed(options);
    } catch (error) {
      rref.dispose();
      throw error;
    }
    return new RemoteModule<InstanceType<C>>(rref, place.device, modules);
  }

  /** A handle of a module that is on its owner already, where it stays: of `device`, as in PyTorch, only the device counts and not the worker. */
  static async fromModuleRRef<M extends AnyModule>(
    device: string,
    rref: RRef<M>,
    options: CallOptions = {},
  ): Promise<RemoteModule<M>> {
    refuseUnknown(options, CALL_OPTIONS, 'RemoteModule.fromModuleRRef()');
    const place = parseRemoteDevice(device);
    if (!isRRef(rref))
      throw new TypeError(`RemoteModule.fromModuleRRef() takes the RRef of a module, got ${show(rref)}`);
    await rref.confirmed(options);
    const modules = modulesOf(options.agent ?? currentAgent());
    if (modules === undefined) await rpcSync(rref.owner(), checkModule, [rref, place.device], options);
    return new RemoteModule<M>(rref, place.device, modules);
  }

  /** Where the module is: 'worker/device'. */
  get remoteDevice(): string {
    return `${this.#rref.ownerName()}/${this.#device}`;
  }

  /** Runs the module's `forward` on its worker. Of one with several signatures the last four can be called. */
  forward<A extends ArgumentsOf<M['forward']>>(...args: A): Promise<Awaited<ResultFor<M['forward'], A>>>;
  // For a module whose class is not known where it is called.
  forward(...args: Parameters<M['forward']>): Promise<Awaited<ReturnType<M['forward']>>>;
  forward(...args: unknown[]): Promise<unknown> {
    return this.#run({}, args);
  }

  /** As `forward`, with a time limit or signal. */
  forwardWith<A extends ArgumentsOf<M['forward']>>(
    options: CallOptions,
    ...args: A
  ): Promise<Awaited<ResultFor<M['forward'], A>>>;
  forwardWith(options: CallOptions, ...args: Parameters<M['forward']>): Promise<Awaited<ReturnType<M['forward']>>>;
  forwardWith(options: CallOptions, ...args: unknown[]): Promise<unknown> {
    return this.#run(options, args);
  }

  #run(options: CallOptions, args: unknown[]): Promise<unknown> {
    return (
      this.#modules?.forward(this.#rref, args, this.#device, options) ??
      rpcSync(this.#on, callForward, [this.#rref as RRef<AnyModule>, args], options)
    );
  }

  /** References to the module's parameters, for `DistributedOptimizer`. One call. */
  async remoteParameters(recurse = true): Promise<RRef<Parameter>[]> {
    checkSwitch(recurse, 'recurse of remoteParameters()');
    return await (this.#modules?.parameters(this.#rref, recurse) ??
      rpcSync(this.#on, parameterRRefs, [this.#rref as RRef<AnyModule>, recurse]));
  }

  getModuleRRef(): RRef<M> {
    return this.#rref;
  }

  /**
   * Sets the mode there, in the order of the calls that this worker makes: a `forward` or a method of `getModuleRRef()` that was called
   * before it runs in the old mode, one after it in the new one, awaited or not. Only in a context a call that waits for an RRef among its
   * arguments starts later. Should the worker be gone, the next forward says so.
   */
  override train(mode = true): this {
    checkSwitch(mode, 'the mode of train()');
    this.training = mode;
    const told =
      this.#modules?.train(this.#rref, mode) ?? rpcSync(this.#on, setMode, [this.#rref as RRef<AnyModule>, mode]);
    told.catch(() => undefined);
    return this;
  }

  override toString(): string {
    return `RemoteModule('${this.remoteDevice}')`;
  }

  override parameters(): never {
    throw this.#unsupported('parameters', 'Please use ``remoteParameters`` instead.');
  }

  override namedParameters(): never {
    throw this.#unsupported('namedParameters', 'Please use ``remoteParameters`` instead.');
  }

  /** None here: so that a module around this one can list its own. */
  protected override listParameters(): [] {
    return [];
  }

  /** None here, for the same. */
  protected override listChildren(): [] {
    return [];
  }

  override namedChildren(): never {
    throw this.#unsupported('namedChildren');
  }

  override stateDict(): never {
    throw this.#unsupported('stateDict');
  }

  override loadStateDict(): never {
    throw this.#unsupported('loadStateDict');
  }

  override modules(): never {
    throw this.#unsupported('modules');
  }

  override namedModules(): never {
    throw this.#unsupported('namedModules');
  }

  override buffers(): never {
    throw this.#unsupported('buffers');
  }

  override namedBuffers(): never {
    throw this.#unsupported('namedBuffers');
  }

  override apply(): never {
    throw this.#unsupported('apply');
  }

  override zeroGrad(): never {
    throw this.#unsupported('zeroGrad');
  }

  override requiresGrad_(): never {
    throw this.#unsupported('requiresGrad_');
  }

  override to(): never {
    throw this.#unsupported('to');
  }

  override float(): never {
    throw this.#unsupported('float');
  }

  override double(): never {
    throw this.#unsupported('double');
  }

  override half(): never {
    throw this.#unsupported('half');
  }

  override bfloat16(): never {
    throw this.#unsupported('bfloat16');
  }

  override registerForwardPreHook(): never {
    throw this.#unsupported('registerForwardPreHook');
  }

  override registerForwardHook(): never {
    throw this.#unsupported('registerForwardHook');
  }

  protected override registerBuffer(): never {
    throw this.#unsupported('registerBuffer');
  }

  /** Only calls can carry it: they count who holds the module. */
  toJSON(): never {
    throw new RpcError(
      'failed-precondition',
      'Cannot serialize RemoteModule: RemoteModule can only be serialized when using RPC',
    );
  }

  #unsupported(method: string, instead = this.#there(method)): RpcError {
    return new RpcError('invalid-argument', `Method \`\`${method}\`\` not supported for RemoteModule. ${instead}`);
  }

  /** How to do it on the owner; it may have been asked of a module around this one. */
  #there(method: string): string {
    const asked = `a function on worker '${this.#rref.ownerName()}' that is given getModuleRRef() can call (await rref.localValue()).${method}()`;
    return `The module is elsewhere: ${asked}; of a module around it, ask each part by itself.`;
  }

  /** Lets handles travel in calls; done once, here, because only the class can make them. */
  static {
    remoteModuleOver = (rref, device, modules) => new RemoteModule(rref as RRef<AnyModule>, device, modules);
    registerValueType<RemoteModule<AnyModule>>({
      name: 'backwire.RemoteModule',
      match: RemoteModule as unknown as new () => RemoteModule<AnyModule>,
      encode: (module) => ({ rref: module.#rref, device: module.#device, training: module.training }),
      decode: (plain) => {
        const { rref, device, training } = (plain ?? {}) as { rref: unknown; device: unknown; training: unknown };
        if (!isRRef(rref)) throw new TypeError('a RemoteModule without the RRef of its module');
        const module = new RemoteModule<AnyModule>(rref as RRef<AnyModule>, String(device));
        module.training = training === true;
        return module;
      },
    });
  }
}

const MODULES: Kind = { text: 'module', includes: isModuleClass };

/** Makes a module of a class that this worker serves. */
const createModule = systemFunction(
  'backwire/remote-module.create',
  (name: string, args: unknown[], device: string): AnyModule => {
    if (typeof name !== 'string' || !Array.isArray(args)) throw malformed();
    const definition = served(name);
    if (!isModuleClass(definition)) throw noModule(definition.body.name);
    checkDevice(device);
    return asModule(invokeServed(definition, args));
  },
  MODULES,
);

const checkModule = systemFunction(
  'backwire/remote-module.check',
  async (rref: RRef<AnyModule>, device: string): Promise<void> => {
    checkDevice(device);
    await atModule(rref, (module) => publishing(module, 'forward'));
  },
  MODULES,
);

const callForward = systemFunction(
  'backwire/remote-module.forward',
  async (rref: RRef<AnyModule>, args: unknown[]): Promise<unknown> => {
    if (!Array.isArray(args)) throw malformed();
    return atModule(rref, (found) => {
      const module = publishing(found, 'forward');
      const forward = (): unknown => module.forward(...args);
      return servedClassOf(module)?.scope === true ? runInScope(args, forward, 'answers') : forward();
    });
  },
  MODULES,
);

const parameterRRefs = systemFunction(
  'backwire/remote-module.parameters',
  async (rref: RRef<AnyModule>, recurse: boolean): Promise<RRef<Parameter>[]> =>
    atModule(rref, (module) =>
      publishing(module)
        .parameters(recurse !== false)
        .map((parameter) => createRRef(parameter)),
    ),
  MODULES,
);

const setMode = systemFunction(
  'backwire/remote-module.train',
  async (rref: RRef<AnyModule>, mode: boolean): Promise<void> => {
    await atModule(rref, (module) => publishing(module).train(mode === true));
  },
  MODULES,
);

function isModuleClass({ kind, body }: Definition): boolean {
  return kind === 'class' && body.prototype instanceof nn.Module;
}

/** Uses the module that a peer means, at once where it is there: modes and forwards take effect in the order in which they were called. */
function atModule<T>(rref: unknown, use: (module: AnyModule) => T | Promise<T>): T | Promise<T> {
  if (!isRRef(rref)) throw malformed();
  const found = localValueNow(rref);
  if (!(found instanceof Promise)) return use(asModule(found));
  return thenHere(found, (value) => use(asModule(value)));
}

/**
 * The module itself, if its class is published and served. Whoever publishes a module lets peers have its parameters and switch its mode;
 * its other methods have to be published by name, `forward` among them.
 */
function publishing(module: AnyModule, method?: 'forward'): AnyModule {
  const definition = servedClassOf(module);
  const name = definition?.name ?? module.constructor.name;
  if (definition === undefined || !isModuleClass(definition))
    throw unpublished(`class '${name}' is not published on this worker: define it with rpcClass()`);
  if (method !== undefined && !definition.methods.has(method))
    throw unpublished(`class '${name}' does not publish '${method}': name it in \`methods\` of its rpcClass()`);
  return module;
}

function unpublished(text: string): RpcError {
  return systemError(new RpcError('permission-denied', text));
}

function malformed(): RpcError {
  return systemError(new RpcError('decode-error', 'malformed call of a remote module'));
}

function asModule(value: unknown): AnyModule {
  if (value instanceof nn.Module && typeof (value as unknown as Partial<nn.Callable>).forward === 'function')
    return value as AnyModule;
  throw noModule(typeof value === 'object' && value !== null ? value.constructor.name : typeof value);
}

function noModule(type: string): RpcError {
  return new RpcError(
    'invalid-argument',
    `Expect \`module_cls(*args, **kwargs)\` returns an instance of <class nn.Module>, but it returns an instance of ${type}.`,
  );
}

function checkDevice(device: string): void {
  if (device !== 'cpu')
    throw new RpcError(
      'failed-precondition',
      `modules are kept on the cpu; '${device}' is not available on this worker`,
    );
}
