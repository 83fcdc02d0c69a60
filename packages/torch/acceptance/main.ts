/** @file `npm run torch -- --suite NAME`: this package with a stock torch. `--help` names the suites. */
import { parseArgs } from 'node:util';
import { torchVersion } from '../test/python.ts';
import { bench } from './bench/suite.ts';
import { churn } from './churn/suite.ts';
import { examples } from './examples/suite.ts';
import { mixed } from './mixed/suite.ts';
import { Report } from './report.ts';
import { soak } from './soak/suite.ts';
import { upstream } from './upstream/suite.ts';

const HELP = `usage: npm run torch -- [--suite NAME] [flags]

This package with workers of stock torch, found by BACKWIRE_TORCH_PYTHON=/path/to/python. Without one it says so, and does nothing.

  mixed     every feature, with Node as rank 0, 1 and 2 of a static group (--rank 0,1,2) and in a dynamic one (--rank 3)
  upstream  torch's own tests, with Node as each rank (--rank 0,1,2,3)
  examples  torch's parameter server split both ways, with the losses of all in torch; reinforcement learning with observers in Node
  churn     workers that come, go and are killed, under calls from Python
  soak      traffic of every kind for long (--minutes 60): memory stays the same
  bench     what calls cost, beside Python to Python

  --only TEXT  the checks whose name has this in it      --record   writes results.json, where a suite has one
  --verbose    stacks of what failed                     --help     this
`;

const options = {
  help: { type: 'boolean', default: false },
  suite: { type: 'string', default: 'mixed' },
  rank: { type: 'string' },
  only: { type: 'string', default: '' },
  minutes: { type: 'string', default: '60' },
  record: { type: 'boolean', default: false },
  verbose: { type: 'boolean', default: false },
} as const;

/** The flags; what is no flag ends the program in a line. */
function flags(): ReturnType<typeof parseArgs<{ options: typeof options }>>['values'] {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${HELP}`);
    process.exit(2);
  }
}

const values = flags();
if (values.help) {
  process.stdout.write(HELP);
  process.exit();
}
const python = process.env['BACKWIRE_TORCH_PYTHON'] ?? 'python3';
const ranks = values.rank?.split(',').map(Number);
const { only, record } = values;

const SUITES: Readonly<Record<string, (report: Report) => Promise<void>>> = {
  mixed: (report) => mixed(ranks, only, report),
  upstream: (report) => upstream({ python, ranks: ranks ?? [0, 1, 2, 3], only, record }, report),
  examples: (report) => examples(only, report),
  churn: (report) => churn(record, report),
  soak: (report) => soak(Number(values.minutes), report),
  bench: (report) => bench(only, report),
};

const suite = SUITES[values.suite];
if (suite === undefined) {
  console.error(`there is no suite '${values.suite}': there are ${Object.keys(SUITES).join(', ')}`);
  process.exit(2);
}
if (torchVersion === undefined) {
  console.log(`skipped: '${python}' is no Python with torch and numpy; set BACKWIRE_TORCH_PYTHON`);
  process.exit();
}
const report = new Report(values.verbose);
await suite(report);
console.log(report.sum());
process.exit(report.failed === 0 ? 0 : 1);
