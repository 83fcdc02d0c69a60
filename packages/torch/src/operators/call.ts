/** @file Runs an operator that a peer calls by schema. */
import { RpcError } from '@backwire/rpc';
import { Tensor } from '@backwire/tensor';
import { ambient } from '@backwire/tensor/internal';
import { quoted } from '../pickle/refusal.ts';
import { PyFloat } from '../values/numbers.ts';
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
  const given = args.map((arg, i) => plain(arg, parameters[i] as Parameter));
  const name = key.slice('aten::'.length);
  if (PROMOTING.has(name)) promote(given, args.slice(1), name.includes('_.'));
  const run = (): unknown => {
    const result = rule.run(MAKING.has(name) ? args.map(orUndefined) : given);
    return LOGICAL.has(name) && args.slice(0, 2).every(isLogical) ? (result as Tensor).to('bool') : result;
  };
  const { profile } = ambient();
  return wantsOperators(profile) ? profile.operator(key.split('.', 1)[0] as string, given, run) : run();
}

function orUndefined(arg: unknown): unknown {
  return arg === null ? undefined : arg;
}

/** Numbers of Python, bools among them, are numbers. */
function plain(arg: unknown, { type }: Parameter): unknown {
  if (arg instanceof PyFloat) return arg.value;
  if (type === 'Scalar' && typeof arg === 'boolean') return Number(arg);
  if ((type === 'Scalar' || type === 'int') && typeof arg === 'bigint' && Number.isSafeInteger(Number(arg)))
    return Number(arg);
  return orUndefined(arg);
}

/** Which compute with floats where a number among the arguments is one. */
const PROMOTING: ReadonlySet<string> = new Set([
  ...['add', 'sub', 'rsub', 'mul', 'div', 'floor_divide', 'remainder', 'add_', 'mul_'].map((each) => `${each}.Scalar`),
  ...['eq', 'ne', 'lt', 'le', 'gt', 'ge'].map((each) => `${each}.Scalar`),
  'pow.Tensor_Scalar',
  'clamp',
]);
/** Whose dtype is that of a number: they tell a float from an int themselves. */
const MAKING: ReadonlySet<string> = new Set(['full', 'arange']);
const WHOLE: ReadonlySet<unknown> = new Set(['uint8', 'int8', 'int16', 'int32', 'int64', 'bool']);

/** Of which the result of bools is one. */
const LOGICAL: ReadonlySet<string> = new Set(['add.Scalar', 'mul.Scalar', 'pow.Tensor_Scalar']);

/**
 * Makes a tensor of whole numbers that meets a float one of the floats with which torch computes: of 2.0 nothing but its type tells that it
 * is one.
 */
function promote(given: unknown[], scalars: readonly unknown[], inPlace: boolean): void {
  const [self] = given;
  if (!(self instanceof Tensor) || !WHOLE.has(self.dtype) || !scalars.some(isFloat)) return;
  if (inPlace) throw new TypeError(`result type float32 can't be cast to the desired output type ${self.dtype}`);
  given[0] = self.to('float32');
}

function isLogical(value: unknown): boolean {
  return typeof value === 'boolean' || (value instanceof Tensor && value.dtype === 'bool');
}

function isFloat(scalar: unknown): boolean {
  return scalar instanceof PyFloat || (typeof scalar === 'number' && !Number.isInteger(scalar));
}

function wantsOperators(profile: object | undefined): profile is OperatorProfile {
  return profile !== undefined && 'operator' in profile;
}

/** torch spells element types, layouts and memory formats as numbers. */
function isNumberOf(arg: unknown, { type }: Parameter): boolean {
  return type === 'ScalarType' && typeof arg === 'number';
}
