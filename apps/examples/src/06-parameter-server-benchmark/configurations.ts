/** @file The configuration files, in the original's format: a class and its arguments by name. */
import { readFileSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { OptionError } from '../shared/flags.ts';
import type { Options } from './options.ts';

export interface DataConfiguration {
  readonly max_val: number;
  readonly sample_count: number;
  readonly sample_length: number;
  readonly sparsity_percentage: number;
}

export interface ModelConfiguration {
  readonly num_embeddings: number;
  readonly embedding_dim: number;
  readonly dense_input_size: number;
  readonly dense_output_size: number;
  readonly dense_layers_count: number;
  readonly sparse: boolean;
}

const DATA_KEYS = ['max_val', 'sample_count', 'sample_length', 'sparsity_percentage'] as const;
const MODEL_KEYS = [
  'num_embeddings',
  'embedding_dim',
  'dense_input_size',
  'dense_output_size',
  'dense_layers_count',
] as const;

/** @throws OptionError naming the file, and the name or key that is missing or wrong in it. */
export function dataConfiguration(options: Options): DataConfiguration {
  const given = entry('data-config-path', options['data-config-path'], options.data, 'data_class', 'DummyData');
  const { max_val, sample_count, sample_length, sparsity_percentage } = numbers('data-config-path', given, DATA_KEYS);
  if (sparsity_percentage > 99)
    throw new OptionError(`--data-config-path: sparsity_percentage is at most 99, got ${sparsity_percentage}`);
  return { max_val, sample_count, sample_length, sparsity_percentage };
}

/** @throws OptionError, likewise. */
export function modelConfiguration(options: Options): ModelConfiguration {
  const given = entry('model-config-path', options['model-config-path'], options.model, 'model_class', 'DummyModel');
  return { ...numbers('model-config-path', given, MODEL_KEYS), sparse: given['sparse'] === true };
}

/** The servers and trainers have no arguments of their own, but their names have to be there. @throws OptionError */
export function checkClasses(options: Options): void {
  for (const [flag, name] of [
    ['server-config-path', options.server],
    ['trainer-config-path', options.trainer],
  ] as const) {
    read(flag, options[flag], name);
  }
}

/** The data has to fit the model. @throws OptionError */
export function checkSizes(data: DataConfiguration, model: ModelConfiguration): void {
  const { num_embeddings, embedding_dim, dense_input_size, dense_output_size, dense_layers_count } = model;
  const fits: readonly (readonly [boolean, string])[] = [
    [num_embeddings >= data.max_val, `num_embeddings ${num_embeddings} is less than max_val ${data.max_val}`],
    [dense_output_size >= data.max_val, `dense_output_size ${dense_output_size} is less than max_val ${data.max_val}`],
    [embedding_dim === dense_input_size, `dense_input_size ${dense_input_size} is not embedding_dim ${embedding_dim}`],
    [
      dense_layers_count < 2 || dense_input_size === dense_output_size,
      `several dense layers need dense_input_size and dense_output_size to be the same`,
    ],
  ];
  for (const [holds, message] of fits) if (!holds) throw new OptionError(`--model and --data do not fit: ${message}`);
}

type Entry = Readonly<Record<string, unknown>>;

function entry(flag: string, path: string, name: string, classKey: string, known: string): Entry {
  const found = read(flag, path, name);
  if (found[classKey] !== known)
    throw new OptionError(`--${flag}: '${name}' has ${classKey} '${String(found[classKey])}', only ${known} is known`);
  return (found['configurations'] ?? {}) as Entry;
}

function read(flag: string, path: string, name: string): Entry {
  const file = isAbsolute(path) ? path : join(import.meta.dirname, path);
  let all: unknown;
  try {
    all = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new OptionError(`--${flag} ${path}: ${(error as Error).message}`, { cause: error });
  }
  const found = typeof all === 'object' && all !== null && Object.hasOwn(all, name) ? (all as Entry)[name] : undefined;
  if (typeof found !== 'object' || found === null)
    throw new OptionError(`--${flag} ${path}: there is no '${name}' in it`);
  return found as Entry;
}

function numbers<K extends string>(flag: string, given: Entry, keys: readonly K[]): Record<K, number> {
  for (const key of keys) {
    const value = given[key];
    if (!Number.isSafeInteger(value) || (value as number) < 0)
      throw new OptionError(`--${flag}: ${key} has to be a whole number, got ${JSON.stringify(value)}`);
  }
  return given as Record<K, number>;
}
