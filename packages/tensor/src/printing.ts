/** @file What a tensor is printed as: its elements as PyTorch lays them out (torch/_tensor_str.py), and the options that would make it. */
import { runWith } from './ambient.ts';
import { imag, real } from './ops/complex-parts.ts';
import { concat } from './ops/join.ts';
import { untracked } from './scope.ts';
import type { Shape } from './shape.ts';
import { Parameter, type Tensor } from './tensor.ts';

/** Digits behind the point. */
const PRECISION = 4;
/** A number with those digits, and the ones that are rounded away. */
const EXACT = new RegExp(`^(\\d+\\.\\d{${PRECISION}})(\\d*)(e.*)?$`);
/** Of more elements than this only those at the edges are shown, */
const MOST_ELEMENTS = 1000;
/** this many at each end of a dimension. */
const EDGE = 3;
const LINE_WIDTH = 80;
const INDENT = 'tensor('.length;

type Element = number | bigint | boolean;

/** How the elements of a tensor are written, so that they stand in columns. */
interface Format {
  readonly width: number;
  readonly of: (value: Element) => string;
}

/** The text of a tensor. Never throws: what has no elements to show, since it is disposed or far away, is named. */
export function textOf(t: Tensor): string {
  // Of the class, and not of a tensor.
  if (!Object.hasOwn(t, 'shape')) return Object.prototype.toString.call(t);
  if (t.disposed) return `Tensor(disposed, shape: [${t.shape.join(', ')}], dtype: '${t.dtype}')`;
  // Nothing of it is part of a graph or of a profile.
  const show = (): string => (t.sparse === undefined ? strided(t) : sparse(t));
  const text = untracked(() => runWith({ gradMode: false, profile: undefined }, show));
  return t instanceof Parameter ? `Parameter containing:\n${text}` : text;
}

function strided(t: Tensor): string {
  return call('tensor', elementsText(t), optionsOf(t));
}

function sparse(t: Tensor): string {
  const { indices, values } = t.sparse as NonNullable<Tensor['sparse']>;
  const shown = [indices, values].map((part) => strided(part).replaceAll('\n', '\n  '));
  return call('sparseCooTensor', `\n  ${shown.join(',\n  ')},\n  [${t.shape.join(', ')}]`, optionsOf(t, false));
}

function call(name: string, body: string, options: readonly string[]): string {
  if (options.length === 0) return `${name}(${body})`;
  const all = `{ ${options.join(', ')} }`;
  const line = `${name}(${body}`.split('\n').at(-1) as string;
  const fits = line.length + all.length + 3 <= LINE_WIDTH;
  return `${name}(${body},${fits ? ' ' : `\n${' '.repeat(INDENT)}`}${all})`;
}

/** What says more than the elements do. */
function optionsOf(t: Tensor, elements = true): string[] {
  const options: string[] = [];
  if (elements && t.size === 0 && t.rank > 1) options.push(`shape: [${t.shape.join(', ')}]`);
  if (elements && t.dtype !== 'float32' && t.dtype !== 'bool') options.push(`dtype: '${t.dtype}'`);
  if (t.device !== 'cpu') options.push(`device: '${t.device}'`);
  const { gradFn } = t;
  if (gradFn !== null) options.push(`gradFn: <${gradFn.name}>`);
  else if (t.requiresGrad) options.push('requiresGrad: true');
  return options;
}

function elementsText(t: Tensor): string {
  if (t.size === 0) return '[]';
  let edges = t.detach();
  try {
    if (t.size > MOST_ELEMENTS) edges = edgesOf(edges);
    const columns = elementsOf(edges).map((values) => ({ values, format: formatOf(values, isFloating(t)) }));
    // A comma and a space behind each; behind an imaginary part its letter.
    const width = columns.reduce((sum, { format }) => sum + format.width, columns.length + 1);
    const text = (at: number): string =>
      complexText(columns.map(({ values, format }) => format.of(values[at] as Element)));
    return new Layout(t.shape, edges.shape, width, text).all(0, 0, INDENT);
  } catch {
    // Of a device that can only be waited for.
    return `<${t.size} elements>`;
  } finally {
    edges.release();
  }
}

/** The elements as numbers; of complex ones first the real parts, then the imaginary ones. */
function elementsOf(t: Tensor): Element[][] {
  if (t.dtype !== 'complex64') return [flat(t)];
  const parts = [real(t), imag(t)];
  try {
    return parts.map(flat);
  } finally {
    for (const part of parts) part.release();
  }
}

