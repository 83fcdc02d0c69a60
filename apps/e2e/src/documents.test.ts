/** @file The documents name what is there: every relative link, and every script they tell to run. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from './workspace.ts';

const documents = execFileSync('git', ['ls-files', '*.md'], { cwd: root, encoding: 'utf8' }).trim().split('\n');
const read = (file: string): string => readFileSync(join(root, file), 'utf8');

test('every relative link leads to a file or folder', () => {
  const broken: string[] = [];
  for (const file of documents)
    for (const [, target = ''] of read(file).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g))
      if (!/^[a-z]+:/.test(target) && !existsSync(join(root, dirname(file), target)))
        broken.push(`${file} -> ${target}`);
  expect(broken).toEqual([]);
});

test('every script that a document runs exists', () => {
  const scripts = (folder: string): Set<string> =>
    new Set(Object.keys((JSON.parse(read(join(folder, 'package.json'))) as { scripts?: object }).scripts ?? {}));
  const ofRoot = scripts('.');
  const missing: string[] = [];
  for (const file of documents)
    for (const [, script = '', workspace] of read(file).matchAll(
      /npm run ([\w:-]+)(?:[^\n`]*? -w @backwire\/([\w-]+))?/g,
    ))
      if (!(workspace === undefined ? ofRoot : scripts(join('packages', workspace))).has(script))
        missing.push(`${file}: npm run ${script}${workspace === undefined ? '' : ` -w @backwire/${workspace}`}`);
  expect(missing).toEqual([]);
});

test('every value that a document imports from a package is exported there', async () => {
  const missing: string[] = [];
  for (const file of documents)
    for (const [, names = '', from = ''] of read(file).matchAll(
      /^import \{([^}]+)\} from '(@backwire\/[\w-]+|backwire)';/gm,
    )) {
      const exported = (await import(from)) as Record<string, unknown>;
      for (const name of names.split(',').map((text) => text.trim()))
        if (name !== '' && !name.startsWith('type ') && !Object.hasOwn(exported, name.replace(/ as .*/, '')))
          missing.push(`${file}: ${name} from ${from}`);
    }
  expect(missing).toEqual([]);
});
