/** @file Fresh projects outside of the repository, which installed what was published. */
import { cpSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { root, run } from '../workspace.ts';
import { FIX, LEAST_TYPESCRIPT } from './rehearsal.ts';
import { answerOf, group, here, start, type Place } from './programs.ts';
import { Project, type Resolution } from './project.ts';

const { projects } = inject('rehearsal');
const ran = (what: string, place: Place): void => console.log(`project '${basename(place.folder)}': ${what}`);

const versionOf = (folder: string, name: string): string =>
  (JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'), 'utf8')) as { version: string }).version;

test.each<[keyof typeof projects, Resolution, string, string]>([
  ['first', 'nodenext', 'types.ts', root],
  ['first', 'bundler', 'types.ts', root],
  ['first', 'nodenext', 'types-torch.ts', root],
  ['first', 'bundler', 'types-torch.ts', root],
  ['alone', 'nodenext', 'types-alone.ts', projects.alone],
])(
  "types in project '%s' under '%s': only the error on purpose, in the declarations none",
  async (name, resolution, file, modules) => {
    const project = Project.at(projects[name]);
    project.write('wrong.ts', "import { initRpc } from '@backwire/rpc';\nvoid initRpc({ name: 1 });\n");
    const errors = await project.typeErrors([file, 'wrong.ts'], resolution, modules);
    expect(errors).toEqual([expect.stringMatching(/^wrong\.ts.*TS2322/)]);
    const { version } = JSON.parse(readFileSync(join(modules, 'node_modules/typescript/package.json'), 'utf8')) as {
      version: string;
    };
    ran(`type-checks with TypeScript ${version} under '${resolution}' with skipLibCheck: false`, here(project.folder));
  },
);

test('the compiler says what is wrong where it is wrong', async () => {
  const project = Project.at(projects.first);
  const mistakes: readonly (readonly [line: string, said: RegExp])[] = [
    ["remote('w1', Counter);", /TS2345.*the arguments are not those of the constructor/],
    ["remote('w1', class {}, []);", /TS2769/],
    ["remote('w1', (n: number) => n, [1]);", /TS2769/],
    ["remote('w1', upTo, [1]);", /TS2769/],
    ["remote('w1', Counter, ['one']);", /TS2769/],
    ["rpcSync('w1', scale);", /TS2554: Expected 3-4 arguments, but got 2/],
    ["rpcSync('w1', scale, [1, 'two']);", /\(\d+,26\).*TS2322: Type 'string' is not assignable to type 'number'/],
    ["rpcSync('w1', (n: number) => n, [1]);", /TS2345.*not known to peers/],
  ];
  const head = `import { remote, rpcClass, rpcFunction, rpcName, rpcSync } from 'backwire';
class Counter { static readonly [rpcName] = 'Counter'; n: number; constructor(n: number) { this.n = n; } }
rpcClass(Counter, { methods: [] });
const scale = rpcFunction('scale', (x: number, by: number) => x * by);
const upTo = rpcFunction('upTo', function* (n: number) { yield n; });
`;
  project.write(
    'mistakes.ts',
    `${head}${mistakes.map(([line]) => line).join('\n')}\nawait remote('w1', Counter, [1]).toHere();\n`,
  );
  const errors = await project.typeErrors(['mistakes.ts'], 'nodenext');
  const first = head.split('\n').length;
  expect(errors).toEqual(mistakes.map(([, said]) => expect.stringMatching(said)));
  expect(errors.map((error) => Number(/\((\d+),/.exec(error)?.[1]))).toEqual(mistakes.map((_, i) => first + i));
});

test('the compiler of the project with one package is the oldest that is promised', () => {
  expect(versionOf(projects.alone, 'typescript')).toMatch(new RegExp(`^${LEAST_TYPESCRIPT}\\.`));
  expect(readFileSync(join(root, 'docs/versioning.md'), 'utf8')).toContain(`TypeScript ${LEAST_TYPESCRIPT} and newer`);
});

test('the programs of the documentation have no errors under the tsconfig.json that it gives', async () => {
  const start = readFileSync(join(root, 'docs/start.md'), 'utf8');
  const [, config = ''] = /`tsconfig\.json`[^`]*```json\n([^`]*)```/.exec(start) ?? [];
  const project = Project.at(projects.first);
  project.write(
    'tsconfig.documented.json',
    JSON.stringify({ ...(JSON.parse(config) as object), include: ['documented'], exclude: ['**/*.test.ts'] }),
  );
  cpSync(join(root, 'apps/site/programs'), join(project.folder, 'documented'), { recursive: true });
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { stdout } = await run(process.execPath, [tsc, '-p', 'tsconfig.documented.json'], { cwd: project.folder });
  expect(stdout).toBe('');
});

test('one package with its dependencies makes calls', async () => {
  expect(await group([here(projects.alone), here(projects.alone)], 'rpc-alone.mjs')).toEqual([2, 4]);
  ran('two workers with @backwire/rpc alone call each other', here(projects.alone));
});

test.each(['first', 'second'] as const)('everything, of the %s release', async (release) => {
  expect(await group([here(projects[release]), here(projects[release])], 'calls.mjs')).toMatchObject({
    small: [2, 4, 6],
  });
  ran('two workers with backwire call each other', here(projects[release]));
});

test('workers of both releases call each other', async () => {
  expect(await group([here(projects.first), here(projects.second)], 'calls.mjs')).toMatchObject({ small: [2, 4, 6] });
  expect(await group([here(projects.second), here(projects.first)], 'calls.mjs')).toMatchObject({ small: [2, 4, 6] });
  ran('a worker of the first release and one of the second call each other', here(projects.second));
});

test('the second release has the fix, by the package that was fixed and by the umbrella, and nothing else is new', async () => {
  const look = async (folder: string): Promise<unknown> =>
    answerOf(
      start(here(folder), [
        '--input-type=module',
        '--eval',
        `
      import * as fixed from '@backwire/${FIX.package}';
      import { ${FIX.package} } from 'backwire';
      console.log('answer', JSON.stringify([fixed.rehearsed ?? null, ${FIX.package}.rehearsed ?? null]));`,
      ]),
    );
  expect(await look(projects.first)).toEqual([null, null]);
  expect(await look(projects.second)).toEqual(['fixed', 'fixed']);
  for (const name of [`@backwire/${FIX.package}`, 'backwire'])
    expect(versionOf(projects.second, name), name).not.toBe(versionOf(projects.first, name));
  for (const name of ['@backwire/tensor', '@backwire/wire', '@backwire/rpc', '@backwire/rref', '@backwire/launch'])
    expect(versionOf(projects.second, name), name).toBe(versionOf(projects.first, name));
});
