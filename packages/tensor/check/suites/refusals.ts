/** @file Programs of the other suites with one thing that may not fit: who refuses it, and what is made of it otherwise. */
import type { Random } from '@backwire/testing';
import { bytesOf } from '../draw/elements.ts';
import { DTYPES, elements, isDifferentiable } from '../dtypes.ts';
import { isInput, isRef, type Arg, type Input, type Line, type Statement } from '../program.ts';
import { layerSuite } from './layers.ts';
import { moduleSuite } from './modules.ts';
import { operationSuite } from './operations.ts';
import { portedSuite } from './ported.ts';
import type { Suite } from './suite.ts';

/** One dimension more or less, one size another, a dtype another. */
function spoilInput(random: Random, input: Input): Input {
  const { shape } = input;
  const at = random.int(0, shape.length + 1);
  const sized = (n: number): Input => resized(input, shape.with(at, n));
  const n = shape[at];
  const change = random.weighted({ more: 3, less: 3, size: 4, none: 1, one: 2, dtype: 2 });
  if (change === 'dtype') return retyped(input, random.pick(DTYPES));
  if (change === 'more' || n === undefined) return resized(input, shape.toSpliced(at, 0, random.pick([1, 1, 2])));
  if (change === 'less') return resized(input, shape.toSpliced(at, 1));
  if (change === 'size') return sized(Math.abs(n + random.pick([1, 1, -1])) || 2);
  return sized(change === 'none' ? 0 : 1);
}

/** The elements again and again, as many as the new shape holds. */
function resized(input: Input, shape: readonly number[]): Input {
  const count = (dims: readonly number[]): number => dims.reduce((a, b) => a * b, 1);
  const { data } = input;
  if (data === undefined) return { ...input, shape };
  const width = data.length / Math.max(1, count(input.shape));
  const bytes = new Uint8Array(count(shape) * (width || 8));
  if (data.length > 0) bytes.forEach((_, i) => (bytes[i] = data[i % data.length] as number));
  return { ...input, shape, data: bytes };
}

function retyped(input: Input, dtype: Input['dtype']): Input {
  const requiresGrad = input.requiresGrad && isDifferentiable(dtype);
  if (input.data === undefined) return { ...input, dtype, requiresGrad };
  const count = input.shape.reduce((a, b) => a * b, 1);
  const old = elements(input.data, input.dtype);
  const lanes = dtype === 'complex64' ? 2 : 1;
  const step = input.dtype === 'complex64' ? 2 : 1;
  const values = Float64Array.from({ length: count * lanes }, (_, i) => Number(old[Math.floor(i / lanes) * step]));
  return { ...input, dtype, requiresGrad, data: bytesOf(values, lanes === 2 ? 'float32' : dtype) };
}

/** A number out of its range, a list with one item more or less, an option that is left out. */
function spoilArg(random: Random, arg: Arg): Arg {
  if (typeof arg === 'number') {
    const near = [0, -1, 1, arg + 1, arg - 1, 0 - arg, 2, 3, 0.5, 1.5, -0.5];
    return random.pick(Number.isInteger(arg) ? near.slice(0, 9) : near);
  }
  if (typeof arg !== 'object' || isRef(arg)) return arg;
  if ('dtype' in arg) return { dtype: random.pick(DTYPES) };
  if ('options' in arg) {
    const names = Object.keys(arg.options);
    if (names.length === 0) return arg;
    const name = random.pick(names);
    return { options: { ...arg.options, [name]: spoilArg(random, arg.options[name]) } };
  }
  const at = random.int(0, arg.length + 1);
  const item = arg[at];
  if (item === undefined) return [...arg, arg.at(-1) ?? 1];
  return random.chance(0.4) ? arg.toSpliced(at, 1) : arg.with(at, spoilArg(random, item));
}

/** The arguments that can be spoilt: both libraries are given them; not what the check itself counts with, which parameter, which filling. */
function placesOf({ op, ts, py, args }: Statement): number[] {
  if (op === 'grad') return [];
  const filling = /filled\(.*\), \$(\d)\)/.exec(ts)?.[1];
  return args.flatMap((arg, i) => {
    const plain = typeof arg === 'number' || (typeof arg === 'object' && !isRef(arg));
    return plain && String(i) !== filling && ts.includes(`$${i}`) && py.includes(`$${i}`) ? [i] : [];
  });
}

function spoilStatement(random: Random, line: Statement): Statement {
  const places = placesOf(line);
  if (places.length === 0) return line;
  const at = random.pick(places);
  return { ...line, args: line.args.map((arg, i) => (i === at ? spoilArg(random, arg) : arg)) };
}

/** One of the lines, an input more often than not. */
function spoil(random: Random, lines: readonly Line[]): Line[] {
  const inputs = lines.flatMap((line, i) => (isInput(line) ? [i] : []));
  const statements = lines.flatMap((line, i) => (!isInput(line) && placesOf(line).length > 0 ? [i] : []));
  const among = inputs.length > 0 && (statements.length === 0 || random.chance(0.65)) ? inputs : statements;
  if (among.length === 0) return [...lines];
  const at = random.pick(among);
  return lines.map((line, i) =>
    i !== at ? line : isInput(line) ? spoilInput(random, line) : spoilStatement(random, line),
  );
}

export const refusalSuite: Suite = {
  name: 'refusals',
  perSeed: 1500,
  draw(random, seed) {
    const of = random.weighted({ ported: 5, operations: 3, layers: 2, modules: 1 });
    const suite = { ported: portedSuite, operations: operationSuite, layers: layerSuite, modules: moduleSuite }[of];
    const { lines } = suite.draw(random.split('program'), seed);
    return { suite: 'refusals', seed, lines: spoil(random, lines) };
  },
};
