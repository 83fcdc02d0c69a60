/** @file A schema of torch's, read: 'aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor'. */

export interface Parameter {
  readonly name: string;
  /** Without what it may alias: 'Tensor', 'int[]', 'Scalar'. */
  readonly type: string;
  readonly optional: boolean;
  /** Only to be given by name. */
  readonly keywordOnly: boolean;
  /** undefined: there is none. */
  readonly fallback: { readonly value: unknown } | undefined;
}

export interface Schema {
  readonly text: string;
  /** 'aten::add' */
  readonly name: string;
  /** 'aten::add.Tensor' */
  readonly key: string;
  readonly parameters: readonly Parameter[];
}

/** What stands before the arguments. */
export function keyOf(text: string): string {
  const end = text.indexOf('(');
  return end < 0 ? text : text.slice(0, end);
}

/** Reads a schema of the table. */
export function parseSchema(text: string): Schema {
  const key = keyOf(text);
  const inner = text.slice(key.length + 1, closing(text, key.length));
  const parameters: Parameter[] = [];
  let keywordOnly = false;
  for (const part of inner === '' ? [] : split(inner)) {
    if (part === '*') keywordOnly = true;
    else parameters.push(parameterOf(part, keywordOnly));
  }
  return { text, key, name: key.replace(/\..*$/, ''), parameters };
}

function closing(text: string, open: number): number {
  let depth = 0;
  for (let i = open; i < text.length; i++) {
    if (text[i] === '(') depth++;
    if (text[i] === ')' && --depth === 0) return i;
  }
  throw new Error(`invariant: a schema without an end: ${text}`);
}

function split(inner: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let i = 0; i < inner.length; i++) {
    const at = inner[i] as string;
    if ('([{'.includes(at)) depth++;
    else if (')]}'.includes(at)) depth--;
    else if (at === ',' && depth === 0) {
      parts.push(inner.slice(start, i).trim());
      start = i + 1;
    }
  }
  parts.push(inner.slice(start).trim());
  return parts;
}

function parameterOf(part: string, keywordOnly: boolean): Parameter {
  const match = /^(.+?) (\w+)(?:=(.*))?$/.exec(part.replace(/\([a-z]!?(?: -> \*)?\)/g, ''));
  if (match === null) throw new Error(`invariant: a parameter that cannot be read: ${part}`);
  const [, written = '', name = '', fallback] = match;
  const type = written
    .replace(/\?$/, '')
    .replace(/^SymInt/, 'int')
    .replace(/\[\d+\]/, (sized) => (fallback === undefined ? '[]' : sized));
  const length = Number(/\[(\d+)\]/.exec(type)?.[1] ?? 0);
  return {
    name,
    type: type.replace(/\[\d+\]/, '[]'),
    optional: written.endsWith('?'),
    keywordOnly,
    fallback: fallback === undefined ? undefined : { value: valueOf(fallback, length) },
  };
}

function valueOf(text: string, length: number): unknown {
  if (text === 'None') return null;
  if (text === 'True' || text === 'False') return text === 'True';
  if (text.startsWith('"')) return text.slice(1, -1);
  if (text.startsWith('[')) return text === '[]' ? [] : text.slice(1, -1).split(',').map(Number);
  const number = Number(text);
  return length > 0 ? Array.from({ length }, () => number) : number;
}
