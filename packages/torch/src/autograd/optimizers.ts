/** @file Optimisers on owners of parameters: torch's own, made and stepped from here, and ours, made and stepped by torch. */
import type { RemoteOptimizers } from '@backwire/dist-autograd/internal';
import { RpcError, type CallOptions, type To, type WorkerInfo } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import type { Definition } from '@backwire/rpc/internal';
import { Tensor, optim } from '@backwire/tensor';
import type { Gradients } from '@backwire/dist-autograd';
import { DISPOSE } from '@backwire/tensor/internal';
import { OfferedClass, type Names } from '../calls/names.ts';
import { PyKwargs } from '../calls/targets.ts';
import { tupleOf } from '../values/containers.ts';
import { PyName } from '../values/name.ts';

const MODULE = 'torch.distributed.optim.optimizer';
/** The type by which torch's script function takes an optimiser. */
const SCRIPT_TYPE = '__torch__.torch.distributed.optim.optimizer._ScriptLocalOptimizerInterface';
/** Those that torch's script has another class for, too, which takes gradients as arguments. */
const FUNCTIONAL = ['SGD', 'Adam', 'AdamW', 'Adagrad', 'Adadelta', 'RMSprop', 'Rprop', 'Adamax'] as const;
const CLASSES = [...FUNCTIONAL, 'RAdam', 'SparseAdam'] as const;
/** Modules that are not called as their class is. */
const MODULES: Readonly<Record<string, string>> = { SparseAdam: 'sparse_adam' };

export interface OptimizerHost {
  readonly names: Names;
  /** The value of a handle on something that is here. @throws TypeError */
  valueIn(rref: unknown): Promise<unknown>;
  /** A handle on a value that is here, of this type of torch's. */
  own(value: unknown, type: string): unknown;
  /** The gradients of a context; undefined where no call of it has come here. */
  gradients(contextId: unknown): Gradients | undefined;
  /** Calls a function of torch's own. */
  call(to: To, path: string, args: readonly unknown[], options: CallOptions): Promise<unknown>;
}

/** An optimiser of parameters that are here. */
class LocalOptimizer {
  private readonly optimizer: optim.Optimizer;

  constructor(optimizer: optim.Optimizer) {
    this.optimizer = optimizer;
  }

  /** Synchronous, so that no other step comes between. */
  step(gradients: Gradients | undefined): void {
    this.optimizer.step(this.optimizer.params.map((param) => gradients?.get(param) ?? null));
  }
}

/** The class of `optim` by each name that torch has for one like it. */
function classPaths(name: (typeof CLASSES)[number]): readonly string[] {
  const lower = name.toLowerCase();
  const path = `torch.optim.${MODULES[name] ?? lower}.${name}`;
  const isFunctional = (FUNCTIONAL as readonly string[]).includes(name);
  return isFunctional ? [path, `torch.distributed.optim.functional_${lower}._Functional${name}`] : [path];
}

/** Lets torch make and step optimisers here. */
export function serveOptimizers(host: OptimizerHost): void {
  const { names } = host;
  const byPath = new Map<string, string>();
  for (const name of CLASSES) for (const path of classPaths(name)) byPath.set(path, `optim.${name}`);
  for (const path of byPath.keys()) names.know(path);
  /** One of torch's that `optim` has, too, or one that the program has defined. */
  const classOf = (optimizer: unknown): Definition | undefined => {
    if (optimizer instanceof OfferedClass)
      return optimizer.definition.body.prototype instanceof optim.Optimizer ? optimizer.definition : undefined;
    const known = optimizer instanceof PyName ? byPath.get(optimizer.path) : undefined;
    return known === undefined ? undefined : names.definition(known);
  };
  const make =
    (type: string) =>
    async ([optimizer, params, ...args]: readonly unknown[]): Promise<unknown> => {
      const definition = classOf(optimizer);
      if (definition === undefined || !Array.isArray(params))
        throw new TypeError('an optimiser that this worker does not have');
      const values = await Promise.all((params as readonly unknown[]).map((param) => host.valueIn(param)));
      if (!values.every((value) => value instanceof Tensor))
        throw new TypeError('a parameter of an optimiser is no tensor');
      const made = Reflect.construct(definition.body, [values, optionsOf(args)]) as optim.Optimizer;
      return host.own(new LocalOptimizer(made), type);
    };
  const step = async ([rref, contextId]: readonly unknown[]): Promise<null> => {
    const local = await host.valueIn(rref);
    if (!(local instanceof LocalOptimizer)) throw new TypeError('a step of something that is no optimiser');
    const gradients = host.gradients(contextId);
    try {
      local.step(gradients);
    } finally {
      gradients?.[DISPOSE]();
    }
    return null;
  };
  names.answer(`${MODULE}._new_script_local_optimizer`, make(SCRIPT_TYPE));
  names.answer(`${MODULE}._new_local_optimizer`, make('PyObject'));
  names.answer(`${MODULE}._script_local_optimizer_step`, step);
  names.answer(`${MODULE}._local_optimizer_step`, step);
}

/** What is torch's own business, and changes no numbers. */
const IGNORED: ReadonlySet<string> = new Set([
  'foreach',
  'fused',
  'capturable',
  'differentiable',
  '_allow_empty_param_group',
  '_allow_empty_param_list',
]);

/** torch's keyword arguments as options of an optimiser here. A learning rate may come as the first argument. */
function optionsOf(args: readonly unknown[]): Record<string, unknown> {
  const options: Record<string, unknown> = {};
  for (const arg of args) {
    if (typeof arg === 'number') options['lr'] = arg;
    else if (typeof arg !== 'object' || arg === null) throw new TypeError('arguments of an optimiser go by name');
    else {
      for (const [key, value] of Object.entries(arg)) {
        if (IGNORED.has(key)) continue;
        const name = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
        options[name] = Array.isArray(value) ? [...(value as unknown[])] : value;
      }
    }
  }
  return options;
}

/** Makes and steps optimisers on other workers, with torch's own functions for it. */
export function remoteOptimizers(host: OptimizerHost): RemoteOptimizers {
  return {
    async create(owner: WorkerInfo, name, params, args): Promise<RRef<unknown>> {
      const found = CLASSES.find((each) => `optim.${each}` === name);
      if (found === undefined)
        throw new RpcError(
          'invalid-argument',
          `torch has no optimiser that is '${name}': there are ${CLASSES.join(', ')}`,
        );
      const path = classPaths(found)[0] as string;
      const dot = path.lastIndexOf('.');
      const optimizer = new PyName(path.slice(0, dot), path.slice(dot + 1));
      const given = [optimizer, [...params], kwargsOf(args)];
      return (await host.call(owner, `${MODULE}._new_local_optimizer`, given, {})) as RRef<unknown>;
    },
    async step(local, contextId, options): Promise<undefined> {
      await host.call(local.owner(), `${MODULE}._local_optimizer_step`, [local, contextId], options);
    },
  };
}

function kwargsOf(args: readonly unknown[]): PyKwargs {
  const kwargs: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(Object.assign({}, ...args) as Record<string, unknown>))
    kwargs[key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)] = Array.isArray(value)
      ? tupleOf(value as unknown[])
      : value;
  return new PyKwargs(kwargs);
}
