/** @file DistributedOptimizer: steps parameters where they live, with the gradients of a context. */
import { currentAgent, RpcError, rpcSync, type CallOptions, type WorkerInfo } from '@backwire/rpc';
import { CALL_OPTIONS, checkSwitch, nameOf, refuseUnknown } from '@backwire/rpc/internal';
import { remote, type RRef } from '@backwire/rref';
import { scope, tensor, type Named, type optim, type Tensor } from '@backwire/tensor';
import { DISPOSE, checkNumber, clipFactor, kindOf, runWith } from '@backwire/tensor/internal';
import { sessionOf, type Autograd } from './api.ts';
import type { LiveContext } from './live-context.ts';
import {
  createLocal,
  gradientNorms,
  isGroup,
  scaleGradients,
  stepLocal,
  type GivenRemoteGroup,
  type LocalOptimizer,
  type OptionChanges,
} from './local-optimizer.ts';
import { groupsOf, RemoteGroups, ToldOptions, type RemoteParamGroup } from './optimizer-groups.ts';

type OptimizerClass<A extends unknown[]> = (new (params: Iterable<Tensor>, ...args: A) => optim.Optimizer) & Named;

/** How gradients are measured and clipped. */
export interface ClipOptions extends CallOptions {
  /** The order of the norm, over all gradients on all owners together; Infinity is the largest element. @default 2 */
  normType?: number;
  /** Refuses a norm that is infinite or NaN. @default false */
  errorIfNonfinite?: boolean;
}

const CLIP_OPTIONS: ReadonlySet<string> = new Set([...CALL_OPTIONS, 'normType', 'errorIfNonfinite']);

/** The optimiser of one owner, as its client knows it. */
interface Local {
  readonly rref: RRef<LocalOptimizer>;
  /** Which of the groups it has parameters of, */
  readonly groups: readonly number[];
  /** and where among all parameters its own are. */
  readonly places: readonly number[];
  /** What the owner was told of the options of these groups. */
  readonly told: ToldOptions;
}

/**
 * One optimiser on each worker that owns some of the parameters. Steps of several clients are not ordered among each other; those of
 * one client are.
 * @example
 * ```ts workers=ps
 * const layer = await distAutograd.RemoteModule.create('ps', nn.Linear, [2, 1]);
 * using optimizer = await distAutograd.DistributedOptimizer.create(optim.SGD, await layer.remoteParameters(), { lr: 0.1 });
 * const x = tensor([[1, 2]]);
 * const losses: number[] = [];
 * for (let step = 0; step < 3; step++)
 *   await distAutograd.context(async (id) => {
 *     const loss = (await layer.forward(x)).square().mean();
 *     losses.push(loss.item());
 *     await distAutograd.backward(id, [loss]);
 *     await optimizer.step(id); // on ps, where the parameters are
 *   });
 * console.log(losses[2]! <= losses[0]!); // true
 * ```
 */
export class DistributedOptimizer implements Disposable {
  readonly #locals: readonly Local[];
  readonly #groups: RemoteGroups;
  #disposed = false;

  private constructor(locals: readonly Local[], groups: RemoteGroups) {
    if (!Array.isArray(locals))
      throw new TypeError(
        'a DistributedOptimizer is made by await DistributedOptimizer.create(optim.SGD, parameters, options)',
      );
    this.#locals = locals;
    this.#groups = groups;
  }

  /**
   * Makes the optimisers, all owners at once, and waits for them. The parameters of one owner keep their order.
   * @param optimizer a class of `optim`, or one of your own that carries `[rpcName]` and is defined with `rpcClass` on the owners.
   * @param params RRefs to parameters, or groups of them with options of their own: `[{ params, lr: 0.1 }, { params: others }]`.
   * @throws what a constructor threw on its owner; of several the last in order of the owners' first parameters. RpcError
   *   'invalid-argument' where two of the references lead to one tensor, which PyTorch steps twice.
   */
  static async create<A extends unknown[]>(
    optimizer: OptimizerClass<A>,
    params: readonly RRef<Tensor>[] | readonly GivenRemoteGroup[],
    ...args: A
  ): Promise<DistributedOptimizer> {
    if (typeof optimizer !== 'function')
      throw new TypeError(
        `a DistributedOptimizer takes a class such as optim.SGD first, then parameters and options; got ${kindOf(optimizer)}`,
      );
    const name = nameOf(optimizer);
    const given = groupsOf(params);
    const groups = new RemoteGroups(given, (own) => new optimizer(own as Iterable<never>, ...args));
    const shares = sharesOf(given);
    const grouped = params.some(isGroup);
    const { optimizers } = sessionOf();
    if (optimizers !== undefined) {
      if (grouped) throw ofAnotherKind('parameter groups', 'make an optimizer for each');
      const made = await allOrNone(
        shares.map(({ owner, parts }) => optimizers.create(owner, name, parts[0]?.params ?? [], args)),
      );
      return new DistributedOptimizer(
        made.map((rref, i) => localOf(rref as RRef<LocalOptimizer>, shares[i] as Share)),
        groups,
      );
    }
    const locals = shares.map((share) => {
      const own = grouped ? share.parts : (share.parts[0]?.params ?? []);
      return localOf(remote(share.owner, createLocal, [name, own, args]), share);
    });
    try {
      await allOrLastError(locals.map(({ rref }) => rref.confirmed()));
    } catch (error) {
      for (const { rref } of locals) rref.dispose();
      throw error;
    }
    return new DistributedOptimizer(locals, groups);
  }

