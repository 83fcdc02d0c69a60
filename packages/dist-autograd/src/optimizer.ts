/** @file DistributedOptimizer: steps parameters where they live, with the gradients of a context. */
import { currentAgent, RpcError, rpcSync, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import {
  CALL_OPTIONS,
  invokeServed,
  nameOf,
  refuseUnknown,
  served,
  systemError,
  systemFunction,
  type Definition,
  type Kind,
} from '@backwire/rpc/internal';
import { isRRef, remote, type RRef } from '@backwire/rref';
import { optim, Tensor, type Named } from '@backwire/tensor';
import { runWith } from '@backwire/tensor/internal';
import { sessionOf, type Autograd } from './api.ts';
import type { LiveContext } from './live-context.ts';

/** Optimisers that take gradients as arguments; any other class reads them from its parameters. */
const FUNCTIONAL: ReadonlySet<string> = new Set(
  ['Adagrad', 'Adam', 'AdamW', 'SGD', 'Adadelta', 'RMSprop', 'Rprop', 'Adamax'].map((name) => `optim.${name}`),
);

type OptimizerClass<A extends unknown[]> = (new (params: Iterable<Tensor>, ...args: A) => optim.Optimizer) & Named;

/**
 * One optimiser on each worker that owns some of the parameters. Steps of several clients are not ordered among each other; those of
 * one client are.
 */
export class DistributedOptimizer implements Disposable {
  readonly #locals: readonly RRef<LocalOptimizer>[];
  #disposed = false;

  private constructor(locals: readonly RRef<LocalOptimizer>[]) {
    if (!Array.isArray(locals))
      throw new TypeError(
        'a DistributedOptimizer is made by await DistributedOptimizer.create(optim.SGD, parameters, options)',
      );
    this.#locals = locals;
  }

  /**
   * Makes the optimisers, all owners at once, and waits for them. The parameters of one owner keep their order.
   * @param optimizer a class of `optim`, or one of your own that carries `[rpcName]` and is defined with `rpcClass` on the owners.
   * @throws what a constructor threw on its owner; of several the last in order of the owners' first parameters.
   */
  static async create<A extends unknown[]>(
    optimizer: OptimizerClass<A>,
    params: readonly RRef<Tensor>[],
    ...args: A
  ): Promise<DistributedOptimizer> {
    const name = nameOf(optimizer);
    checkParams(params);
    const groups = new Map<number, { owner: WorkerInfo; params: RRef<Tensor>[] }>();
    for (const param of params) {
      const owner = param.owner();
      const group = groups.get(owner.id);
      if (group === undefined) groups.set(owner.id, { owner, params: [param] });
      else group.params.push(param);
    }
    const { optimizers } = sessionOf();
    if (optimizers !== undefined) {
      const made = await Promise.all(
        [...groups.values()].map((group) => optimizers.create(group.owner, name, group.params, args)),
      );
      return new DistributedOptimizer(made as RRef<LocalOptimizer>[]);
    }
    const locals = [...groups.values()].map((group) => remote(group.owner, createLocal, [name, group.params, args]));
    try {
      await allOrLastError(locals.map((local) => local.confirmed()));
    } catch (error) {
      for (const local of locals) local.dispose();
      throw error;
    }
    return new DistributedOptimizer(locals);
  }

  /**
   * Steps every parameter that has a gradient in the context; the others are left alone. Resolves when all owners have.
   * @throws RpcError 'not-found' "Could not find autograd context with id: N"; 'failed-precondition' while a backward pass of the context
   *   is in progress, and when the passes that
   *   this worker made have given no parameter at all a gradient; else the last error of an owner. Before any pass the agent's logger warns.
   */
  async step(contextId: bigint, options: CallOptions = {}): Promise<void> {
    refuseUnknown(options, CALL_OPTIONS, 'step()');
    if (this.#disposed) throw gone();
    const session = sessionOf(options.agent ?? currentAgent());
    const context = session.find(contextId);
    if (context.inPass) throw new RpcError('failed-precondition', `step(): ${stillInPass(contextId)}`);
    const inFlight = context.follow();
    try {
      const stepped = await this.stepAll(session, contextId, options);
      if (stepped.length > 0 && stepped.every((count) => count === 0)) nothingStepped(context, session);
    } finally {
      inFlight.settle();
    }
  }

  /** How many parameters of each owner had a gradient; undefined where that is not told. */
  private stepAll(session: Autograd, contextId: bigint, options: CallOptions): Promise<(number | undefined)[]> {
    const { optimizers } = session;
    // The step itself is no part of the graph.
    const steps = runWith({ contextId: undefined }, () =>
      this.#locals.map((local) =>
        optimizers === undefined
          ? rpcSync(local.owner(), stepLocal, [local, contextId], options)
          : optimizers.step(local, contextId, options),
      ),
    );
    return allOrLastError(steps);
  }

  /**
   * Lets go of the optimisers on the owners, and so of their state (momenta, averages); the parameters stay. Steps that are going on end as they
   * would have, later ones fail. Harmless when repeated.
   */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    for (const local of this.#locals) local.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function gone(): RpcError {
  return new RpcError('failed-precondition', 'step(): this optimizer was disposed');
}

function stillInPass(contextId: bigint): string {
  return `a backward pass of context ${contextId} is still in progress, so its gradients are not all there: await backward() first`;
}

/** An error after a pass, which reached no parameter; before one PyTorch's step does nothing, and so a warning is all. */
function nothingStepped(context: LiveContext, { logger }: Autograd): void {
  if (context.hadPass) throw new RpcError('failed-precondition', nothingToStep(context.id));
  if (context.toldOfNoPass) return;
  context.toldOfNoPass = true;
  logger.warn(
    {},
    `step(): no backward pass has run in context ${context.id}, so nothing was trained: await backward(id, [loss]) before it, with this context's id`,
  );
}

function nothingToStep(contextId: bigint): string {
  return `step(): no parameter of this optimizer has a gradient in context ${contextId}, so nothing was trained: call forward and backward inside context(), with this context's id; what is called outside of it is not recorded`;
}

/** The optimiser of one owner. */
class LocalOptimizer {
  private readonly optimizer: optim.Optimizer;
  private readonly functional: boolean;

  constructor(optimizer: optim.Optimizer, functional: boolean) {
    this.optimizer = optimizer;
    this.functional = functional;
  }

  /** Synchronous, so that no other step comes between. */
  step(grads: readonly (Tensor | null)[]): void {
    if (this.functional) this.optimizer.step(grads);
    else this.stepObject(grads);
  }

  /** For an optimiser that reads `.grad`: lends it the context's gradients for the time of the step. */
  private stepObject(grads: readonly (Tensor | null)[]): void {
    const { params } = this.optimizer;
    const before = params.map((param) => param.grad);
    try {
      params.forEach((param, i) => (param.grad = grads[i] ?? null));
      this.optimizer.step();
    } finally {
      params.forEach((param, i) => (param.grad = before[i] ?? null));
    }
  }

  get params(): readonly Tensor[] {
    return this.optimizer.params;
  }
}

const OPTIMIZERS: Kind = { text: 'optimizer', includes: isOptimizerClass };

/** Makes an optimiser of a class that this worker serves, for parameters that are here. */
const createLocal = systemFunction(
  'backwire/optimizer.create',
  async (name: string, params: RRef<Tensor>[], args: unknown[]): Promise<LocalOptimizer> => {
    if (typeof name !== 'string' || !Array.isArray(params) || !Array.isArray(args)) throw malformed();
    const definition = served(name);
    if (!isOptimizerClass(definition))
      throw systemError(new RpcError('invalid-argument', `${definition.kind} '${name}' is not an optimizer`));
    const values = await Promise.all(params.map((param) => parameterHere(param)));
    return new LocalOptimizer(invokeServed(definition, [values, ...args]) as optim.Optimizer, FUNCTIONAL.has(name));
  },
  OPTIMIZERS,
);

/** Steps what `createLocal` has made, and nothing else; how many of its parameters had a gradient. */
const stepLocal = systemFunction(
  'backwire/optimizer.step',
  async (local: RRef<LocalOptimizer>, contextId: bigint): Promise<number> => {
    const optimizer: unknown = isRRef(local) ? await local.localValue() : undefined;
    if (!(optimizer instanceof LocalOptimizer) || typeof contextId !== 'bigint') throw malformed();
    // No call of the context may have reached this worker: then there are no gradients.
    const gradients = sessionOf().contexts.find(contextId)?.gradients.snapshot();
    try {
      const grads = optimizer.params.map((param) => gradients?.get(param) ?? null);
      optimizer.step(grads);
      return grads.filter((grad) => grad !== null).length;
    } finally {
      gradients?.[Symbol.dispose]();
    }
  },
  OPTIMIZERS,
);

function isOptimizerClass({ kind, body }: Definition): boolean {
  return kind === 'class' && body.prototype instanceof optim.Optimizer;
}

/** The tensor that a peer names as a parameter. */
async function parameterHere(param: unknown): Promise<Tensor> {
  const value: unknown = isRRef(param) ? await param.localValue() : undefined;
  if (value instanceof Tensor) return value as Tensor;
  throw systemError(
    new RpcError('invalid-argument', 'a parameter of an optimizer is an RRef to a tensor of its worker'),
  );
}

function malformed(): RpcError {
  return systemError(new RpcError('decode-error', 'malformed call of a distributed optimizer'));
}

async function allOrLastError<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const outcomes = await Promise.allSettled(promises);
  const last = outcomes.filter((outcome) => outcome.status === 'rejected').at(-1);
  if (last !== undefined) throw last.reason;
  return outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
}

/** Programs without types may give the parameters themselves. */
function checkParams(params: unknown): void {
  if (!Array.isArray(params)) throw new TypeError('a DistributedOptimizer takes a list of RRefs to parameters');
  const wrong: number = params.findIndex((param) => !isRRef(param));
  if (wrong < 0) return;
  const text = `a DistributedOptimizer takes RRefs to parameters; parameter ${wrong} is none: createRRef() makes one of a tensor that is here`;
  throw new TypeError(text);
}
