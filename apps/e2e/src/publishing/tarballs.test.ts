/** @file What is in the packages as they are published, and what they say of themselves. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import { checkPackage, createPackageFromTarballData, type Analysis } from '@arethetypeswrong/core';
import { publint } from 'publint';
import ts from 'typescript';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { packageName, published } from '../workspace.ts';
import { fetchTarball, type Manifest, type Tarball } from './tarballs.ts';

const { registry } = inject('rehearsal');
const folder = mkdtempSync(join(tmpdir(), 'backwire-tarballs-'));
const tarballs = new Map<string, Tarball>();
afterAll(() => rmSync(folder, { recursive: true }));

beforeAll(async () => {
  for (const name of published) tarballs.set(name, await fetchTarball(registry, packageName(name), 'latest', folder));
  console.log(
    [...tarballs.values()]
      .map(({ manifest, files, bytes }) => {
        const what = `tarball ${manifest.name}@${manifest.version}`;
        return `${what.padEnd(42)} ${String(files.length).padStart(4)} files ${String(Math.ceil(bytes / 1024)).padStart(5)} KiB`;
      })
      .join('\n'),
  );
});

/** Names of packages in an import, without the path inside of them. */
const packageOf = (specifier: string): string => /^(@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier;

/** The packages that files of the tarball import, whether at their top or later. */
function imported({ folder, files, manifest }: Tarball, extension: string): Set<string> {
  const found = new Set<string>();
  for (const file of files.filter((name) => name.endsWith(extension) && !name.startsWith('page/'))) {
    const { importedFiles } = ts.preProcessFile(readFileSync(join(folder, file), 'utf8'), true, true);
    for (const { fileName } of importedFiles) if (!fileName.startsWith('.')) found.add(packageOf(fileName));
  }
  found.delete(manifest.name);
  return found;
}

const code = ({ folder, files }: Tarball): string =>
  files
    .filter((file) => /^dist\/.*\.js$/.test(file))
    .map((file) => readFileSync(join(folder, file), 'utf8'))
    .join('\n');
const optionalPeers = ({ peerDependencies = {}, peerDependenciesMeta = {} }: Manifest): string[] =>
  Object.keys(peerDependencies).filter((name) => peerDependenciesMeta[name]?.optional === true);
const needed = ({ dependencies = {}, ...manifest }: Manifest): Set<string> => {
  const optional = new Set(optionalPeers(manifest));
  return new Set([
    ...Object.keys(dependencies),
    ...Object.keys(manifest.peerDependencies ?? {}).filter((name) => !optional.has(name)),
  ]);
};
/** Every file that an `exports` map or a list of binaries leads to. */
const targets = (of: unknown): string[] =>
  typeof of === 'string' ? [of] : Object.values((of ?? {}) as Record<string, unknown>).flatMap(targets);

describe.each(published)('%s', { concurrent: true }, (name) => {
  const tarball = (): Tarball => tarballs.get(name) as Tarball;

  test('has its code, its declarations, a readme, a licence and a changelog, and no tests or their data', () => {
    const { files } = tarball();
    expect(files).toEqual(
      expect.arrayContaining([
        'CHANGELOG.md',
        'LICENSE',
        'README.md',
        'package.json',
        'dist/index.js',
        'dist/index.d.ts',
      ]),
    );
    const allowed = /^(dist|src|page)\/|^(CHANGELOG|README)\.md$|^LICENSE$|^package\.json$/;
    expect(files.filter((file) => !allowed.test(file))).toEqual([]);
    expect(
      files.filter((file) => /\.test\.|testdata|fixtures?\/|golden|test-output|tsbuildinfo|\/\./.test(file)),
    ).toEqual([]);
  });

  test('has a readme whose links lead somewhere outside of the repository, too', () => {
    const readme = readFileSync(join(tarball().folder, 'README.md'), 'utf8');
    const links = [...readme.matchAll(/\]\(([^)]*)\)/g)].map(([, to = '']) => to);
    expect(links.length).toBeGreaterThan(0);
    expect(links.filter((to) => !/^(https:|#)/.test(to))).toEqual([]);
  });

  test('has every file that its manifest names', () => {
    const { manifest, folder } = tarball();
    const missing = [...targets(manifest.exports), ...targets(manifest.bin)].filter(
      (file) => !existsSync(join(folder, file)),
    );
    expect(missing).toEqual([]);
  });

  test('has the sources that its source maps lead to', () => {
    const { files, folder } = tarball();
    const maps = files.filter((file) => file.endsWith('.map'));
    expect(maps.length).toBeGreaterThan(2);
    const missing = maps.flatMap((map) => {
      const { sources, sourceRoot = '' } = JSON.parse(readFileSync(join(folder, map), 'utf8')) as {
        sources: string[];
        sourceRoot?: string;
      };
      const lost = sources.filter((source) => !files.includes(normalize(join(dirname(map), sourceRoot, source))));
      return lost.map((source) => `${map} -> ${source}`);
    });
    expect(missing).toEqual([]);
  });

  test('says who it is, where it lives and where its bugs go', () => {
    const { manifest } = tarball();
    expect(manifest.description).toBeTruthy();
    expect(manifest.keywords?.length).toBeGreaterThan(2);
    expect(manifest.repository).toEqual({
      type: 'git',
      url: 'git+https://github.com/backwire/backwire.git',
      directory: `packages/${name}`,
    });
    expect(manifest.homepage).toBe(`https://github.com/backwire/backwire/tree/main/packages/${name}#readme`);
    expect(manifest.bugs?.url).toBe('https://github.com/backwire/backwire/issues');
    expect(manifest.license).toBe('MIT');
    expect(manifest.engines).toEqual({ node: '>=20.19' });
  });

  test('imports what it declares and declares what it imports', () => {
    const { manifest } = tarball();
    const text = code(tarball());
    const inCode = [...imported(tarball(), '.js')].filter((id) => !id.startsWith('node:'));
    const inTypes = [...imported(tarball(), '.d.ts')].filter((id) => !id.startsWith('node:'));
    const optional = optionalPeers(manifest);
    const required = needed(manifest);
    expect(
      inCode.filter((id) => !required.has(id) && !optional.includes(id)),
      'imported, not declared',
    ).toEqual([]);
    // Who does not install what is optional still has to be able to read our declarations.
    expect(
      inTypes.filter((id) => !required.has(id)),
      'in declarations, not required',
    ).toEqual([]);
    const used = [...required, ...optional].filter((id) => !id.startsWith('@types/'));
    expect(
      used.filter((id) => !text.includes(`${id}`)),
      'declared, not used',
    ).toEqual([]);
    const usesNode = tarball().files.some(
      (file) =>
        file.endsWith('.d.ts') && /from 'node:|\bNodeJS\./.test(readFileSync(join(tarball().folder, file), 'utf8')),
    );
    expect(optional.includes('@types/node'), 'types of Node are declared where declarations use them').toBe(usesNode);
  });

  test('awaits nothing at the top of a module, so that it can be required', () => {
    for (const file of tarball().files.filter((name) => /^dist\/.*\.js$/.test(name))) {
      const source = ts.createSourceFile(
        file,
        readFileSync(join(tarball().folder, file), 'utf8'),
        ts.ScriptTarget.ES2022,
      );
      const awaits: string[] = [];
      const visit = (node: ts.Node): void => {
        if (ts.isFunctionLike(node) || ts.isClassStaticBlockDeclaration(node)) return;
        if (ts.isAwaitExpression(node) || (ts.isForOfStatement(node) && node.awaitModifier !== undefined))
          awaits.push(node.getText(source));
        ts.forEachChild(node, visit);
      };
      visit(source);
      expect(awaits, file).toEqual([]);
    }
  });

  test('publint finds nothing', async ({ expect }) => {
    const { file } = tarball();
    const bytes = readFileSync(file);
    const tarballBytes = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    const { messages } = await publint({ pack: { tarball: tarballBytes }, strict: true });
    expect(messages).toEqual([]);
  });

  test('the types are right for modules, says attw', async ({ expect }) => {
    const { problems = [] } = (await checkPackage(
      createPackageFromTarballData(readFileSync(tarball().file)),
    )) as Analysis;
    // Its profile 'esm-only': what resolves like Node 10, or requires without `require` of modules, is not served.
    const ignored = new Set(['node10', 'node16-cjs']);
    expect(problems.filter((found) => !('resolutionKind' in found && ignored.has(found.resolutionKind)))).toEqual([]);
  });
});
