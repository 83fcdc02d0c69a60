/** @file Short ways to write the rows of what models are ported with. */
import type { Draw } from '../../draw/draw.ts';
import type { Operation } from '../../draw/operation.ts';
import { snake, type Arg, type Ref } from '../../program.ts';

type Dtypes = Operation['dtypes'];

export function row(
  name: string,
  ts: string | readonly string[],
  py: string,
  rounding: Operation['rounding'],
  draw: Operation['draw'],
  dtypes?: Dtypes,
): Operation {
  const forms = (typeof ts === 'string' ? [ts] : ts).map((one) => ({ ts: one, py }));
  return { name, forms, rounding, draw, ...(dtypes === undefined ? {} : { dtypes }) };
}

/** `$0.name(...)` and `bw.name($0, ...)`, and `torch.name($0, ...)`. */
export function torchRow(
  name: string,
  takes: number,
  rounding: Operation['rounding'],
  draw: Operation['draw'],
  dtypes?: Dtypes,
  py = `torch.${snake(name)}`,
): Operation {
  const all = Array.from({ length: takes }, (_, i) => `$${i}`);
  const rest = all.slice(1).join(', ');
  return row(
    name,
    [`$0.${name}(${rest})`, `bw.${name}(${all.join(', ')})`],
    `${py}(${all.join(', ')})`,
    rounding,
    draw,
    dtypes,
  );
}

/** A tensor that may be changed in place. */
export function target(draw: Draw, shape: readonly number[]): Ref {
  return draw.call('clone', '$0.clone()', '$0.clone()', [draw.tensor(shape)], 'never');
}

/** Options with each of `table` now and then. */
export function some(
  draw: Draw,
  table: Readonly<Record<string, readonly Arg[]>>,
  chance = 0.5,
): { options: Record<string, Arg> } {
  const options: Record<string, Arg> = {};
  for (const [name, values] of Object.entries(table))
    if (draw.random.chance(chance)) options[name] = draw.random.pick(values);
  return { options };
}
