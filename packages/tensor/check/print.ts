/** @file A program as text that can be pasted: in TypeScript for this package, in Python for PyTorch. */
import { isTensor, type Outcome } from './outcome.ts';
import { elements } from './dtypes.ts';
import { isInput, snake, type Arg, type Input, type Line, type Program, type Statement } from './program.ts';

/** One language's way to write values. */
interface Language {
  readonly list: (items: readonly string[]) => string;
  readonly number: (value: number) => string;
  readonly truth: (value: boolean) => string;
  readonly nothing: string;
  readonly dtype: (name: string) => string;
  readonly option: (name: string, value: string) => string;
  readonly options: (items: readonly string[]) => string;
}

const special = (value: number, nan: string, infinity: string): string => {
  if (Number.isNaN(value)) return nan;
  if (!Number.isFinite(value)) return value > 0 ? infinity : `-${infinity}`;
  return Object.is(value, -0) ? '-0' : String(value);
};

const typescript: Language = {
  list: (items) => `[${items.join(', ')}]`,
  number: (value) => special(value, 'NaN', 'Infinity'),
  truth: String,
  nothing: 'undefined',
  dtype: (name) => `'${name}'`,
  option: (name, value) => `${name}: ${value}`,
  options: (items) => (items.length === 0 ? '{}' : `{ ${items.join(', ')} }`),
};

const python: Language = {
  list: (items) => `[${items.join(', ')}]`,
  number: (value) => (Object.is(value, -0) ? '-0.0' : special(value, 'nan', 'inf')),
  truth: (value) => (value ? 'True' : 'False'),
  nothing: 'None',
  dtype: (name) => `torch.${name}`,
  option: (name, value) => `${snake(name)}=${value}`,
  options: (items) => items.join(', '),
};

function nameOf(line: number): string {
  return line < 26 ? String.fromCharCode(97 + line) : `v${line}`;
}

function argument(arg: Arg, language: Language): string {
  if (arg === undefined) return language.nothing;
  if (typeof arg === 'number') return language.number(arg);
  if (typeof arg === 'boolean') return language.truth(arg);
  if (typeof arg === 'string') return `'${arg}'`;
  if ('ref' in arg) return nameOf(arg.ref);
  if ('dtype' in arg) return language.dtype(arg.dtype);
  if ('options' in arg) {
    return language.options(
      Object.entries(arg.options).map(([name, one]) => language.option(name, argument(one, language))),
    );
  }
  return language.list(arg.map((one) => argument(one, language)));
}

function call(text: string, args: readonly Arg[], language: Language): string {
  return text.replace(/\*\*\$(\d)|\$(\d)/g, (_, spread: string | undefined, plain: string) =>
    argument(args[Number(spread ?? plain)], language),
  );
}

function nested(items: readonly string[], shape: readonly number[], language: Language): string {
  if (shape.length === 0) return items[0] ?? '';
  const [n = 0, ...rest] = shape;
  const step = rest.reduce((a, b) => a * b, 1);
  return language.list(
    Array.from({ length: n }, (_, i) => nested(items.slice(i * step, (i + 1) * step), rest, language)),
  );
}

function scalars({ dtype, data }: Input, language: Language): string[] {
  const values = elements(data as Uint8Array, dtype);
  const one = (i: number): string => {
    const v = values[i] as number | bigint;
    if (dtype === 'bool') return language.truth(Number(v) !== 0);
    if (typeof v === 'bigint' && !Number.isSafeInteger(Number(v))) return language === typescript ? `${v}n` : String(v);
    return language.number(Number(v));
  };
  return Array.from({ length: values.length }, (_, i) => one(i));
}

