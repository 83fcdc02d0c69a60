/** @file `npm run torch -- --suite mixed|upstream|churn|soak|bench [--rank 1,2] [--only text] [--minutes 60] [--record] [--verbose]`: this package with a stock torch. */
import { parseArgs } from 'node:util';
import { bench } from './bench/suite.ts';
import { churn } from './churn/suite.ts';
import { mixed } from './mixed/suite.ts';
import { Report } from './report.ts';
import { soak } from './soak/suite.ts';
import { upstream } from './upstream/suite.ts';

const { values } = parseArgs({
  options: {
    suite: { type: 'string', default: 'mixed' },
    rank: { type: 'string' },
    only: { type: 'string', default: '' },
    minutes: { type: 'string', default: '60' },
    record: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  },
});
const python = process.env['BACKWIRE_TORCH_PYTHON'] ?? 'python3';
const ranks = values.rank?.split(',').map(Number);
const { only, record } = values;

const SUITES: Readonly<Record<string, (report: Report) => Promise<void>>> = {
  mixed: (report) => mixed(ranks, only, report),
  upstream: (report) => upstream({ python, ranks: ranks ?? [0, 1, 2, 3], only, record }, report),
  churn: (report) => churn(record, report),
  soak: (report) => soak(Number(values.minutes), report),
  bench: (report) => bench(only, report),
};

const suite = SUITES[values.suite];
if (suite === undefined) {
  console.error(`there is no suite '${values.suite}': there are ${Object.keys(SUITES).join(', ')}`);
  process.exit(2);
}
const report = new Report(values.verbose);
await suite(report);
console.log(report.sum());
process.exit(report.failed === 0 ? 0 : 1);
