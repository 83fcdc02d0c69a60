/** @file The documentation as a whole, as `npm run docs` builds and checks it. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';

it(
  'has no broken link, no code that does not compile or run, and no public name without a sentence',
  { timeout: 900_000 },
  async () => {
    const { NODE_ENV: _, VITEST: _1, ...env } = process.env;
    const child = spawn(
      process.execPath,
      ['--import', 'tsx', '--conditions=@backwire/source', join(import.meta.dirname, '../src/main.ts')],
      { env, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
    const code = await new Promise((resolve) => child.once('close', resolve));
    const [summary = ''] = text.trim().split('\n').slice(-1);
    console.log(summary);
    expect(code, text).toBe(0);
    expect(summary).toMatch(
      /^\d+ pages, \d+ code blocks compiled, \d+ run, \d+ examples in doc comments compiled, \d+ run, 0 broken links, 0 public names without documentation$/,
    );
    // The names that are used most have one.
    expect(Number(/(\d+) examples/.exec(summary)?.[1])).toBeGreaterThanOrEqual(40);
  },
);