function flat(t: Tensor): Element[] {
  return ([t.toArray()] as unknown[]).flat(Infinity) as Element[];
}

/** The first and the last few along every long dimension, in place of what is given, which is released. */
function edgesOf(whole: Tensor): Tensor {
  let edges = whole;
  for (const [dim, size] of whole.shape.entries()) {
    if (size <= 2 * EDGE) continue;
    const ends = [edges.narrow(dim, 0, EDGE), edges.narrow(dim, size - EDGE, EDGE)];
    const both = concat(ends, dim);
    for (const done of [edges, ...ends]) done.release();
    edges = both;
  }
  return edges;
}

const isFloating = ({ dtype }: Tensor): boolean => /float|complex/.test(dtype);

function complexText([real = '', imaginary]: readonly string[]): string {
  if (imaginary === undefined) return real;
  const part = imaginary.trimStart();
  return `${real}${/^[+-]/.test(part) ? '' : '+'}${part}j`;
}

function formatOf(values: readonly Element[], floating: boolean): Format {
  const plain: Format['of'] = floating ? floatFormat(values as number[]) : String;
  const counted = floating ? (values as number[]).filter((v) => v !== 0 && Number.isFinite(v)) : values;
  const width = counted.reduce<number>((most, value) => Math.max(most, plain(value).length), 1);
  return { width, of: (value) => plain(value).padStart(width) };
}

function floatFormat(values: readonly number[]): Format['of'] {
  const sizes = values.filter((v) => v !== 0 && Number.isFinite(v)).map(Math.abs);
  const [least, most] = sizes.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, 0]);
  const exponents = sizes.length > 0 && (most / least > 1000 || most > 1e8 || least < 1e-4);
  const whole = sizes.every(Number.isInteger);
  return (given) => {
    const value = given as number;
    if (!Number.isFinite(value)) return String(value);
    const sign = value < 0 || Object.is(value, -0) ? '-' : '';
    const size = Math.abs(value);
    if (exponents) return sign + evenly(size, 'toExponential').replace(/e([+-])(\d)$/, 'e$10$2');
    return sign + (whole ? `${size.toFixed(0)}.` : evenly(size, 'toFixed'));
  };
}

/** Rounded to PRECISION digits; halves to the even one, as C does, where JavaScript rounds them up. */
function evenly(size: number, how: 'toFixed' | 'toExponential'): string {
  const up = size[how](PRECISION);
  if (!/5(?:e|$)/.test(size[how](PRECISION + 1))) return up;
  const [, kept = '', rest = '', exponent = ''] = EXACT.exec(size[how](80)) ?? [];
  return /^50*$/.test(rest) && /[02468]$/.test(kept) ? kept + exponent : up;
}

/** Brackets, commas, lines. */
class Layout {
  private readonly shape: Shape;
  private readonly shown: Shape;
  /** Characters of an element and what is behind it. */
  private readonly width: number;
  private readonly text: (at: number) => string;

  constructor(shape: Shape, shown: Shape, width: number, text: (at: number) => string) {
    this.shape = shape;
    this.shown = shown;
    this.width = width;
    this.text = text;
  }

  /** All from dimension `dim` on, where element `at` is the first, behind `indent` characters. */
  all(dim: number, at: number, indent: number): string {
    const rank = this.shape.length;
    if (dim === rank) return this.text(at);
    const count = this.shown[dim] as number;
    const last = dim === rank - 1;
    const size = this.shown.slice(dim + 1).reduce((product, n) => product * n, 1);
    const parts = Array.from({ length: count }, (_, i) => this.all(dim + 1, at + i * size, indent + 1));
    if (count < (this.shape[dim] as number)) parts.splice(EDGE, 0, last ? ' ...' : '...');
    const margin = ' '.repeat(indent + 1);
    if (!last) return `[${parts.join(`,${'\n'.repeat(rank - dim - 1)}${margin}`)}]`;
    const perLine = Math.max(1, Math.floor((LINE_WIDTH - indent) / this.width));
    const lines: string[] = [];
    for (let i = 0; i < parts.length; i += perLine) lines.push(parts.slice(i, i + perLine).join(', '));
    return `[${lines.join(`,\n${margin}`)}]`;
  }
}
