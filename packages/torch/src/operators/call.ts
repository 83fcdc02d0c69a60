/** @file Runs an operator that a peer calls by schema. */
import { RpcError } from '@backwire/rpc';
import { ambient } from '@backwire/tensor/internal';
import { quoted } from '../pickle/refusal.ts';
import { rules } from './rules.ts';
import { keyOf, type Parameter } from './schema.ts';
import { fitted } from './types.ts';

/** A profile that is told of operators with all their arguments: what runs here knows the tensors among them alone. */
export interface OperatorProfile {
  /** `run`, which runs the operator of that name ('aten::add') with these arguments. */
  operator<T>(name: string, args: readonly unknown[], run: () => T): T;
}

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
  const run = (): unknown => rule.run(args.map((arg) => (arg === null ? undefined : arg)));
  const { profile } = ambient();
  return wantsOperators(profile) ? profile.operator(key.split('.', 1)[0] as string, args, run) : run();
}

function wantsOperators(profile: object | undefined): profile is OperatorProfile {
  return profile !== undefined && 'operator' in profile;
}

/** torch spells element types, layouts and memory formats as numbers. */
function isNumberOf(arg: unknown, { type }: Parameter): boolean {
  return type === 'ScalarType' && typeof arg === 'number';
}