  /**
   * The options in force, for each group; what is changed here holds from the next step on. The schedulers of `optim.lrScheduler` take a
   * DistributedOptimizer, and change them.
   */
  get paramGroups(): readonly [RemoteParamGroup, ...RemoteParamGroup[]] {
    if (sessionOf().optimizers !== undefined)
      throw ofAnotherKind('options that change', 'make a new one with other options');
    return this.#groups.all;
  }

  /**
   * The norm of the gradients that the parameters have in the context, on all owners, taken as one vector.
   * @throws RpcError as `step()`; RangeError for one that is infinite or NaN, if `errorIfNonfinite` asks for that.
   */
  async gradNorm(contextId: bigint, options: ClipOptions = {}): Promise<number> {
    refuseUnknown(options, CLIP_OPTIONS, 'gradNorm()');
    const { normType = 2, errorIfNonfinite = false, ...call } = options;
    checkNumber(normType, 'gradNorm(): normType');
    checkSwitch(errorIfNonfinite, 'errorIfNonfinite');
    const found = await this.#inContext('gradNorm()', contextId, call, () =>
      this.#onOwners(({ rref }) => rpcSync(rref.owner(), gradientNorms, [rref, contextId, normType], call)),
    );
    const norms: (number | null)[] = [];
    for (const [i, { places }] of this.#locals.entries())
      places.forEach((place, k) => (norms[place] = found[i]?.[k] ?? null));
    const there = norms.filter((norm) => norm !== null);
    const make = there.some(isWide) ? Float64Array : Float32Array;
    const total = there.length === 0 ? 0 : scope(() => tensor(new make(there)).norm(normType).item());
    if (errorIfNonfinite && !Number.isFinite(total))
      throw new RangeError(
        `the norm of order ${normType} of the gradients in context ${contextId} is ${total}: they cannot be clipped by it`,
      );
    return total;
  }

