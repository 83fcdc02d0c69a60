/** @file Runs an operator that a peer calls by schema. */
import { RpcError } from '@backwire/rpc';
import { quoted } from '../pickle/refusal.ts';
import { rules } from './rules.ts';
import { keyOf, type Parameter } from './schema.ts';
import { fitted } from './types.ts';

/**
 * The result of an operator.
 * @throws RpcError 'not-found' for one that is not in the table; what the operator throws.
 */
export function callOperator(schema: string, args: readonly unknown[]): unknown {
  const key = keyOf(schema);
  const rule = rules.get(key);
  if (rule === undefined) {
    const text = `the operator ${quoted(key)} is not among those that this worker has by schema; call a function of it instead`;
    throw new RpcError('not-found', text);
  }
  const { parameters } = rule.schema;
  if (args.length !== parameters.length)
    throw new TypeError(`${quoted(key)} takes ${parameters.length} arguments and got ${args.length}`);
  args.forEach((arg, i) => {
    const parameter = parameters[i] as Parameter;
    if (fitted(arg, parameter) === undefined && !isNumberOf(arg, parameter))
      throw new TypeError(`argument '${parameter.name}' of ${quoted(key)} is no ${parameter.type}`);
  });
  return rule.run(args.map((arg) => (arg === null ? undefined : arg)));
}

/** torch spells element types, layouts and memory formats as numbers. */
function isNumberOf(arg: unknown, { type }: Parameter): boolean {
  return type === 'ScalarType' && typeof arg === 'number';
}
