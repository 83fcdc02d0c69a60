/** @file Which overload of an operator a call from here means, and its arguments with all defaults spelt out. */
import { RpcError } from '@backwire/rpc';
import { fitted } from './types.ts';
import { SCHEMAS } from './schemas.ts';
import { parseSchema, type Parameter, type Schema } from './schema.ts';

let schemas: ReadonlyMap<string, readonly Schema[]> | undefined;

function overloads(name: string): readonly Schema[] {
  schemas ??= grouped(SCHEMAS.map(parseSchema));
  return schemas.get(name) ?? [];
}

function grouped(all: readonly Schema[]): ReadonlyMap<string, readonly Schema[]> {
  const byName = new Map<string, Schema[]>();
  for (const schema of all) {
    const known = byName.get(schema.name);
    if (known === undefined) byName.set(schema.name, [schema]);
    else known.push(schema);
  }
  return byName;
}

/**
 * The overload of `name` that takes the arguments: the first in torch's own order. A plain object at the end stands for arguments by name,
 * as in the operations of tensors here.
 * @throws RpcError 'not-found' for an operator that is not in the table, TypeError when no overload takes the arguments.
 */
export function overloadFor(
  name: string,
  args: readonly unknown[],
  kwargs: ReadonlyMap<string, unknown>,
): { readonly schema: string; readonly values: readonly unknown[] } {
  const found = overloads(name);
  if (found.length === 0)
    throw new RpcError('not-found', `the operator '${name}' has no schema here, so that torch cannot be asked for it`);
  const [positional, named] = apart(args, kwargs);
  for (const { text, parameters } of found) {
    const values = bound(parameters, positional, named);
    if (values !== undefined) return { schema: text, values };
  }
  throw new TypeError(
    `no overload of '${name}' takes these arguments; there are: ${found.map(({ text }) => text).join('; ')}`,
  );
}

function apart(
  args: readonly unknown[],
  kwargs: ReadonlyMap<string, unknown>,
): readonly [readonly unknown[], ReadonlyMap<string, unknown>] {
  const last = args.at(-1);
  const named = new Map([...kwargs].map(([key, value]) => [plainName(key), value]));
  if (typeof last !== 'object' || last === null || Object.getPrototypeOf(last) !== Object.prototype)
    return [args, named];
  for (const [key, value] of Object.entries(last)) named.set(plainName(key), value);
  return [args.slice(0, -1), named];
}

/** 'keepDim' and 'keepdim' are the same. */
function plainName(name: string): string {
  return name.replace(/_/g, '').toLowerCase();
}

function bound(
  parameters: readonly Parameter[],
  positional: readonly unknown[],
  named: ReadonlyMap<string, unknown>,
): unknown[] | undefined {
  const open = parameters.filter(({ keywordOnly }) => !keywordOnly);
  if (positional.length > open.length) return undefined;
  const known = new Set(parameters.map(({ name }) => plainName(name)));
  for (const key of named.keys()) if (!known.has(key)) return undefined;
  const values: unknown[] = [];
  for (const [i, parameter] of parameters.entries()) {
    const key = plainName(parameter.name);
    const given = i < positional.length ? positional[i] : named.get(key);
    const missing = i >= positional.length && !named.has(key);
    const value = missing || given === undefined ? defaultOf(parameter) : fitted(given, parameter);
    if (value === undefined) return undefined;
    values.push(value.value);
  }
  return values;
}

function defaultOf(parameter: Parameter): { readonly value: unknown } | undefined {
  const { fallback } = parameter;
  if (fallback === undefined) return undefined;
  return fallback.value === null ? fallback : fitted(fallback.value, parameter);
}
