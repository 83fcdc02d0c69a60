/** @file Runs a program's functions on the worker it is asked on. */
import { currentAgent, rpcAsync, rpcClass, rpcFunction } from '@backwire/rpc';
import { createRRef, remote, type RRef } from '@backwire/rref';
import { nn, rpcName, tensor, type Tensor } from '@backwire/tensor';
import { runStep, type Call, type Place, type Step as PlainStep } from '../sim/program.ts';
import { ROWS, type Program, type Step } from './program.ts';

/** y = x·Wᵀ + b, called through RRefs. */
export class Layer {
  static readonly [rpcName] = 'check/Layer';
  readonly weight: Tensor;
  readonly bias: Tensor;
  constructor(weight: Tensor, bias: Tensor) {
    this.weight = learnt(weight);
    this.bias = learnt(bias);
  }
  forward(x: Tensor): Tensor {
    return x.unsqueeze(0).matmul(this.weight.transpose(0, 1)).squeeze(0).add(this.bias);
  }
  parameters(): RRef<Tensor>[] {
    return [createRRef(this.weight), createRRef(this.bias)];
  }
}
rpcClass(Layer, { methods: ['forward', 'parameters'] });

function learnt(t: Tensor): Tensor {
  const leaf = t.detach().clone();
  leaf.requiresGrad = true;
  return leaf;
}

/** What a worker has of the program under way. */
export interface Share {
  readonly program: Program;
  /** By index; null for those of other workers. */
  readonly leaves: readonly (Tensor | null)[];
  readonly tables: readonly (nn.Embedding | null)[];
  readonly layers: readonly RRef<Layer>[];
}

let share: Share | undefined;

export function currentShare(): Share {
  if (share === undefined) throw new Error('no program is open here');
  return share;
}

/** Makes what this worker has of a program. */
export const open = rpcFunction('check/open', (text: string, layers: RRef<Layer>[]): void => {
  const program = JSON.parse(text) as Program;
  const { id } = currentAgent();
  const { dtype } = program;
  share = {
    program,
    layers,
    leaves: program.leaves.map(({ worker, values }) =>
      worker === id ? tensor([...values], { dtype, requiresGrad: true }) : null,
    ),
    tables: program.tables.map(({ worker, values, sparse }) => {
      if (worker !== id) return null;
      const table = new nn.Embedding(ROWS, 2, { sparse });
      Object.assign(table, { weight: learnt(tensor(Float64Array.from(values), { dtype, shape: [ROWS, 2] })) });
      return table;
    }),
  };
});

/** Runs function `fn` here. */
const run = rpcFunction('check/run', (fn: number, args: Tensor[]): Promise<Tensor[]> => runBody(fn, args, []));

/** As `run`, with an RRef. */
const runWith = rpcFunction('check/runWith', (fn: number, args: Tensor[], rref: RRef<Tensor[]>): Promise<Tensor[]> =>
  runBody(fn, args, [rref]),
);

/** Runs function `fn` of the program (main: -1) here. */
export async function runBody(fn: number, args: readonly Tensor[], rrefs: RRef<Tensor[]>[]): Promise<Tensor[]> {
  const { program } = currentShare();
  const body = fn < 0 ? { steps: program.main, out: [] } : program.functions[fn];
  if (body === undefined) throw new Error(`the program has no function ${fn}`);
  const values = [...args];
  for (const step of body.steps) await runAnyStep(fn, step, values, rrefs);
  return fn < 0 ? values : body.out.map((index) => at(values, index));
}

const place: Pick<Place, 'leaf' | 'call'> = {
  leaf: (index) => currentShare().leaves[index] as Tensor,
  call: (to, fn, args) => rpcAsync(to, run, [fn, args]),
};

async function runAnyStep(fn: number, step: Step, values: Tensor[], rrefs: RRef<Tensor[]>[]): Promise<void> {
  const { program, tables, layers } = currentShare();
  switch (step.do) {
    case 'apply':
      values.push(at(values, step.a)[step.op]());
      return;
    case 'lookup': {
      const table = tables[step.table % tables.length];
      const rows = tensor(BigInt64Array.from(step.rows, BigInt));
      values.push(table === null || table === undefined ? at(values, step.table) : table.forward(rows).sum(0));
      return;
    }
    case 'layer':
      if (layers.length > 0) values.push(await at(layers, step.layer).rpcAsync().forward(at(values, step.a)));
      return;
    case 'own':
      rrefs.push(createRRef([at(values, step.a)]));
      return;
    case 'remote': {
      const callee = calleeOf(program, fn, step.call);
      if (callee !== undefined) rrefs.push(remote(callee.to, run, [callee.fn, argsOf(step.call, values)]));
      return;
    }
    case 'fetch':
      if (rrefs.length > 0) values.push(...(await orFirst(at(rrefs, step.rref).toHere(), values)));
      return;
    case 'send': {
      const callee = calleeOf(program, fn, step.call);
      if (callee === undefined || rrefs.length === 0) return;
      const sent = rpcAsync(callee.to, runWith, [callee.fn, argsOf(step.call, values), at(rrefs, step.rref)]);
      values.push(...(await orFirst(sent, values)));
      return;
    }
    default:
      await runStep(program, { ...place, worker: currentAgent().id }, fn, step satisfies PlainStep, values);
  }
}

/** Functions call those after them. */
function calleeOf(program: Program, fn: number, call: Call): { to: number; fn: number } | undefined {
  const below = program.functions.length - fn - 1;
  return below <= 0 ? undefined : { to: call.to % program.workers, fn: fn + 1 + (call.fn % below) };
}

function argsOf(call: Call, values: readonly Tensor[]): Tensor[] {
  return call.args.map((index) => at(values, index));
}

/** What fails on purpose gives the first value instead. */
async function orFirst(results: Promise<Tensor[]>, values: readonly Tensor[]): Promise<Tensor[]> {
  try {
    return await results;
  } catch (error) {
    if (error instanceof RangeError) return [at(values, 0)];
    throw error;
  }
}

function at<T>(list: readonly T[], index: number): T {
  return list[index % list.length] as T;
}
