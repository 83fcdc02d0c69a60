/** @file Kinds of arguments: read from the text that is generated from types, and what a value is among them. */
import { Tensor } from './tensor.ts';

/** What does not fit: where it is inside of an argument, and what it should be. */
interface Misfit {
  readonly path: string;
  readonly words: string;
  readonly value: unknown;
}

/** Some values: which they are, and what they are called. */
interface Kind {
  readonly words: string;
  /** Of what is told by `typeof` and `instanceof` alone: all calls are checked, the smallest operations take a tenth of a microsecond. */
  readonly bits: number;
  fits(this: void, value: unknown): boolean;
  /** The part that does not fit of a value that would otherwise. */
  inside?(this: void, value: unknown): Misfit | undefined;
}

export interface Parameter {
  readonly name: string;
  readonly kind: Kind;
}

/** One way of calling; `rest` is the kind of all further arguments. */
export interface Way {
  readonly parameters: readonly Parameter[];
  readonly rest: Parameter | undefined;
}

export function misfitOf(kind: Kind, value: unknown): Misfit {
  return kind.inside?.(value) ?? { path: '', words: kind.words, value };
}

function within(path: string, kind: Kind, value: unknown): Misfit {
  const inner = misfitOf(kind, value);
  return { ...inner, path: `${path}${inner.path}` };
}

export const BIT = { tensor: 1, number: 2, boolean: 4, undefined: 8, other: 16 } as const;
/** Those of all values. */
export const ANY = 31;

export function bitOf(value: unknown): number {
  switch (typeof value) {
    case 'object':
      return value instanceof Tensor ? BIT.tensor : BIT.other;
    case 'number':
      return BIT.number;
    case 'undefined':
      return BIT.undefined;
    case 'boolean':
      return BIT.boolean;
    default:
      return BIT.other;
  }
}

function simple(words: string, fits: (value: unknown) => boolean, bits = 0): Kind {
  return { words, fits, bits };
}

/** The kinds that have names. */
const KINDS: Readonly<Record<string, Kind>> = {
  any: simple('anything', () => true, ANY),
  tensor: simple('a Tensor', (value) => value instanceof Tensor, BIT.tensor),
  number: simple('a number', (value) => typeof value === 'number', BIT.number),
  boolean: simple('true or false', (value) => typeof value === 'boolean', BIT.boolean),
  bigint: simple('a bigint', (value) => typeof value === 'bigint'),
  text: simple('a text', (value) => typeof value === 'string'),
  function: simple('a function', (value) => typeof value === 'function'),
  null: simple('null', (value) => value === null),
  undefined: simple('undefined', (value) => value === undefined, BIT.undefined),
  // Of texts the function says itself which dtype was probably meant.
  dtype: simple("a dtype, such as 'float32'", (value) => typeof value === 'string'),
};

function either(kinds: readonly Kind[]): Kind {
  const [first, second, ...more] = kinds as [Kind, Kind, ...Kind[]];
  const named = kinds.filter(({ words }) => words !== 'undefined').map(({ words }) => words);
  return {
    words: named.join(' or '),
    bits: kinds.reduce((bits, one) => bits | one.bits, 0),
    fits: (value) => first.fits(value) || second.fits(value) || more.some((one) => one.fits(value)),
    inside: (value) => kinds.map((one) => one.inside?.(value)).find((found) => found !== undefined),
  };
}

function list(of: Kind): Kind {
  const plural = PLURALS[of.words];
  return {
    words: plural === undefined ? 'a list' : `a list of ${plural}`,
    bits: 0,
    fits: (value) => {
      if (!Array.isArray(value)) return false;
      // Not `every`, which leaves out what an array has no element for.
      for (let i = 0; i < value.length; i++) if (!of.fits(value[i])) return false;
      return true;
    },
    inside: (value) => {
      if (!Array.isArray(value)) return undefined;
      const at = Array.from(value as unknown[]).findIndex((one) => !of.fits(one));
      return at === -1 ? undefined : within(`[${at}]`, of, value[at]);
    },
  };
}

