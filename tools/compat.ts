/** @file `npm run compat`: checks docs/compat/upstream-tests.json against the tests that ran, that each says what it asserts, and prints the coverage. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { check, type Entry } from './compat-check.ts';

interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly title: string;
      readonly ancestorTitles: readonly string[];
      readonly status: string;
    }[];
  }[];
}

const root = resolve(import.meta.dirname, '..');

/** Every test that ran, as `file > title` and `file > group > title`, with its status. */
function ran(): Map<string, string> {
  const status = new Map<string, string>();
  for (const group of ['packages', 'apps']) {
    for (const folder of readdirSync(join(root, group))) {
      const file = join(root, group, folder, 'test-output/results.json');
      if (!existsSync(file)) continue;
      for (const { name, assertionResults } of (JSON.parse(readFileSync(file, 'utf8')) as Report).testResults) {
        for (const test of assertionResults) {
          for (const title of new Set([test.title, test.fullName, [...test.ancestorTitles, test.title].join(' > ')])) {
            const key = `${relative(root, name)} > ${title}`;
            // Of several tests with one title (a parametrised one), the worst counts.
            if ((status.get(key) ?? 'passed') === 'passed') status.set(key, test.status);
          }
        }
      }
    }
  }
  return status;
}

const tests = ran();
if (tests.size === 0) {
  console.error('No test report found: run `npm test` first.');
  process.exit(1);
}
const list = readFileSync(join(root, 'docs/compat/upstream-tests.json'), 'utf8');
const { groups, problems } = check(JSON.parse(list) as Record<string, Entry>, tests);
for (const [name, { passing, portable }] of groups) console.log(`${`${passing}/${portable}`.padStart(8)}  ${name}`);
const total = [...groups.values()].reduce((sum, group) => sum + group.portable, 0);
const passing = [...groups.values()].reduce((sum, group) => sum + group.passing, 0);
for (const problem of problems) console.error(problem);
console.log(`\n${passing} of ${total} portable upstream tests have a passing counterpart`);
process.exitCode = problems.length === 0 ? 0 : 1;
