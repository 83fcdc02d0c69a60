/** @file Lets Python's `RemoteModule` make modules here, run them, and have their parameters. */
import { invokeServed, type Definition } from '@backwire/rpc/internal';
import { isRRef } from '@backwire/rref';
import { nn, type Tensor } from '@backwire/tensor';
import { OfferedClass, OfferedFunction, type Names } from '../calls/names.ts';
import { withKwargs } from '../calls/targets.ts';
import { PyName } from '../values/name.ts';

const MODULE = 'torch.distributed.nn.api.remote_module';
/** The function that torch makes for modules of any interface. */
const FORWARD = '_remote_module_non_scriptable._remote_forward';
/** Interfaces whose modules others may make here: a name is kept for each. */
const MAX_INTERFACES = 1_024;

export interface ModuleHost {
  readonly names: Names;
  /** The value of a handle on something that is here. @throws TypeError */
  valueIn(rref: unknown): Promise<unknown>;
  /** The RemoteModule over a handle on a module. */
  over(rref: object, device: string): object;
  /** A handle on a value that is here, of this type of torch's. */
  own(value: unknown, type: string): unknown;
}

export function serveModules(host: ModuleHost): void {
  const { names } = host;
  names.answer(`${MODULE}._RemoteModule.init_from_module_rref`, ([place, rref, type]) => {
    if (!isRRef(rref)) throw new TypeError('a RemoteModule of something that is no RRef');
    if (type !== undefined && type !== null)
      throw new TypeError('a RemoteModule with an interface is of TorchScript, which this worker does not run');
    return host.over(rref, deviceIn(place));
  });
  names.answer(`${MODULE}._create_module`, (args) => created(args));
  names.answer(`${MODULE}._create_module_with_interface`, async (args) => {
    const type = args[4];
    if (!(type instanceof PyName)) throw new TypeError('a module without the name of its interface');
    return host.own(await created(args), `__torch__.${type.path}`);
  });
  const interfaces = new Set<string>();
  names.answer(`${MODULE}._instantiate_template`, ([type]) => {
    // torch makes a script function of that name for each interface.
    if (!(type instanceof PyName)) return null;
    if (!interfaces.has(type.path) && interfaces.size >= MAX_INTERFACES)
      throw new RangeError(`this worker knows ${MAX_INTERFACES} interfaces of modules already`);
    interfaces.add(type.path);
    names.answer(`_remote_module___torch___${type.path.replaceAll('.', '_')}._remote_forward`, forward);
    return null;
  });
  names.answer(`${MODULE}._param_rrefs`, async ([rref, recurse]) =>
    (await moduleIn(rref)).parameters(recurse !== false).map((parameter) => host.own(parameter, 'Tensor')),
  );
  const forward = async ([rref, , , ...args]: readonly unknown[]): Promise<unknown> => {
    const module = await moduleIn(rref);
    if (names.classOf(module)?.methods.has('forward') !== true)
      throw new TypeError(`class '${module.constructor.name}' does not publish 'forward' on this worker`);
    return (module as nn.Module & nn.Callable).forward(...(args as Tensor[]));
  };
  names.answer(FORWARD, forward);

  async function moduleIn(rref: unknown): Promise<nn.Module> {
    const value = await host.valueIn(rref);
    if (value instanceof nn.Module) return value;
    throw new TypeError('what is asked of a module, of something else');
  }
}

/** What `module_cls(*args, **kwargs)` makes. */
async function created([cls, args, kwargs, device]: readonly unknown[]): Promise<nn.Module> {
  if (
    !(cls instanceof OfferedClass || cls instanceof OfferedFunction) ||
    !Array.isArray(args) ||
    !(kwargs instanceof Map)
  )
    throw new TypeError('a module of a class that this worker does not have');
  if (device !== 'cpu')
    throw new RangeError(`modules are kept on the cpu here; there is no device '${String(device)}'`);
  const { definition } = cls;
  const given = isOwn(definition)
    ? camelCased(kwargs as ReadonlyMap<string, unknown>)
    : (kwargs as ReadonlyMap<unknown, unknown>);
  const made: unknown = await invokeServed(definition, withKwargs(args as readonly unknown[], given));
  if (made instanceof nn.Module) return made;
  const type = typeof made === 'object' && made !== null ? made.constructor.name : typeof made;
  throw new RangeError(
    `Expect \`module_cls(*args, **kwargs)\` returns an instance of <class nn.Module>, but it returns an instance of ${type}.`,
  );
}

/** The device in 'worker/device', 'worker' or 'device'. Which worker it names is of no matter: the module is where its RRef says. */
function deviceIn(place: unknown): string {
  const fields = typeof place === 'string' ? place.split('/') : [];
  const [first = '', second] = fields;
  if (fields.length > 2 || first === '' || second === '')
    throw new RangeError(
      `Could not parse remote_device: ${String(place)}. The valid format is '<workername>/<device>' or 'rank:<rank>/<device>' or '<device>'`,
    );
  return second ?? (/^(cpu|cuda|meta|mps|xpu)(:\d+)?$/.test(first) ? first : 'cpu');
}

function isOwn({ name }: Definition): boolean {
  return name.startsWith('nn.');
}

/** torch's keyword arguments as options of a module here. None is what an option is without being given; of a momentum it is another average. */
function camelCased(kwargs: ReadonlyMap<string, unknown>): ReadonlyMap<string, unknown> {
  return new Map(
    [...kwargs]
      .filter(([key, value]) => value !== null || key === 'momentum')
      .map(([key, value]) => [key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()), value]),
  );
}