function inputIn(line: Input, language: Language): string {
  const { dtype, shape, data, pattern, requiresGrad } = line;
  const ours = language === typescript;
  const wants = requiresGrad ? (ours ? ['requiresGrad: true'] : ['requires_grad=True']) : [];
  if (data === undefined) {
    const sizes = language.list(shape.map(String));
    return ours
      ? `makeInput({ dtype: '${dtype}', shape: ${sizes}, data: undefined, pattern: ${pattern}, requiresGrad: ${requiresGrad} })`
      : `pattern(${shape.join(' * ') || '1'}, ${pattern}, torch.${dtype}).reshape(${sizes})${requiresGrad ? '.requires_grad_()' : ''}`;
  }
  const items = scalars(line, language);
  if (dtype === 'complex64') return complexIn(items, shape, wants, language);
  const flat = shape.includes(0);
  const values = flat ? language.list([]) : nested(items, shape, language);
  const reshaped = flat ? [...(ours ? [`shape: ${language.list(shape.map(String))}`] : [])] : [];
  if (ours) {
    const options = [...(dtype === 'float32' ? [] : [`dtype: '${dtype}'`]), ...reshaped, ...wants];
    return `bw.tensor(${values}${options.length === 0 ? '' : `, { ${options.join(', ')} }`})`;
  }
  // Only of float32 all values have a short name that gives them back.
  const made = flat ? `torch.empty(${language.list(shape.map(String))}` : `torch.tensor(${values}`;
  return `${[made, `dtype=torch.${dtype}`, ...wants].join(', ')})`;
}

function complexIn(
  items: readonly string[],
  shape: readonly number[],
  wants: readonly string[],
  language: Language,
): string {
  const part = (lane: number): string =>
    nested(
      items.filter((_, i) => i % 2 === lane),
      shape,
      language,
    );
  if (language === typescript) {
    const made = shape.includes(0)
      ? `bw.zeros([${shape.join(', ')}], { dtype: 'complex64' })`
      : `bw.complex(bw.tensor(${part(0)}), bw.tensor(${part(1)}))`;
    return wants.length === 0 ? made : `Object.assign(${made}, { requiresGrad: true })`;
  }
  if (shape.includes(0))
    return `torch.empty([${shape.join(', ')}], dtype=torch.complex64${wants.map((w) => `, ${w}`).join('')})`;
  return `torch.complex(torch.tensor(${part(0)}, dtype=torch.float32), torch.tensor(${part(1)}, dtype=torch.float32))${wants.length === 0 ? '' : '.requires_grad_()'}`;
}

/** `b.backward(…)` with its weights in full where they are few. */
function backwardOf({ args }: Statement, outcome: Outcome, language: Language): string | undefined {
  const [of] = args;
  if (typeof of !== 'object' || !('ref' in of) || args.length > 1) return undefined;
  const seen = outcome.seen[String(of.ref)];
  if (!isTensor(seen) || !seen.requiresGrad || seen.sparse || seen.dtype === 'complex64') return undefined;
  const size = seen.shape.reduce((a, b) => a * b, 1);
  if (size > 6 || size === 0) return undefined;
  const items = Array.from({ length: size }, (_, i) => String(((i * 37) % 16) / 8 - 0.9375));
  const values = nested(items, seen.shape, language);
  if (language === python) return `${nameOf(of.ref)}.backward(torch.tensor(${values}, dtype=torch.${seen.dtype}))`;
  return `${nameOf(of.ref)}.backward(bw.tensor(${values}${seen.dtype === 'float32' ? '' : `, { dtype: '${seen.dtype}' }`}))`;
}

function lineIn(line: Line, at: number, outcome: Outcome, language: Language): string {
  const ours = language === typescript;
  const assign = ours ? `const ${nameOf(at)} = ` : `${nameOf(at)} = `;
  if (isInput(line)) return `${assign}${inputIn(line, language)}`;
  if (line.op === 'backward')
    return backwardOf(line, outcome, language) ?? call(ours ? line.ts : line.py, line.args, language);
  const text = call((ours ? line.ts : line.py).replace(/^!/, ''), line.args, language);
  return line.py.startsWith('!') ? text : assign + text;
}

function inLanguage({ lines }: Program, outcome: Outcome, language: Language): string[] {
  return lines.map((line, at) => lineIn(line, at, outcome, language) + (language === typescript ? ';' : ''));
}

/** Both texts. `torchs` is PyTorch's outcome, which knows the shapes of results. */
export function printProgram(program: Program, torchs: Outcome): { readonly ts: string; readonly py: string } {
  return {
    ts: inLanguage(program, torchs, typescript).join('\n'),
    py: inLanguage(program, torchs, python).join('\n'),
  };
}

/** What a path of an outcome is in the printed program. */
export function printPath(path: string): string {
  const [line = '0', ...rest] = path.split('.');
  return [nameOf(Number(line)), ...rest].join('.');
}
