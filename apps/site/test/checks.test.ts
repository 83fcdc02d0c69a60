/** @file The checks of the documentation turn red: each is shown something that is wrong, and something that is right. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { withLabels } from '../src/api-reference.ts';
import { blocksOf, modulesOf, type Block } from '../src/blocks.ts';
import { unlisted } from '../src/check.ts';
import { compile, programOf } from '../src/compile.ts';
import { examplesOf } from '../src/doc-examples.ts';
import { checkErrorPage } from '../src/error-codes.ts';
import { checkLinks } from '../src/links.ts';
import { publicNames } from '../src/public-names.ts';
import { checkRegions, updateRegions } from '../src/regions.ts';
import { missing, runBlocks } from '../src/run-blocks.ts';
import { relinked } from '../src/stage.ts';

const folder = mkdtempSync(join(tmpdir(), 'backwire-docs-'));
afterAll(() => rmSync(folder, { recursive: true }));

const write = (file: string, text: string): string => {
  mkdirSync(dirname(join(folder, file)), { recursive: true });
  writeFileSync(join(folder, file), text);
  return join(folder, file);
};
const fenced = (code: string, comment = ''): string => `# A page\n\n${comment}\n\n\`\`\`ts\n${code}\n\`\`\`\n`;
const blocksIn = (...pages: string[]): Block[] => pages.flatMap((page) => blocksOf('docs/planted.md', page).blocks);

describe('code blocks', () => {
  it('are found with what the comment before them says', () => {
    const [block] = blocksIn(
      fenced('x.add(1);', '<!-- code: run after workers=a,b name=x.ts\ndeclare const x: Tensor;\n-->'),
    );
    expect(block).toMatchObject({ text: 'x.add(1);', line: 8, given: 'declare const x: Tensor;' });
    expect(block).toMatchObject({ run: true, after: true, workers: ['a', 'b'], name: 'x.ts' });
  });

  it('are missed by a comment that stands before something else', () => {
    const { faults } = blocksOf('docs/planted.md', '<!-- code: run -->\n\ntext\n');
    expect(faults.map(({ text }) => text)).toEqual(['the comment above belongs to no code block']);
  });

  it('compile, or are named with their line', { timeout: 120_000 }, () => {
    const right = fenced("import { tensor } from '@backwire/tensor';\nconst n: number = tensor([1]).item();");
    const wrong = fenced("import { tensor } from '@backwire/tensor';\n\nconst n: string = tensor([1]).item();");
    const later = fenced('tensor([2]).nothing();');
    const modules = modulesOf([
      ...blocksOf('docs/right.md', right).blocks,
      ...blocksOf('docs/planted.md', wrong).blocks,
      ...blocksOf('docs/later.md', later).blocks,
    ]);
    expect(
      compile(programOf(modules, []), modules).map(({ document, line, text }) => [document, line, text.slice(0, 7)]),
    ).toEqual([
      ['docs/planted.md', 8, 'TS2322:'],
      ['docs/later.md', 6, 'TS2339:'],
    ]);
  });

  it('have the imports of the page, and fragments those of known names', () => {
    const [first, second, third] = modulesOf(
      [
        ...blocksIn(fenced("import { a } from 'x';\na();"), fenced("import { b } from 'y';\na(b);")),
        ...blocksIn(fenced('c();')),
      ],
      new Map([['c', "import { c } from 'z';"]]),
    );
    expect(first?.code).not.toContain("'z'");
    expect(second?.code).toContain("import { a } from 'x';");
    expect(third?.code).toContain("import { c } from 'z';");
  });

  it('that run print what their comments say', { timeout: 120_000 }, async () => {
    const page = (comment: string): string => fenced(`console.log([1, 2].length); // ${comment}`, '<!-- code: run -->');
    const run = async (text: string): Promise<string[]> =>
      (await runBlocks(modulesOf(blocksIn(text)))).map((fault) => fault.text);
    expect(await run(page('2'))).toEqual([]);
    expect(await run(page('3'))).toEqual(['did not print what its comment says: 3']);
    const thrown = await run(fenced("throw new Error('planted');", '<!-- code: run -->'));
    expect(thrown[0]).toMatch(/^failed: Error: planted/);
  });

  it('are compared with what was printed in its order, spaces apart', () => {
    expect(missing('console.log(a); // [1, 2]\nconsole.log(b); // at … ms', '[ 1,\n2 ]\nat 17 ms\n')).toEqual([]);
    expect(missing('console.log(a); // 1\nconsole.log(b); // 2', '2\n1\n')).toEqual(['2']);
  });

  it('that name a file are that file', () => {
    const reference = 'apps/site/programs/start/scale.ts';
    const copied = updateRegions(fenced('', `<!-- file: ${reference} -->`));
    expect(checkRegions(blocksIn(copied))).toEqual([]);
    expect(checkRegions(blocksIn(copied.replace('await shutdown', 'shutdown')))[0]?.text).toContain(
      'says something else',
    );
    expect(checkRegions(blocksIn(fenced('', '<!-- file: apps/nowhere.ts -->')))[0]?.text).toContain('there is no');
    expect(checkRegions(blocksIn(fenced('', '<!-- file: packages/rpc/src/base/ids.ts -->')))).not.toEqual([]);
  });

  it('that are a whole file can be imported by its name, and those that are a part of one cannot', () => {
    const names = blocksIn(
      fenced('', '<!-- file: apps/site/programs/start/scale.ts -->'),
      fenced('', '<!-- file: apps/site/programs/start/scale.ts#part -->'),
      fenced('', '<!-- code: run -->'),
    ).map(({ name }) => name);
    expect(names).toEqual(['scale.ts', undefined, undefined]);
  });
});

describe('examples in doc comments', () => {
  const planted = (comment: string, name = 'planted'): { entry: string; read: () => ReturnType<typeof examplesOf> } => {
    const lines = comment.split('\n').map((line) => ` * ${line}`);
    const entry = write(`${name}.ts`, `/**\n${lines.join('\n')}\n */\nexport function twice(n: number): void {}\n`);
    return { entry, read: () => examplesOf(programOf([], [entry]), entry, folder, new Set()) };
  };
  const example = (code: string, words = ''): string =>
    `Says so.\n@param n a number\n@example\n\`\`\`ts${words}\n${code}\n\`\`\``;

  it('are blocks of code that run unless they say otherwise', () => {
    const alone = planted(example('a();')).read();
    expect(alone.faults).toEqual([]);
    expect(alone.blocks).toMatchObject([{ document: 'planted.ts', line: 6, text: 'a();', run: true, workers: [] }]);
    expect(planted(example('a();', ' workers=ps,worker1')).read().blocks[0]).toMatchObject({
      run: true,
      workers: ['ps', 'worker1'],
    });
    expect(planted(example('a();', ' compile')).read().blocks[0]).toMatchObject({ run: false });
  });

  it('that do not compile, or print something else, are named with their line', { timeout: 120_000 }, async () => {
    const wrong = modulesOf(planted(example('console.log(1);\nconst s: string = 1; // 2')).read().blocks);
    expect(
      compile(programOf(wrong, []), wrong).map(({ document, line, text }) => [document, line, text.slice(0, 7)]),
    ).toEqual([['planted.ts', 7, 'TS2322:']]);
    const printed = modulesOf(planted(example('console.log(1 + 1); // 3')).read().blocks);
    expect(await runBlocks(printed)).toEqual([
      { document: 'planted.ts', line: 6, text: 'did not print what its comment says: 3' },
    ]);
  });

  it('stand beside a @param for each parameter, and for nothing else', () => {
    const texts = (comment: string): string[] =>
      planted(comment)
        .read()
        .faults.map(({ text }) => text);
    expect(texts(example('a();').replace('@param n', '@param m'))).toEqual([
      'has an example and no @param n',
      'has a @param m, which is no parameter',
    ]);
    expect(texts('Says so.\n@param n a number\n@example twice(1)')).toEqual(['an example has a block of ts']);
    expect(texts(example('a();', ' workes=ps'))).toEqual(["an example does not know 'workes=ps'"]);
  });
});

