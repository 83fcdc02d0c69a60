/** @file Views and writes in place on both sides of calls: each tensor of a message is a variable of its own, as it is where calls copy. */
import { rpcFunction, rpcSync } from '@backwire/rpc';
import { complex, real, runBackward, tensor, type Tensor } from '@backwire/tensor';
import { Random } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { backward, context, getGradients } from '../src/index.ts';
import { leaf, useAgents } from './agents.ts';

const WORKERS = 3;
const { at, agents } = useAgents('written-in-place', WORKERS);

/** Indices are taken modulo what is there. */
type Step =
  | { readonly do: 'scale' | 'row' | 'rows' | 'turn' | 'same'; readonly a: number }
  | { readonly do: 'add' | 'mul'; readonly a: number; readonly b: number }
  /** Writes to a value, or to its first row. */
  | { readonly do: 'write'; readonly a: number; readonly b: number; readonly how: 'mul_' | 'add_' | 'copy_'; readonly row: boolean }
  | { readonly do: 'call'; readonly to: number; readonly fn: number; readonly args: readonly number[] }; // prettier-ignore

interface Program {
  readonly leaves: readonly (readonly number[])[];
  readonly functions: readonly { readonly steps: readonly Step[]; readonly out: readonly number[] }[];
  readonly main: readonly Step[];
}

/** How a function of the program is run with these arguments on a worker. */
type Call = (to: number, fn: number, args: Tensor[]) => Promise<Tensor[]>;

const SHAPE = [2, 2];

function drawProgram(random: Random): Program {
  const index = (): number => random.int(0, 64);
  const step = (callable: boolean): Step => {
    const kind = random.weighted({ scale: 1, row: 1, rows: 1, turn: 2, same: 2, add: 1, mul: 2, write: 3, call: callable ? 3 : 0 }); // prettier-ignore
    if (kind === 'call')
      return { do: kind, to: index(), fn: index(), args: Array.from({ length: random.int(1, 4) }, index) };
    if (kind === 'write')
      return { do: kind, a: index(), b: index(), how: random.pick(['mul_', 'add_', 'copy_']), row: random.chance(0.4) };
    return kind === 'add' || kind === 'mul' ? { do: kind, a: index(), b: index() } : { do: kind, a: index() };
  };
  const steps = (count: number, callable: boolean): Step[] => Array.from({ length: count }, () => step(callable));
  const count = random.int(1, 4);
  return {
    leaves: Array.from({ length: WORKERS }, () =>
      Array.from({ length: 4 }, () => random.pick([-1, -0.5, 0.5, 1, 1.5])),
    ),
    functions: Array.from({ length: count }, (_, i) => ({
      steps: steps(random.int(1, 7), i + 1 < count),
      out: Array.from({ length: random.int(1, 4) }, index),
    })),
    main: [...steps(random.int(2, 8), true), { do: 'call', to: index(), fn: index(), args: [index(), index()] }],
  };
}

/** Runs function `fn` of the program (main: -1) on a worker. */
async function run(program: Program, own: Tensor, fn: number, args: readonly Tensor[], call: Call): Promise<Tensor[]> {
  const values = [...args, own.mul(1)];
  const of = (index: number): Tensor => values[index % values.length] as Tensor;
  /** As a matrix, so that all fit each other. */
  const full = (index: number): Tensor => of(index).sum().mul(0.25).add(own.detach());
  const body = fn < 0 ? { steps: program.main, out: [] } : program.functions[fn]!;
  for (const step of body.steps) {
    switch (step.do) {
      case 'scale': values.push(of(step.a).mul(0.5)); break; // prettier-ignore
      case 'row': values.push(of(step.a).rank > 1 ? of(step.a).select(0, 0) : of(step.a)); break; // prettier-ignore
      case 'rows': values.push(of(step.a).narrow(0, 0, 1)); break; // prettier-ignore
      case 'turn': values.push(of(step.a).rank > 1 ? of(step.a).transpose(0, 1) : of(step.a)); break; // prettier-ignore
      case 'same': values.push(of(step.a).view(of(step.a).shape)); break; // prettier-ignore
      case 'add': values.push(full(step.a).add(full(step.b))); break; // prettier-ignore
      case 'mul': values.push(full(step.a).mul(full(step.b))); break; // prettier-ignore
      case 'write': {
        const target = step.row && of(step.a).rank > 1 ? of(step.a).select(0, 0) : of(step.a);
        if (step.how === 'copy_') target.copy_(of(step.b).sum().mul(0.5).expand(target.shape));
        else target[step.how](step.how === 'mul_' ? -0.5 : 0.25);
        break;
      }
      case 'call': {
        const below = program.functions.length - fn - 1;
        if (below > 0) values.push(...(await call(step.to % WORKERS, fn + 1 + (step.fn % below), step.args.map(of))));
      }
    }
  }
  return fn < 0 ? values : body.out.map(of);
}

