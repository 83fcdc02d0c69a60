/** @file Programs of users on Bun and Deno, from the packages as they are published, and groups of several runtimes. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts, otherRuntime, SUPPORTED_OTHERS, type OtherRuntime, type Runtime } from '@backwire/testing';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { root } from '../workspace.ts';
import { answerOf, available, closeBrowser, group, here, start, testPrograms, type Place } from './programs.ts';

const { projects } = inject('rehearsal');
const CACHE = join(root, 'node_modules/.cache/runtimes');
const NAMES = ['bun', 'deno'] as const;
/** Ones that the packages refuse. */
const TOO_OLD = { bun: '1.3.14', deno: '2.7.14' };
/** What a runtime does not do, and why. */
const WITHOUT: Readonly<Record<OtherRuntime, readonly string[]>> = {
  bun: [],
  // It imports './model.js', which is model.ts, and Deno wants the name of the file; and that transport is not viable there.
  deno: ['backwire run with TypeScript', "threads with the transport 'port'"],
};

const had = (version: (name: OtherRuntime) => string): Promise<(Runtime | undefined)[]> =>
  Promise.all(NAMES.map((name) => available(`${name} ${version(name)}`, otherRuntime(name, version(name), CACHE))));
const newest = await had((name) => SUPPORTED_OTHERS[name].split('.')[0] ?? '');
const least = await had((name) => SUPPORTED_OTHERS[name]);
const tooOld = await had((name) => TOO_OLD[name]);

const at = (runtime: Runtime | undefined): Place => ({ folder: projects.first, runtime: runtime as Runtime });

afterAll(closeBrowser);

describe.each(NAMES.map((name, i) => [name, newest[i]] as const))('on %s', (name, runtime) => {
  describe
    .skipIf(runtime === undefined)
    .concurrent('from the registry', () => testPrograms(() => at(runtime), WITHOUT[name]));
});

test.skipIf(newest.includes(undefined))('workers on Node, Bun and Deno share a reference', async () => {
  const [bun, deno] = newest.map(at) as [Place, Place];
  const node = here(projects.first);
  for (const places of [
    [node, bun, deno],
    [deno, node, bun],
    [bun, deno, node],
  ])
    expect(await group(places, 'shared-reference.mjs')).toEqual([1, true, 11, 1]);
});

describe.skipIf(newest[0] === undefined || spawnSync('openssl', ['version']).status !== 0)(
  'certificates of workers on Node and Bun (made with openssl)',
  () => {
    let folder: string;
    const openssl = (line: string): Buffer =>
      execFileSync('openssl', line.split(' '), { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] });
    const node = here(projects.first);
    const bun = at(newest[0]);

    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), 'backwire-certificates-'));
      const key = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes';
      openssl(`req -x509 ${key} -keyout ca.key -out ca.pem -days 2 -subj /CN=ca`);
      for (const name of ['w0', 'w1', 'w2']) {
        writeFileSync(join(folder, `${name}.ext`), `subjectAltName=DNS:${name}`);
        openssl(`req ${key} -keyout ${name}.key -out ${name}.csr -subj /CN=${name}`);
        openssl(
          `x509 -req -in ${name}.csr -out ${name}.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ${name}.ext`,
        );
      }
    });
    afterAll(() => rmSync(folder, { recursive: true }));

    test.each([
      ['Node', 'Bun', node, bun],
      ['Bun', 'Node', bun, node],
      ['Bun', 'Bun', bun, bun],
    ])('%s calls %s where the names are in them, and nobody else', async (_caller, _callee, caller, callee) => {
      for (const [whose, answer] of [
        ['w1', 42],
        ['w2', 'unauthenticated'],
      ] as const) {
        const [port] = await freePorts(1);
        const env = { MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port), CERTIFICATES: folder, WHOSE: whose };
        const other = start(callee, ['certificates.mjs'], { ...env, RANK: '1' });
        try {
          expect(await answerOf(start(caller, ['certificates.mjs'], { ...env, RANK: '0' }))).toBe(answer);
        } finally {
          other.kill('SIGKILL');
        }
      }
    });
  },
);

describe.each(NAMES.map((name, i) => [name, least[i], tooOld[i]] as const))('%s', (name, first, before) => {
  test.skipIf(first === undefined)('runs it from the version on that is promised', async () => {
    expect(await group([at(first), at(first)], 'calls.mjs')).toMatchObject({ small: [2, 4, 6] });
  });

  test.skipIf(before === undefined)('is refused before, in one sentence', async () => {
    const proper = { bun: 'Bun 1.4', deno: 'Deno 2.8' }[name];
    await expect(answerOf(start(at(before), ['rpc-alone.mjs']))).rejects.toThrow(`Backwire needs ${proper} or newer`);
  });
});
