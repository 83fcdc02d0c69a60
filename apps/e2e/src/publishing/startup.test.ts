/** @file What the commands load at start, which is nearly all that they cost there; the time itself is in `npm run bench -- --suite startup`. */
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { here, start } from './programs.ts';

const { projects } = inject('rehearsal');
const CLI = join(projects.first, 'node_modules/backwire/dist/cli.js');

/** As Node writes it for `NODE_V8_COVERAGE`. */
interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly [{ readonly ranges: readonly [{ readonly endOffset: number }] }];
  }[];
}

/** The package of every module that the command loads, and the characters of all of them. */
async function loaded(args: readonly string[]): Promise<{ packages: string[]; characters: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'backwire-startup-'));
  try {
    await once(start(here(projects.first), [CLI, ...args], { NODE_V8_COVERAGE: folder }), 'close');
    const scripts = readdirSync(folder)
      .flatMap((file) => (JSON.parse(readFileSync(join(folder, file), 'utf8')) as Coverage).result)
      .filter(({ url }) => url.startsWith('file:'));
    const packages = scripts.map(({ url }) => /.*node_modules\/((@[^/]*\/)?[^/]*)/.exec(url)?.[1] ?? url);
    const characters = scripts.reduce((sum, { functions }) => sum + functions[0].ranges[0].endOffset, 0);
    return { packages: [...new Set(packages)].sort(), characters };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test('backwire --version loads the command alone', async () => {
  const { packages, characters } = await loaded(['--version']);
  expect(packages).toEqual(['backwire']);
  expect(characters).toBeLessThan(10_000);
});

test('backwire inspect loads what connections take, and no kernel', async () => {
  const { packages, characters } = await loaded(['inspect', '127.0.0.1:9', '--timeout', '0.05']);
  const layers = ['launch', 'rpc', 'tensor', 'wire'].map((name) => `@backwire/${name}`);
  expect(packages).toEqual([...layers, '@bufbuild/protobuf', 'backwire', 'nanoid']);
  expect(characters).toBeLessThan(2_000_000);
});