const leavesOf = ({ leaves }: Program): Tensor[] =>
  leaves.map((values) => tensor(Float64Array.from(values), { shape: SHAPE, requiresGrad: true }));

/** What a message does: the same tensor is one on the other side, any other its own. */
function copied(tensors: readonly Tensor[]): Tensor[] {
  const copies = new Map(tensors.map((t) => [t, t.clone()]));
  return tensors.map((t) => copies.get(t) as Tensor);
}

interface Outcome {
  readonly values: unknown[];
  /** Of each worker's leaf; undefined where the pass fails. */
  readonly gradients: unknown[] | undefined;
}

const numbers = (t: Tensor | null | undefined): unknown => t?.toArray() ?? null;
const rootOf = (values: readonly Tensor[]): Tensor => values.map((t) => t.sum()).reduce((a, b) => a.add(b));

async function inOnePlace(program: Program): Promise<Outcome> {
  const leaves = leavesOf(program);
  const call: Call = async (to, fn, args) => copied(await run(program, leaves[to]!, fn, copied(args), call));
  const values = await run(program, leaves[0]!, -1, [], call);
  const seen = values.map(numbers);
  try {
    runBackward([rootOf(values)]);
  } catch {
    return { values: seen, gradients: undefined };
  }
  return { values: seen, gradients: leaves.map(({ grad }) => numbers(grad)) };
}

let current: { readonly program: Program; readonly leaves: readonly Tensor[] };
const called = rpcFunction('written-in-place/called', (self: number, fn: number, args: Tensor[]): Promise<Tensor[]> =>
  run(current.program, current.leaves[self]!, fn, args, overWorkers),
);
const overWorkers: Call = (to, fn, args) => rpcSync(to, called, [to, fn, args]);

async function byCalls(program: Program): Promise<Outcome> {
  const leaves = leavesOf(program);
  current = { program, leaves };
  return at(0, () =>
    context(async (id) => {
      const values = await run(program, leaves[0]!, -1, [], overWorkers);
      const seen = values.map(numbers);
      try {
        await backward(id, [rootOf(values)]);
      } catch {
        return { values: seen, gradients: undefined };
      }
      const mine = (t: Tensor): unknown => {
        try {
          return numbers(getGradients(id).get(t));
        } catch {
          return null; // This worker was never called.
        }
      };
      return { values: seen, gradients: leaves.map((t, rank) => agents[rank]!.run(() => mine(t))) };
    }),
  );
}

describe('views and writes in place on both sides of calls', () => {
  it('come to what they come to in one place, in drawn programs', async () => {
    let compared = 0;
    for (let seed = 1; seed <= 250; seed++) {
      const program = drawProgram(new Random(seed));
      const [here, there] = [await inOnePlace(program), await byCalls(program)];
      expect(there.values, `values of seed ${seed}`).toEqual(here.values);
      if (here.gradients === undefined) expect(there.gradients, `seed ${seed}`).toBeUndefined();
      // Parts of one storage have one count of writes there, and copies here.
      if (here.gradients === undefined || there.gradients === undefined) continue;
      expect(there.gradients, `gradients of seed ${seed}`).toEqual(here.gradients);
      compared++;
    }
    expect(compared).toBeGreaterThan(150);
  });

  const doubled = rpcFunction('written-in-place/doubled', (a: Tensor, b: Tensor): Tensor[] => [a.mul_(2), b.mul(1)]);

  const flat = (x: Tensor): Tensor => x.mul(1);
  it.each([
    ['a view of all of it', flat, (y: Tensor) => y.view([2]), [1, 1]],
    ['a part', flat, (y: Tensor) => y.narrow(0, 1, 1), [0, 1]],
    ['a part of each element', (x: Tensor) => complex(flat(x), flat(x)), (y: Tensor) => real(y), [1, 1]],
  ])('of a tensor that is sent with %s, write to one only', (_, baseOf, viewOf, gradient) =>
    at(0, () =>
      context(async (id) => {
        const x = leaf([2], 3);
        const base = baseOf(x);
        const [, view] = await rpcSync('w1', doubled, [base, viewOf(base)]);
        expect(numbers(view)).toEqual(numbers(viewOf(base)));
        await backward(id, [view!.sum()]);
        expect(numbers(getGradients(id).get(x))).toEqual(gradient);
      }),
    ),
  );

  const shares = rpcFunction('written-in-place/shares', (a: Tensor, b: Tensor) => a.storage === b.storage);

  it('leave parts that do not overlap in one memory, and what needs no gradient', () =>
    at(0, () =>
      context(async () => {
        const y = leaf([4], 1).mul(1);
        expect(await rpcSync('w1', shares, [y.narrow(0, 0, 2), y.narrow(0, 2, 2)])).toBe(true);
        expect(await rpcSync('w1', shares, [y, y.detach()])).toBe(true);
        expect(await rpcSync('w1', shares, [y, y.view([4])])).toBe(false);
      }),
    ));
});
