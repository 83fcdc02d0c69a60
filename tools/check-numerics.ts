/** @file Checks numerics against PyTorch: `npm run check:numerics -- --help` tells how. Programs of one process, then of several. */
import { run } from './suites.ts';

const LOCAL = 'packages/tensor/check/main.ts';
const DISTRIBUTED = 'packages/dist-autograd/check/main.ts';

const args = process.argv.slice(2);
const valueOf = (name: string): string | undefined => {
  const at = args.indexOf(name);
  return at < 0 ? undefined : args[at + 1];
};

function programs(): string[] {
  const named = valueOf('--suite')?.split(',') ?? valueOf('--case')?.split('/').slice(0, 1);
  // These concern what is kept of programs of one process.
  if (args.some((arg) => ['--help', '--record', '--keep'].includes(arg))) return [LOCAL];
  if (named === undefined) return [LOCAL, DISTRIBUTED];
  const others = named.filter((name) => name !== 'distributed');
  return [...(others.length > 0 ? [LOCAL] : []), ...(others.length < named.length ? [DISTRIBUTED] : [])];
}

for (const program of programs()) {
  const code = await run(program, args);
  if (code !== 0) process.exitCode = code;
}
