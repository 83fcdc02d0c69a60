/** @file The command line of the checker. */
import { parseArgs } from 'node:util';
import { suites } from './suites/table.ts';
import type { Suite } from './suites/suite.ts';

export const HELP = `npm run check:numerics -- [--seeds N] [--first S | --seed S] [--suite a,b] [--backend cpu|wasm|tensorflow|all] [--case suite/seed/number,...] [--keep] [--record]

Draws programs from seeds, runs them here and on PyTorch ($BACKWIRE_TORCH_PYTHON), and tells where they differ. A seed has about
${suites.reduce((sum, { perSeed }) => sum + perSeed, 0)} programs of one process, and some of several.

  --seeds N      how many seeds (1), from --first (1); --seed S runs one
  --suite a,b    some of: ${suites.map(({ name }) => name).join(', ')}, distributed
  --backend B    on which backends (all that can be had)
  --case C,D     these programs, each printed in full; may be given several times
  --shrink S     seconds to spend on making one failing program small (30); 0 shows them as drawn
  --keep         adds what is found to golden/regressions.json, and notes what is mended there
  --record       makes golden/recorded.bin.gz and golden/ported.bin.gz anew, or of --suite ported only that: the programs that npm test
                 runs without PyTorch`;

export interface Options {
  readonly seeds: number;
  readonly first: number;
  readonly suites: readonly Suite[];
  readonly backends: readonly string[] | undefined;
  /** Programs by their names; none: all that are drawn. */
  readonly only: readonly string[];
  readonly shrinkMs: number;
  readonly keep: boolean;
  readonly record: boolean;
}

export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seeds: { type: 'string', default: '1' },
      first: { type: 'string', default: '1' },
      seed: { type: 'string' },
      suite: { type: 'string' },
      backend: { type: 'string', default: 'all' },
      case: { type: 'string', multiple: true, default: [] },
      shrink: { type: 'string', default: '30' },
      keep: { type: 'boolean', default: false },
      record: { type: 'boolean', default: false },
    },
  });
  const names = values.suite?.split(',');
  const chosen = suites.filter(({ name }) => names === undefined || names.includes(name));
  if (chosen.length === 0)
    throw new RangeError(`no suite ${values.suite ?? ''}; there are ${suites.map(({ name }) => name).join(', ')}`);
  return {
    seeds: values.seed === undefined ? wholeNumber('seeds', values.seeds) : 1,
    first: wholeNumber('seed', values.seed ?? values.first),
    suites: chosen,
    backends: values.backend === 'all' ? undefined : values.backend.split(','),
    only: values.case.flatMap((names) => names.split(',')),
    shrinkMs: wholeNumber('shrink', values.shrink) * 1_000,
    keep: values.keep,
    record: values.record,
  };
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new RangeError(`--${name} takes a whole number, not '${text}'`);
  return value;
}