  /**
   * Scales the gradients that the parameters have in the context, on all owners, so that their norm, taken as one vector, is at most
   * `maxNorm`. Between `backward` and `step`. Resolves with the norm that they had. Handles that `getGradients` gave out keep their values.
   * @throws RpcError as `step()`; RangeError as `gradNorm()`.
   */
  async clipGradNorm_(contextId: bigint, maxNorm: number, options: ClipOptions = {}): Promise<number> {
    refuseUnknown(options, CLIP_OPTIONS, 'clipGradNorm_()');
    checkNumber(maxNorm, 'clipGradNorm_(): maxNorm');
    const { normType: _, errorIfNonfinite: __, ...call } = options;
    // A key is that of what changes something: another call under it, which only looks, would be taken for a mistake.
    const total = await this.gradNorm(contextId, { ...options, idempotencyKey: undefined });
    const factor = clipFactor(maxNorm, total, isWide(total));
    if (factor === 1) return total;
    await this.#inContext('clipGradNorm_()', contextId, call, () =>
      this.#onOwners(({ rref }) => rpcSync(rref.owner(), scaleGradients, [rref, contextId, factor], call)),
    );
    return total;
  }

  /**
   * Steps every parameter that has a gradient in the context; the others are left alone. Resolves when all owners have.
   * @throws RpcError 'not-found' "Could not find autograd context with id: N"; 'failed-precondition' while a backward pass of the context
   *   is in progress, and when the passes that
   *   this worker made have given no parameter at all a gradient; else the last error of an owner. Before any pass the agent's logger warns.
   */
  async step(contextId: bigint, options: CallOptions = {}): Promise<void> {
    refuseUnknown(options, CALL_OPTIONS, 'step()');
    const now = this.#groups.inForce;
    await this.#inContext('step()', contextId, options, async (session, context) => {
      const stepped = await this.#onOwners((local) => this.#stepOn(local, session, contextId, options, now));
      if (stepped.length > 0 && stepped.every((count) => count === 0)) nothingStepped(context, session);
    });
  }

  /** Steps one owner's parameters; how many had a gradient, or undefined where that is not told. */
  async #stepOn(
    local: Local,
    { optimizers }: Autograd,
    contextId: bigint,
    options: CallOptions,
    now: readonly Readonly<Record<string, unknown>>[] | undefined,
  ): Promise<number | undefined> {
    const { rref } = local;
    if (optimizers !== undefined) return optimizers.step(rref, contextId, options);
    const ask = (...changes: [] | [OptionChanges]): Promise<number> =>
      rpcSync(rref.owner(), stepLocal, [rref, contextId, ...changes], options);
    if (now === undefined) return ask();
    const ofMine = (all: typeof now) => local.groups.map((group) => all[group] ?? {});
    return local.told.tell(ofMine(now), ofMine(this.#groups.atFirst), ask);
  }

  /** Runs what is asked of the owners while the context is sure to last. @throws RpcError as `step()` */
  async #inContext<T>(
    what: string,
    contextId: bigint,
    options: CallOptions,
    fn: (session: Autograd, context: LiveContext) => Promise<T>,
  ): Promise<T> {
    if (this.#disposed) throw gone(what);
    const session = sessionOf(options.agent ?? currentAgent());
    if (session.optimizers !== undefined && what !== 'step()')
      throw ofAnotherKind(what, 'a function on each owner can ask for its gradients');
    const context = session.find(contextId);
    if (context.inPass) throw new RpcError('failed-precondition', `${what}: ${stillInPass(contextId)}`);
    const inFlight = context.follow();
    try {
      // What is asked is no part of the graph. Only where passes failed it goes in the context, as calls in it name those.
      const inside = context.aborted.length > 0 ? contextId : undefined;
      return await runWith({ contextId: inside }, () => fn(session, context));
    } finally {
      inFlight.settle();
    }
  }

  /** Asks all owners at once. */
  #onOwners<T>(ask: (local: Local) => Promise<T>): Promise<T[]> {
    return allOrLastError(this.#locals.map(ask));
  }

  /**
   * Lets go of the optimisers on the owners, and so of their state (momenta, averages); the parameters stay. Steps that are going on end as they
   * would have, later ones fail. Harmless when repeated.
   */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    for (const { rref } of this.#locals) rref.dispose();
  }

  [DISPOSE](): void {
    this.dispose();
  }
}

function gone(what: string): RpcError {
  return new RpcError('failed-precondition', `${what}: this optimizer was disposed`);
}

function ofAnotherKind(what: string, wayOut: string): RpcError {
  return new RpcError('failed-precondition', `optimizers in a group of PyTorch have no ${what}: ${wayOut}`);
}

/** What one owner has of the parameters. */
interface Share {
  readonly owner: WorkerInfo;
  readonly groups: number[];
  readonly parts: GivenRemoteGroup[];
  readonly places: number[];
}

/** The parameters by their owners, in the order of the first of each. */
function sharesOf(given: readonly GivenRemoteGroup[]): Share[] {
  const shares = new Map<number, Share>();
  let place = 0;
  for (const [group, { params, ...options }] of given.entries()) {
    for (const param of params) {
      const owner = param.owner();
      const share = shares.get(owner.id) ?? { owner, groups: [], parts: [], places: [] };
      shares.set(owner.id, share);
      if (share.groups.at(-1) !== group) {
        share.groups.push(group);
        share.parts.push({ ...options, params: [] });
      }
      (share.parts.at(-1)?.params as RRef<Tensor>[]).push(param);
      share.places.push(place++);
    }
  }
  return [...shares.values()];
}

function localOf(rref: RRef<LocalOptimizer>, { groups, places }: Share): Local {
  return { rref, groups, places, told: new ToldOptions() };
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
  return `step(): no parameter of this optimizer has a gradient in context ${contextId}, so nothing was trained: call forward and backward inside context(), with this context's id; what is called outside of it is not recorded, nor in a page what is called after the first await`;
}

async function allOrLastError<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const outcomes = await Promise.allSettled(promises);
  const last = outcomes.filter((outcome) => outcome.status === 'rejected').at(-1);
  if (last !== undefined) throw last.reason;
  return outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
}

/** As `allOrLastError`; references that did come are let go of when another did not. */
async function allOrNone<T extends Disposable>(promises: readonly Promise<T>[]): Promise<T[]> {
  try {
    return await allOrLastError(promises);
  } catch (error) {
    for (const outcome of await Promise.allSettled(promises))
      if (outcome.status === 'fulfilled') outcome.value[DISPOSE]();
    throw error;
  }
}

/** Whether a norm is that of doubles: those of single precision are told as they are. */
function isWide(norm: number): boolean {
  return Number.isFinite(norm) && Math.fround(norm) !== norm;
}
