/** @file Optimisers on the owners of parameters: made, stepped and asked by the workers that train them. */
import { RpcError } from '@backwire/rpc';
import {
  invokeServed,
  served,
  show,
  systemError,
  systemFunction,
  type Definition,
  type Kind,
} from '@backwire/rpc/internal';
import { isRRef, type RRef } from '@backwire/rref';
import { nn, optim, Tensor } from '@backwire/tensor';
import { AccumulateGrad, gradEdge, thenHere } from '@backwire/tensor/internal';
import { sessionOf } from './api.ts';

/** Optimisers that take gradients as arguments; any other class reads them from its parameters. */
const FUNCTIONAL: ReadonlySet<string> = new Set(
  ['Adagrad', 'Adam', 'AdamW', 'SGD', 'Adadelta', 'RMSprop', 'Rprop', 'Adamax', 'RAdam', 'SparseAdam'].map(
    (name) => `optim.${name}`,
  ),
);

/** Parameters with options of their own; those left out are the optimiser's. */
export interface GivenRemoteGroup {
  readonly params: readonly RRef<Tensor>[];
  readonly [option: string]: unknown;
}

/** Options that have changed, a group each; null where none has. */
export type OptionChanges = readonly (Readonly<Record<string, unknown>> | null)[];

/** The optimiser of one owner. */
export class LocalOptimizer {
  readonly optimizer: optim.Optimizer;
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

/** Makes an optimiser of a class that this worker serves, for parameters that are here, or groups of them. */
export const createLocal = systemFunction(
  'backwire/optimizer.create',
  async (
    name: string,
    params: readonly RRef<Tensor>[] | readonly GivenRemoteGroup[],
    args: unknown[],
  ): Promise<LocalOptimizer> => {
    if (typeof name !== 'string' || !Array.isArray(params) || !Array.isArray(args)) throw malformed();
    const definition = served(name);
    if (!isOptimizerClass(definition))
      throw systemError(new RpcError('invalid-argument', `${definition.kind} '${name}' is not an optimizer`));
    const here = Promise.all(params.map((one) => (isGroup(one) ? groupHere(one) : parameterHere(one))));
    return thenHere(here, (values) => {
      checkEachOnce(values.flatMap((one): readonly Tensor[] => (one instanceof Tensor ? [one] : [...one.params])));
      const optimizer = invokeServed(definition, [values, ...args]) as optim.Optimizer;
      return new LocalOptimizer(optimizer, FUNCTIONAL.has(name));
    });
  },
  OPTIMIZERS,
);

/** Steps what `createLocal` has made, and nothing else, under options that changed; how many of its parameters had a gradient. */
export const stepLocal = systemFunction(
  'backwire/optimizer.step',
  async (local: RRef<LocalOptimizer>, contextId: bigint, changes?: OptionChanges): Promise<number> => {
    return thenHere(optimizerHere(local, contextId), (optimizer) => {
      if (changes !== undefined) {
        if (!Array.isArray(changes) || !changes.every(isChange)) throw malformed();
        optimizer.optimizer.changeOptions(changes);
      }
      return withGradients(optimizer, contextId, (grads) => {
        optimizer.step(grads);
        return grads.filter((grad) => grad !== null).length;
      });
    });
  },
  OPTIMIZERS,
);

/** The norm of each gradient, in the order of the parameters; null where there is none. */
export const gradientNorms = systemFunction(
  'backwire/optimizer.gradientNorms',
  async (local: RRef<LocalOptimizer>, contextId: bigint, normType: number): Promise<(number | null)[]> => {
    if (typeof normType !== 'number') throw malformed();
    const norm = (grad: Tensor | null): number | null =>
      grad === null ? null : nn.utils.getTotalNorm([grad], { normType }).item();
    return thenHere(optimizerHere(local, contextId), (optimizer) =>
      withGradients(optimizer, contextId, (grads) => grads.map(norm)),
    );
  },
  OPTIMIZERS,
);

/** Multiplies the gradients of the optimiser's parameters in a context. */
export const scaleGradients = systemFunction(
  'backwire/optimizer.scaleGradients',
  async (local: RRef<LocalOptimizer>, contextId: bigint, factor: number): Promise<void> => {
    const { contexts } = sessionOf();
    const optimizer = await optimizerHere(local, contextId);
    if (typeof factor !== 'number') throw malformed();
    const leaves = new Set<AccumulateGrad>();
    for (const param of optimizer.params) {
      const node = gradEdge(param)?.node;
      if (node instanceof AccumulateGrad) leaves.add(node);
    }
    contexts.find(contextId)?.gradients.scale(leaves, factor);
  },
  OPTIMIZERS,
);

/** Calls `fn` with the gradients of a context for the optimiser's parameters. They are freed afterwards. */
function withGradients<T>(
  { params }: LocalOptimizer,
  contextId: bigint,
  fn: (grads: readonly (Tensor | null)[]) => T,
): T {
  // No call of the context may have reached this worker: then there are no gradients.
  const gradients = sessionOf().contexts.find(contextId)?.gradients.snapshot();
  try {
    return fn(params.map((param) => gradients?.get(param) ?? null));
  } finally {
    for (const [, grad] of gradients ?? []) grad.release();
  }
}

function isOptimizerClass({ kind, body }: Definition): boolean {
  return kind === 'class' && body.prototype instanceof optim.Optimizer;
}

async function optimizerHere(local: unknown, contextId: unknown): Promise<LocalOptimizer> {
  const optimizer: unknown = isRRef(local) ? await local.localValue() : undefined;
  if (!(optimizer instanceof LocalOptimizer) || typeof contextId !== 'bigint') throw malformed();
  return optimizer;
}

/** Whether it is a group and no parameter. */
export function isGroup(one: unknown): one is GivenRemoteGroup {
  return typeof one === 'object' && one !== null && !isRRef(one) && Array.isArray((one as GivenRemoteGroup).params);
}

async function groupHere({ params, ...options }: GivenRemoteGroup): Promise<optim.GivenGroup> {
  return { ...options, params: await Promise.all(params.map((param) => parameterHere(param))) };
}

/** The tensor that a peer names as a parameter. */
async function parameterHere(param: unknown): Promise<Tensor> {
  const value: unknown = isRRef(param) ? await param.localValue() : undefined;
  if (value instanceof Tensor) return value as Tensor;
  throw systemError(
    new RpcError(
      'invalid-argument',
      `a parameter of an optimizer is an RRef to a tensor of its worker, got ${isRRef(param) ? `one to ${show(value)}: ask its owner for RRefs to the tensors, as remoteParameters() of a RemoteModule does` : show(param)}`,
    ),
  );
}

/** @throws RpcError 'invalid-argument' for a tensor that two references lead to: each of them would step it. */
function checkEachOnce(params: readonly Tensor[]): void {
  const places = new Map<Tensor, number>();
  const second = params.findIndex((param, i) => {
    if (places.has(param)) return true;
    places.set(param, i);
    return false;
  });
  if (second === -1) return;
  const first = places.get(params[second] as Tensor);
  throw systemError(
    new RpcError(
      'invalid-argument',
      `parameters ${first} and ${second} of those on one worker are references to one tensor, which an optimizer would step twice: leave one of them out`,
    ),
  );
}

function isChange(change: unknown): boolean {
  return change === null || (typeof change === 'object' && !Array.isArray(change));
}

function malformed(): RpcError {
  return systemError(new RpcError('decode-error', 'malformed call of a distributed optimizer'));
}
