/** @file A row of the tables of operations: how it is written in both libraries, and how its arguments are drawn. */
import type { DType } from '../../src/index.ts';
import type { Arg, Ref, Rounding } from '../program.ts';
import { snake } from '../program.ts';
import type { Draw } from './draw.ts';

/** One way to write a call. */
export interface Form {
  readonly ts: string;
  readonly py: string;
}

export interface Operation {
  /** Its name here; of rows that differ in their arguments, with a word on which. */
  readonly name: string;
  readonly forms: readonly Form[];
  readonly rounding: Rounding;
  readonly draw: (draw: Draw) => readonly Arg[];
  /** Dtypes that are drawn for it; the usual mixture where there are none. */
  readonly dtypes?: readonly DType[];
  /** How often it is drawn in comparison with others. @default 1 */
  readonly weight?: number;
}

/** `$0.name($1, $2)`, the arguments given in order. */
export function method(name: string, takes: number, py = snake(name)): Form {
  const rest = Array.from({ length: takes - 1 }, (_, i) => `$${i + 1}`).join(', ');
  return { ts: `$0.${name}(${rest})`, py: `$0.${py}(${rest})` };
}

/** `bw.name($0, $1)` and `torch.name($0, $1)`. */
export function fn(name: string, takes: number, py = `torch.${snake(name)}`): Form {
  const all = Array.from({ length: takes }, (_, i) => `$${i}`).join(', ');
  return { ts: `bw.${name}(${all})`, py: `${py}(${all})` };
}

/** Draws a call of `operation` and answers its result. */
export function drawCall(draw: Draw, operation: Operation): Ref {
  const args = operation.draw(draw);
  const form = draw.random.pick(operation.forms);
  return draw.call(operation.name, form.ts, form.py, args, operation.rounding);
}
