/** @file Where `using` is refused, and what esbuild makes of it there and beside it. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Linter } from 'eslint';
import tseslint from 'typescript-eslint';
import { afterAll, describe, expect, it } from 'vitest';
import { noUsingInLoop } from './using-in-loop.ts';

const folder = mkdtempSync(join(tmpdir(), 'backwire-using-'));
afterAll(() => rmSync(folder, { recursive: true }));

const linter = new Linter();
const languageOptions = { parser: tseslint.parser as Linter.Parser };
const rules = { 'backwire/no-using-in-loop': 'error' } as const;
const plugins = { backwire: { rules: { 'no-using-in-loop': noUsingInLoop } } };

/** `body` is the inside of a function that tries `attempt(n)`, which throws the first time, until it goes well. */
function refused(body: string): boolean {
  const found = linter.verify(programOf(body), { languageOptions, plugins, rules });
  expect(found.filter(({ fatal }) => fatal)).toEqual([]);
  return found.length > 0;
}

function programOf(body: string): string {
  return `
    function attempt(n) { if (n === 1) throw new Error('first'); return { [Symbol.dispose]() {} }; }
    function again() { ${body} }
    try { console.log(String(again())); } catch (error) { console.log('threw', error.message); }`;
}

/** What the program says when tsx runs it. */
function run(body: string): string {
  const file = join(folder, 'program.mts');
  writeFileSync(file, programOf(body));
  return execFileSync(process.execPath, ['--import', 'tsx', file], { encoding: 'utf8' }).trim();
}

const WRONG = {
  'a loop': "for (let n = 1; n < 4; n++) try { using y = attempt(n); return n; } catch {} return 'never';",
  'a block in it': "let n = 0; while (n++ < 3) try { { using y = attempt(n); return n; } } catch {} return 'never';",
  'a loop in a loop':
    "for (const n of [1, 2]) try { for (using y of [{ [Symbol.dispose]() {} }]) { attempt(n); return n; } } catch {} return 'never';",
};
const RIGHT = {
  'a function in the loop':
    'for (let n = 1; ; n++) try { return (() => { using y = attempt(n); return n; })(); } catch {}',
  'the catch around the loop': 'try { for (let n = 2; n < 4; n++) { using y = attempt(n); } return 2; } catch {}',
  'a catch without a loop': 'try { using y = attempt(1); } catch {} using z = attempt(2); return 2;',
};

describe('`using` in a loop with a catch', () => {
  it.each(Object.entries(WRONG))('is refused in %s, where tsx throws what was caught', (_, body) => {
    expect(refused(body)).toBe(true);
    // When this fails, esbuild has been mended: the rule can go, and what the documents say of it.
    expect(run(body)).not.toBe('2');
  });

  it.each(Object.entries(RIGHT))('is let be: %s', (_, body) => {
    expect(refused(body)).toBe(false);
    expect(run(body)).toBe('2');
  });
});