const PLURALS: Readonly<Record<string, string>> = { 'a number': 'numbers', 'a Tensor': 'Tensors', 'a text': 'texts' };

function options(fields: readonly Parameter[]): Kind {
  // What only needs a length may be a list.
  const sized = fields.some(({ name }) => name === 'length');
  const isObject = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null && !(Array.isArray(value) && !sized) && !(value instanceof Tensor);
  const wrong = (value: Record<string, unknown>): Parameter | undefined => {
    for (const field of fields) if (!field.kind.fits(value[field.name])) return field;
    return undefined;
  };
  return {
    words: `an object with ${fields.map(({ name }) => name).join(', ')}`,
    bits: 0,
    fits: (value) => isObject(value) && wrong(value) === undefined,
    inside: (value) => {
      if (!isObject(value)) return undefined;
      const field = wrong(value);
      return field && within(`.${field.name}`, field.kind, value[field.name]);
    },
  };
}

/** Reads 'repeat(t:tensor,counts:number[])'; several ways of calling stand one behind the other. */
export function waysOf(text: string): Way[] {
  const reader = new Reader(text);
  reader.name();
  const ways: Way[] = [];
  while (reader.take('(')) ways.push(reader.way());
  return ways;
}

/** Reads kinds as TypeScript writes types. */
class Reader {
  private readonly text: string;
  private at = 0;

  constructor(text: string) {
    this.text = text;
  }

  take(token: string): boolean {
    if (!this.text.startsWith(token, this.at)) return false;
    this.at += token.length;
    return true;
  }

  name(): string {
    const start = this.at;
    while (/[\w.]/.test(this.text.charAt(this.at))) this.at++;
    return this.text.slice(start, this.at);
  }

  way(): Way {
    const parameters: Parameter[] = [];
    while (!this.take(')')) {
      this.take(',');
      if (!this.take('...')) parameters.push(this.parameter());
      else {
        const name = this.name();
        this.take(':');
        // Nothing is taken: what comes all the same is of no matter, as in any call.
        if (this.take('[]') && this.take(')')) return { parameters, rest: undefined };
        const rest = { name, kind: this.element() };
        this.take(')');
        return { parameters, rest };
      }
    }
    return { parameters, rest: undefined };
  }

  private parameter(): Parameter {
    const name = this.name();
    const optional = this.take('?');
    this.take(':');
    const kind = this.kind();
    return { name, kind: optional ? either([KINDS.undefined as Kind, kind]) : kind };
  }

  private kind(): Kind {
    const texts: string[] = [];
    const kinds: Kind[] = [];
    do {
      if (this.take("'")) texts.push(this.literal());
      else kinds.push(this.part());
    } while (this.take('|'));
    if (texts.length > 0) {
      const words = texts.map((one) => `'${one}'`).join(' or ');
      kinds.push(simple(words, (value) => typeof value === 'string' && texts.includes(value)));
    }
    return kinds.length === 1 ? (kinds[0] as Kind) : either(kinds);
  }

  private literal(): string {
    const end = this.text.indexOf("'", this.at);
    const literal = this.text.slice(this.at, end);
    this.at = end + 1;
    return literal;
  }

  private part(): Kind {
    let kind = this.element();
    while (this.take('[]')) kind = list(kind);
    return kind;
  }

  private known(): Kind {
    const name = this.name();
    const kind = KINDS[name];
    if (kind === undefined) throw new Error(`'${name}' is no kind: ${this.text}`);
    return kind;
  }

  private element(): Kind {
    if (this.take('(')) {
      const kind = this.kind();
      this.take(')');
      return kind;
    }
    if (!this.take('{')) return this.known();
    const fields: Parameter[] = [];
    while (!this.take('}')) {
      this.take(',');
      fields.push(this.parameter());
    }
    return options(fields);
  }
}