describe('links', () => {
  it('lead to pages and anchors that are there', () => {
    const site = join(folder, 'site');
    write(
      'site/index.html',
      '<h1 id="top">x</h1><a href="/a/b#there">x</a><a href="https://elsewhere/none">x</a><img src="/x.png">',
    );
    write('site/a/b.html', '<a href="../#top">x</a><h2 id="there">x</h2><a href="./c">x</a><a href="#gone">x</a>');
    expect(checkLinks(site)).toEqual({
      pages: expect.arrayContaining(['index.html', 'a/b.html']) as string[],
      broken: [
        { page: 'index.html', target: '/x.png', why: 'no such page' },
        { page: 'a/b.html', target: './c', why: 'no such page' },
        { page: 'a/b.html', target: '#gone', why: 'no such anchor' },
      ],
    });
  });

  it('lead to the page of a document, and to the repository for any other file', () => {
    const text = '[a](concepts/calls.md#order) [b](../packages/rpc/README.md) [c](../packages/rpc/src) `[d](e.md)`';
    expect(relinked('docs/start.md', text)).toBe(
      '[a](./concepts/calls.md#order) [b](./packages/rpc.md) [c](https://github.com/backwire/backwire/tree/main/packages/rpc/src) `[d](e.md)`',
    );
  });
});

