/** @file The operations that peers may call by their torch name. */
import { isNamed, rpcName, type Named } from './named.ts';
import * as arithmetic from './ops/arithmetic.ts';
import * as activations from './ops/activations.ts';
import * as complex from './ops/complex-parts.ts';
import * as composite from './ops/composite.ts';
import * as conv from './ops/conv.ts';
import * as indexing from './ops/indexing.ts';
import * as join from './ops/join.ts';
import * as linalg from './ops/linalg.ts';
import * as losses from './ops/losses.ts';
import * as matrices from './ops/matmul.ts';
import * as mutation from './ops/mutation.ts';
import * as reduce from './ops/reduce.ts';
import * as select from './ops/select.ts';
import * as softmax from './ops/softmax.ts';
import * as structure from './ops/structure.ts';
import * as unary from './ops/unary.ts';

export type BuiltinOp = ((...args: never[]) => unknown) & Named;

const modules = [
  arithmetic,
  activations,
  complex,
  composite,
  conv,
  indexing,
  linalg,
  structure,
  join,
  losses,
  matrices,
  mutation,
  reduce,
  select,
  softmax,
  unary,
];

/** Every named operation, by name: 'aten::add' and so on. */
export const builtinOps: ReadonlyMap<string, BuiltinOp> = new Map(
  modules
    .flatMap((module) => Object.values<unknown>(module))
    .filter((value): value is BuiltinOp => typeof value === 'function' && isNamed(value))
    .map((op) => [op[rpcName], op]),
);
