/** @file What an operation is. */
import { inNameOf } from '../called-as.ts';
import { named, type Named } from '../named.ts';
import { Tensor } from '../tensor.ts';
import { check, type Takes } from './takes.ts';

/** As many tensors as the operation takes; one that takes fewer at times says so itself. */
type Operands = readonly [Tensor, Tensor, Tensor, Tensor, ...Tensor[]];

/** One operation: tensors and attributes in, one new tensor out. */
export interface Op<A> {
  /** Its key in the derivative table. */
  readonly name: string;
  /** The name of its function in a recorded graph. */
  readonly gradName: string;
  /** Its name in PyTorch's operator library, as profiles and remote calls show it. */
  readonly torch: string;
  /** The dtypes it takes: what others meet is an error that names the operation. */
  readonly takes: Takes;
  /** Whether its result is on another device than its inputs. */
  readonly moves?: boolean;
  /** Computes the result; sees and records no history. */
  forward(this: void, inputs: readonly Tensor[], attrs: A): Tensor;
}

/** The attributes of operations along one dimension. */
export interface Along {
  readonly dim: number;
}

/** The name of an operation, from which PyTorch's follows: 'layerNorm' is layer_norm there. Both, where it does not. */
type Names = string | readonly [name: string, torch: string];

function bothOf(names: Names): readonly [name: string, torch: string] {
  if (typeof names !== 'string') return names;
  return [names, names.replace(/(?<=[a-z0-9])[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];
}

/** Defines an operation. */
export function defineOp<A = undefined>(
  names: Names,
  takes: Takes,
  forward: (inputs: Operands, attrs: A) => Tensor,
): Op<A> {
  const [name, torch] = bothOf(names);
  const gradName = `${torch.replace(/(?:^|_+)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())}Backward0`;
  return { name, gradName, torch: `aten::${torch}`, takes, forward };
}

/**
 * Defines a function that is made of operations, or of none that has a derivative: it takes the same dtypes whatever it is made of.
 * `takes` sees the tensors among its arguments, in their order; those in options the function looks at itself.
 */
export function defineFunction<F extends (...args: never[]) => unknown>(names: Names, takes: Takes, fn: F): F & Named {
  const [name, torch] = bothOf(names);
  const checked = (...args: unknown[]): unknown => {
    const operands: Tensor[] = [];
    for (let i = 0; i < args.length; i++) {
      const arg = args[i];
      if (arg instanceof Tensor) operands.push(arg as Tensor);
      else if (arg instanceof Promise) throw new TypeError(`${name}() takes no promise as argument ${i + 1}: await it`);
    }
    check(name, takes, operands);
    try {
      return fn(...(args as never[]));
    } catch (error) {
      throw inNameOf(`${name}()`, error);
    }
  };
  return named(`aten::${torch}`, checked as unknown as F);
}