describe('links of read-me files on npm', () => {
  const repository = 'https://github.com/backwire/backwire/blob/main';
  it('lead to pages and images of the site, and are broken where there is nothing', () => {
    const text = `[a](${repository}/docs/start.md#two) [b](${repository}/docs/gone.md) ![c](https://raw.githubusercontent.com/backwire/backwire/main/docs/images/readme/trace.svg)`;
    expect(relinked('packages/rpc/README.md', text)).toBe(
      '[a](../start.md#two) [b](./docs/gone.md) ![c](../images/readme/trace.svg)',
    );
  });
});

describe('public names', () => {
  it('without a sentence are told, those of namespaces too', () => {
    write('inner.ts', '/** @file Some. */\nexport const bare = 1;\n/** Says so. */\nexport const said = 2;\n');
    const entry = write(
      'entry.ts',
      "/** What it is. */\nexport function known(): void {}\nexport interface Unknown {}\nexport * as inner from './inner.ts';\n",
    );
    const names = publicNames(programOf([], [entry]), 'planted', entry, folder);
    expect(names.filter(({ documented }) => !documented).map(({ name, place }) => `${place} ${name}`)).toEqual([
      'entry.ts:3 Unknown',
      'inner.ts:2 inner.bare',
    ]);
    expect(names.filter(({ documented }) => documented).map(({ name }) => name)).toEqual([
      'known',
      'inner.said',
      'inner',
    ]);
  });

  it('are the headings of the reference', () => {
    expect(withLabels('### add() {#add}\n\n#### Parameters\n')).toBe('### add() {#add}\n\n**Parameters**\n');
  });
});

it('a page that is not in the sidebar is told', () => {
  const items = [
    {
      text: 'Some',
      items: [
        { text: 'Calls', link: '/concepts/calls' },
        { text: 'Guides', link: '/guides/' },
      ],
    },
  ];
  const files = ['docs/concepts/calls.md', 'docs/guides/index.md', 'docs/index.md', 'docs/planted.md'];
  expect(unlisted(items, files).map(({ document }) => document)).toEqual(['docs/planted.md']);
});

it('every code of an error has a section, and no other', () => {
  const page = '### `not-found`\n\n### `made-up`\n';
  expect(checkErrorPage(page, ['not-found', 'fenced']).map(({ text }) => text)).toEqual([
    "says nothing of 'fenced'",
    "'made-up' is no code",
  ]);
});
