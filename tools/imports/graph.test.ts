/** @file The import graph of a small workspace: what is an import, where it leads, which files are in circles, which arrows go up. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { circles, readGraph, wayBetween, type Arrow } from './graph.ts';
import { importsOf } from './imports-of.ts';
import { measure } from './measure.ts';
import { placeOf, unlisted } from './rooms.ts';
import { Workspace } from './workspace.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

/** A repository of these files. */
function workspace(files: Readonly<Record<string, string>>): Workspace {
  const folder = mkdtempSync(join(tmpdir(), 'backwire-imports-'));
  folders.push(folder);
  execFileSync('git', ['init', '-q'], { cwd: folder });
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, dirname(path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return new Workspace(folder);
}

const manifest = (name: string): string =>
  JSON.stringify({ name, exports: { '.': { '@backwire/source': './src/index.ts', default: './dist/index.js' } } });

/** Imports of each form: [where it leads, its line, whether of types only]. */
const forms: [string, [string, number, boolean][]][] = [
  [`import { a } from './a.ts';`, [['./a.ts', 1, false]]],
  [`import './a.ts';`, [['./a.ts', 1, false]]],
  [`import a, * as b from './a.ts';`, [['./a.ts', 1, false]]],
  [`import type { A } from './a.ts';`, [['./a.ts', 1, true]]],
  [`import { type A } from './a.ts';`, [['./a.ts', 1, false]]],
  [`\nexport { a } from './a.ts';`, [['./a.ts', 2, false]]],
  [`export * from './a.ts';`, [['./a.ts', 1, false]]],
  [`export type { A } from './a.ts';`, [['./a.ts', 1, true]]],
  [`let a: import('./a.ts').A;`, [['./a.ts', 1, true]]],
  [`const f = async () => {\n  await import('./a.ts');\n};`, [['./a.ts', 2, false]]],
  ['await import(`./a.ts`);', [['./a.ts', 1, false]]],
  [`const name = './a.ts'; await import(name);`, []],
  [`// import './a.ts'\nconst text = "import './a.ts'"; f(import.meta.url);`, []],
];

test.each(forms)('%s', (text, expected) => {
  expect(importsOf(text).map(({ specifier, line, typesOnly }) => [specifier, line, typesOnly])).toEqual(expected);
});

test('imports lead by path and through the exports of a sibling, to files that are there', () => {
  const space = workspace({
    'packages/a/package.json': manifest('@x/a'),
    'packages/b/package.json': manifest('b'),
    'packages/a/src/index.ts': `import '../../b/src/index.ts'; import 'b'; import 'b/internal'; import 'node:fs'; import './missing.ts';`,
    'packages/b/src/index.ts': `import '@x/a'; import type { T } from '@x/a';`,
    'packages/b/src/lone.js': '',
  });
  const { files, arrows } = readGraph(space);
  expect(files).toEqual(['packages/a/src/index.ts', 'packages/b/src/index.ts', 'packages/b/src/lone.js']);
  expect(arrows).toEqual([
    { from: 'packages/a/src/index.ts', to: 'packages/b/src/index.ts', line: 1, typesOnly: false },
    { from: 'packages/b/src/index.ts', to: 'packages/a/src/index.ts', line: 1, typesOnly: false },
  ]);
});

test('what git ignores is no file of the graph', () => {
  const space = workspace({ '.gitignore': 'dist', 'a.ts': '', 'dist/b.ts': '' });
  expect(space.files()).toEqual(['a.ts']);
});

const arrow = (from: string, to: string): Arrow => ({ from, to, line: 1, typesOnly: false });
const letters = (text: string): Arrow[] => text.split(' ').map((each) => arrow(each[0] ?? '', each[1] ?? ''));

describe('circles', () => {
  test.each([
    ['ab bc cd', []],
    ['ab ba', ['ab']],
    ['ab bc ca cd', ['abc']],
    ['ab ba bc cd dc de ef fd', ['cdef', 'ab']],
    ['ab ac bd cd', []],
  ])('%s', (text, expected) => {
    expect(circles([...'abcdef'], letters(text)).map((group) => group.join(''))).toEqual(expected);
  });

  test('the way between two files is the shortest', () => {
    const arrows = letters('ab bc cd ad de');
    const next = (file: string): string[] => arrows.filter(({ from }) => from === file).map(({ to }) => to);
    expect(wayBetween('a', 'e', next)).toEqual(['a', 'd', 'e']);
    expect(wayBetween('e', 'a', next)).toBeUndefined();
  });
});

describe('rooms', () => {
  const layout = { p: ['top', 'middle/inner', 'middle', 'low'] };

  test('a file is in the deepest room that the layout names, else in its first folder', () => {
    const room = (path: string): string | undefined => placeOf(path, layout)?.room;
    expect(room('packages/p/src/top/deep/a.ts')).toBe('top');
    expect(room('packages/p/src/middle/a.ts')).toBe('middle');
    expect(room('packages/p/src/middle/inner/deep/a.ts')).toBe('middle/inner');
    expect(room('packages/p/src/a.ts')).toBe('');
    expect(room('packages/p/sim/a.ts')).toBe('..');
    expect(room('tools/a.ts')).toBeUndefined();
    expect(unlisted('packages/p/src/other/a.ts', layout)).toEqual({ package: 'p', room: 'other' });
    expect(unlisted('packages/p/src/low/a.ts', layout)).toBeUndefined();
  });

  /** The arrows up among these files of package p, as 'from > to'. */
  const up = (files: Readonly<Record<string, string>>): string[] => {
    const paths = Object.fromEntries(Object.entries(files).map(([path, text]) => [`packages/p/${path}`, text]));
    const all = measure(readGraph(workspace(paths)), layout).at(-1)?.up ?? [];
    return all.map(({ from, to }) => `${from} > ${to}`.replaceAll('packages/p/', ''));
  };

  test('down and within a room is allowed', () => {
    expect(
      up({
        'src/top/a.ts': `import '../low/a.ts'; import './b.ts';`,
        'src/top/b.ts': `import '../middle/inner/a.ts';`,
        'src/middle/inner/a.ts': `import '../a.ts';`,
        'src/middle/a.ts': '',
        'src/low/a.ts': '',
      }),
    ).toEqual([]);
  });

  test('up is found, of types too', () => {
    expect(
      up({
        'src/top/a.ts': 'export type A = 1;',
        'src/middle/a.ts': `import './inner/a.ts';`,
        'src/middle/inner/a.ts': `import type { A } from '../../top/a.ts';`,
      }),
    ).toEqual(['src/middle/a.ts > src/middle/inner/a.ts', 'src/middle/inner/a.ts > src/top/a.ts']);
  });

  test('a file beside the rooms leads nobody up, and may itself import anything', () => {
    expect(
      up({
        'src/index.ts': `import './extension.ts';`,
        'src/extension.ts': `import './top/a.ts';`,
        'src/top/a.ts': `import '../index.ts';`,
        'src/low/a.ts': `import '../index.ts'; import '../limits.ts';`,
        'src/limits.ts': '',
      }),
    ).toEqual(['src/low/a.ts > src/index.ts']);
  });

  test('sources import nothing outside of src; what is outside, and tests, may import anything', () => {
    expect(
      up({
        'src/low/a.ts': '',
        'src/low/a.test.ts': `import '../top/a.ts'; import '../../sim/a.ts';`,
        'src/top/a.ts': `import '../../sim/a.ts';`,
        'src/index.ts': `import '../sim/a.ts';`,
        'sim/a.ts': `import '../src/top/a.ts';`,
      }),
    ).toEqual(['src/index.ts > sim/a.ts', 'src/top/a.ts > sim/a.ts']);
  });

  test('a row counts the sources of its package, the last row all files', () => {
    const rows = measure(
      readGraph(
        workspace({
          'packages/p/src/a.ts': `import type {} from './b.ts';`,
          'packages/p/src/b.ts': `import './a.ts';`,
          'packages/p/src/a.test.ts': `import './a.ts';`,
          'packages/q/src/a.ts': `import './b.ts';`,
          'packages/q/src/b.ts': `import './a.ts';`,
          'tools/a.ts': '',
        }),
      ),
      layout,
    );
    const counts = rows.map((row) => [row.name, row.files, row.arrows, row.circles.length, row.runtimeCircles.length]);
    expect(counts).toEqual([
      ['p', 2, 2, 1, 0],
      ['q', 2, 2, 1, 1],
      ['repository', 6, 5, 2, 1],
    ]);
  });
});
