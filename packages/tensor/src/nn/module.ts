/** @file Module: a tree of parameters and buffers with a mode and a state dict. */
import { noGrad } from '../autograd/record.ts';
import { keep } from '../scope.ts';
import { Parameter, type Tensor } from '../tensor.ts';

/** Anything with a `forward`; modules are composed through it. */
// Parameters and results are the subclass's own; `unknown` here would not let a method with typed parameters match.
/* eslint-disable @typescript-eslint/no-explicit-any */
export interface Callable<A extends any[] = any[], R = any> {
  forward(...args: A): R;
}
/* eslint-enable @typescript-eslint/no-explicit-any */

/**
 * The base of layers and models. Parameters, buffers (plain tensors in `registerBuffer`) and child modules are found among the own
 * fields of the instance, in the order they were assigned; arrays of modules count by their index. There is no `forward` on the
 * base: subclasses may be synchronous, asynchronous, or take and return tuples.
 */
export abstract class Module {
  /** Whether layers behave as in training (dropout, batch statistics). Set by `train` and `eval`. */
  training = true;
  private readonly buffers = new Map<string, Tensor>();

  /** The parameters of this module and, unless `recurse` is false, of those inside; each once. */
  parameters(recurse = true): Parameter[] {
    return this.namedParameters(recurse).map(([, parameter]) => parameter);
  }

  /** As `parameters`, with the path of each: 'layers.0.weight'. */
  namedParameters(recurse = true): [string, Parameter][] {
    const found = new Map<Parameter, string>();
    for (const [name, value] of this.fields()) if (isParameter(value) && !found.has(value)) found.set(value, name);
    const own = [...found].map(([parameter, name]): [string, Parameter] => [name, parameter]);
    if (!recurse) return own;
    for (const [prefix, child] of this.namedChildren()) {
      for (const [name, parameter] of child.namedParameters()) {
        if (found.has(parameter)) continue;
        found.set(parameter, name);
        own.push([`${prefix}.${name}`, parameter]);
      }
    }
    return own;
  }

  /** The modules directly inside, with their names. */
  namedChildren(): [string, Module][] {
    const children: [string, Module][] = [];
    for (const [name, value] of this.fields()) {
      if (value instanceof Module) children.push([name, value]);
      else if (Array.isArray(value)) {
        for (const [i, item] of value.entries()) if (item instanceof Module) children.push([`${name}.${i}`, item]);
      }
    }
    return children;
  }

  /** Sets the mode of this module and all inside. */
  train(mode = true): this {
    this.training = mode;
    for (const [, child] of this.namedChildren()) child.train(mode);
    return this;
  }

  /** `train(false)`. */
  eval(): this {
    return this.train(false);
  }

  /** Makes `tensor` part of the state dict without training it: running statistics, tables. The module keeps it. */
  protected registerBuffer(name: string, tensor: Tensor): Tensor {
    this.buffers.set(name, keep(tensor));
    return tensor;
  }

  /** Parameters and buffers by path. The tensors are the module's own, detached from no one: copy them to keep a snapshot. */
  stateDict(): Map<string, Tensor> {
    const state = new Map<string, Tensor>();
    for (const [name, parameter] of this.namedParameters(false)) state.set(name, parameter);
    for (const [name, buffer] of this.buffers) state.set(name, buffer);
    for (const [prefix, child] of this.namedChildren()) {
      for (const [name, tensor] of child.stateDict()) state.set(`${prefix}.${name}`, tensor);
    }
    return state;
  }

  /**
   * Copies the values of `state` into the module's tensors. Nothing is changed unless all names and shapes fit.
   * @throws RangeError that lists every missing and unexpected name and every shape that differs.
   */
  loadStateDict(state: Map<string, Tensor>): void {
    const own = this.stateDict();
    const problems = [
      ...[...own.keys()].filter((name) => !state.has(name)).map((name) => `missing '${name}'`),
      ...[...state.keys()].filter((name) => !own.has(name)).map((name) => `unexpected '${name}'`),
    ];
    for (const [name, target] of own) {
      const source = state.get(name);
      if (source !== undefined && String(source.shape) !== String(target.shape)) {
        problems.push(
          `size mismatch for '${name}': [${source.shape.join(', ')}] instead of [${target.shape.join(', ')}]`,
        );
      }
    }
    if (problems.length > 0) {
      throw new RangeError(`Error(s) in loading state dict for ${this.constructor.name}: ${problems.join('; ')}`);
    }
    noGrad(() => {
      for (const [name, target] of own) target.copy_(state.get(name) as Tensor);
    });
  }

  private fields(): [string, unknown][] {
    return Object.entries(this).filter(([name]) => name !== 'buffers' && name !== 'training');
  }
}

/** `instanceof` alone would infer a Parameter of any dtype. */
function isParameter(value: unknown): value is Parameter {
  return value instanceof Parameter;
}
