/** @file Makes a failing distributed program small: fewer steps, functions that do less, fewer passes, iterations and workers. */
import { Budget, shrinkList } from '@backwire/testing';
import type { Program } from './program.ts';

/** The smallest program found that still fails. */
export async function shrinkProgram(
  program: Program,
  fails: (candidate: Program) => Promise<boolean>,
  attempts = 200,
): Promise<Program> {
  const budget = new Budget(attempts);
  let current = program;
  const attempt = async (candidate: Program): Promise<void> => {
    if (budget.take() && (await fails(candidate))) current = candidate;
  };
  for (let before = ''; before !== JSON.stringify(current);) {
    before = JSON.stringify(current);
    if (current.iterations > 1) await attempt({ ...current, iterations: 1 });
    if (current.schedule !== undefined) await attempt({ ...current, schedule: undefined });
    if (current.optimizer !== undefined) await attempt({ ...current, optimizer: undefined, schedule: undefined });
    const base = current;
    const main = await shrinkList(base.main, (steps) => fails({ ...base, main: steps }), budget);
    current = { ...current, main };
    for (const [i, fn] of current.functions.entries()) {
      const put = (steps: typeof fn.steps): Program => ({
        ...current,
        functions: current.functions.map((old, k) => (k === i ? { ...old, steps } : old)),
      });
      current = put(await shrinkList(fn.steps, (steps) => fails(put(steps)), budget));
    }
    const passes = await shrinkList(current.passes, (kept) => fails({ ...current, passes: kept }), budget);
    current = { ...current, passes };
    for (const list of ['tables', 'layers'] as const) {
      if (current[list].length > 0) await attempt({ ...current, [list]: [] });
    }
  }
  return current;
}
