/** @file Small programs and what PyTorch makes of them (golden/program.py): values, gradients, or the call that refuses. */
import { describe, expect, it } from 'vitest';
import * as bw from '../src/index.ts';
import { expectClose, load, number, unpack, words, type Packed } from '../golden/compare.ts';
import { nn, noGrad, runBackward, tensor, type Tensor } from '../src/index.ts';

type Step = [result: string, fn: string, ...args: unknown[]];

interface Program {
  name: string;
  given: Record<string, Packed>;
  /** Which of them require gradients. */
  leaves: string[];
  steps: Step[];
  /** A sum or product of many terms. */
  long?: boolean;
  /** What is read at the end; roots of the backward pass where they require gradients. */
  reads: string[];
  values?: Record<string, Packed>;
  grads?: Record<string, Packed | null>;
  /** The call that refuses, or the backward pass, and words that have to be said. */
  refused?: { step: number | 'backward'; says: string };
}

type Environment = Record<string, unknown>;
type Call = (...args: unknown[]) => unknown;

/** Calls that are not simply a method or a function of that name. */
const special: Record<string, Call> = {
  item: (list, i) => (list as Tensor[])[i as number],
  get: (record, name) => (record as Record<string, unknown>)[name as string],
  sparse: (indices, values, size) => bw.sparseCooTensor(indices as Tensor, values as Tensor, size as number[]),
  rawIndices: (t) => (t as Tensor).sparse?.indices,
  rawValues: (t) => (t as Tensor).sparse?.values,
  coalesced: (t) => tensor((t as Tensor).isCoalesced),
  embedding: (table, ids) => embed(table as Tensor, ids as Tensor, false),
  sparseEmbedding: (table, ids) => embed(table as Tensor, ids as Tensor, true),
};

function embed(weight: Tensor, ids: Tensor, sparse: boolean): Tensor {
  const layer = new nn.Embedding(...(weight.shape as [number, number]), { sparse });
  return Object.assign(layer, { weight }).forward(ids);
}

function resolve(value: unknown, env: Environment): unknown {
  if (typeof value === 'string') {
    if (value.startsWith('$')) return env[value.slice(1)];
    return value in words ? number(value) : value;
  }
  if (value === null) return undefined;
  if (Array.isArray(value)) return value.map((v) => resolve(v, env));
  if (typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, resolve(v, env)]));
  return value;
}

function call(fn: string, args: unknown[]): unknown {
  const own = special[fn];
  if (own !== undefined) return own(...args);
  const [first, ...rest] = args;
  const method = first instanceof bw.Tensor ? (first as unknown as Record<string, Call>)[fn] : undefined;
  if (method !== undefined) return method.apply(first, rest);
  const free = (bw as unknown as Record<string, Call | undefined>)[fn];
  if (free === undefined) throw new Error(`no operation '${fn}'`);
  return free(...args);
}

/** Different for each element, and exact in every floating dtype. */
function weights(t: Tensor): Tensor {
  const values = Float64Array.from({ length: t.size }, (_, i) => (((i * 7) % 11) + 1) / 4);
  return tensor(values, { shape: t.shape, dtype: t.dtype });
}

function take(step: Step, env: Environment): void {
  const [result, fn, ...args] = step;
  const given = args.map((a) => resolve(a, env));
  const quiet = fn.startsWith('noGrad:');
  const value = quiet ? noGrad(() => call(fn.slice(7), given)) : call(fn, given);
  if (result !== '') env[result] = value;
}

/** Words that only a missing check leaves in a message. */
const SLIPS = /undefined|\[, |\[, ?\]|NaN|Invalid typed array length|Cannot mix BigInt|is not a function|reading '/;

function refuses(run: () => unknown, says: string, what: string): void {
  let thrown: unknown;
  try {
    run();
  } catch (error) {
    thrown = error;
  }
  expect(thrown, `${what} refuses${says === '' ? '' : `: ${says}`}`).toBeInstanceOf(Error);
  const { message } = thrown as Error;
  expect(message, what).toContain(says);
  expect(message, what).not.toMatch(SLIPS);
}

function backward(env: Environment, reads: readonly string[]): void {
  const roots = reads.map((k) => env[k]).filter((t): t is Tensor => t instanceof bw.Tensor && t.requiresGrad);
  if (roots.length > 0) runBackward(roots, roots.map(weights));
}

function run({ given, leaves, steps, long = false, reads, values = {}, grads = {}, refused }: Program): void {
  const rtol = long ? 1e-5 : 1e-6;
  const env: Environment = {};
  for (const [k, v] of Object.entries(given)) env[k] = unpack(v, leaves.includes(k));
  for (const [i, step] of steps.entries()) {
    if (refused?.step !== i) take(step, env);
    else return refuses(() => take(step, env), refused.says, `call ${i}, ${step[1]},`);
  }
  if (refused !== undefined) return refuses(() => backward(env, reads), refused.says, 'the backward pass');
  for (const [k, v] of Object.entries(values)) {
    if (typeof v === 'object') expectClose(env[k] as Tensor, v, k, rtol);
    else expect(env[k], k).toBe(v);
  }
  backward(env, reads);
  for (const [k, g] of Object.entries(grads)) {
    const got = (env[k] as Tensor).grad;
    if (g === null) expect(got === null || got.eq(0).all().item() === 1, `gradient of ${k}`).toBe(true);
    else expectClose(got as Tensor, g, `gradient of ${k}`, rtol);
  }
}

/** The programs whose names begin alike: thousands of tests of their own would take longer to report than to run. */
function families(file: string): [family: string, programs: Program[]][] {
  const found = new Map<string, Program[]>();
  for (const p of load<Program[]>(file)) {
    const family = /^[^ :(\d]+/.exec(p.name)?.[0] ?? 'views';
    found.set(family, [...(found.get(family) ?? []), p]);
  }
  return [...found];
}

function failures(list: readonly Program[]): string[] {
  return list.flatMap((p) => {
    try {
      run(p);
      return [];
    } catch (error) {
      return [`${p.name}: ${error instanceof Error ? error.message : String(error)}`];
    }
  });
}

describe.each(['views.json', 'edges.json', 'values.json'])('programs of %s answer as PyTorch', (file) => {
  it.each(families(file))('%s', (_, list) => expect(failures(list)).toEqual([]));
});
