/** @file Checks numerics against PyTorch: `npm run check:numerics -- --help` tells how. Programs of one process, then of several. */
import { run } from './suites.ts';

const LOCAL = 'packages/tensor/check/main.ts';
const DISTRIBUTED = 'packages/dist-autograd/check/main.ts';

const args = process.argv.slice(2);

/** What follows an option, each time that it is given, and the arguments without these. */
function taken(name: string): { values: string[]; rest: string[] } {
  const at = args.flatMap((arg, i) => (arg === name ? [i] : []));
  const rest = args.filter((_, i) => !at.includes(i) && !at.includes(i - 1));
  return { values: at.flatMap((i) => args[i + 1]?.split(',') ?? []), rest };
}

const isDistributed = (name: string): boolean => name.split('/')[0] === 'distributed';

/** The checkers that what is asked for concerns, and the arguments of each: of several cases, its own. */
function programs(): (readonly [program: string, args: readonly string[]])[] {
  const cases = taken('--case');
  const names = cases.values.length > 0 ? cases.values : taken('--suite').values;
  // These concern what is kept of programs of one process.
  if (args.some((arg) => ['--help', '--record', '--keep'].includes(arg))) return [[LOCAL, args]];
  if (names.length === 0) return [LOCAL, DISTRIBUTED].map((program) => [program, args]);
  return [LOCAL, DISTRIBUTED].flatMap((program, i) => {
    const own = names.filter((name) => isDistributed(name) === (i === 1));
    if (own.length === 0) return [];
    return [[program, cases.values.length > 0 ? [...cases.rest, '--case', own.join(',')] : args]];
  });
}

for (const [program, own] of programs()) {
  const code = await run(program, own);
  if (code !== 0) process.exitCode = code;
}
