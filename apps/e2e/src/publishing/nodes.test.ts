/** @file Programs of users on every Node that the packages promise to run on, from the packages as they are published. */
import { join } from 'node:path';
import { nodeOf, SUPPORTED_NODES, type Runtime } from '@backwire/testing';
import { afterAll, describe, expect, inject, test } from 'vitest';
import { root } from '../workspace.ts';
import { answerOf, available, backwire, closeBrowser, start, testPrograms } from './programs.ts';

const { projects } = inject('rehearsal');
const CACHE = join(root, 'node_modules/.cache/nodes');
/** One that the packages refuse. */
const TOO_OLD = 18;

const had = (major: number): Promise<Runtime | undefined> => available(`Node ${major}`, nodeOf(major, CACHE));
const nodes = await Promise.all(SUPPORTED_NODES.map(had));
const tooOld = await had(TOO_OLD);

afterAll(closeBrowser);

describe.each(SUPPORTED_NODES.map((major, i) => [major, nodes[i]] as const))('on Node %i', (major, node) => {
  describe.skipIf(node === undefined).concurrent('from the registry', () => {
    testPrograms(() => ({ folder: projects.first, runtime: node as Runtime }));

    test('TypeScript without tsx: Node strips the types where it can, and what it cannot names tsx', async () => {
      const bare = { folder: projects.second, runtime: node as Runtime };
      const run = (file: string): Promise<unknown> =>
        answerOf(backwire(bare, ['run', '--standalone', '--nproc-per-node', '2', file]));
      if (major === 20) {
        await expect(run('launched/erasable.ts')).rejects.toThrow(
          /cannot run the TypeScript program .*install tsx next to it/,
        );
        return;
      }
      expect(await run('launched/erasable.ts')).toBe(2);
      await expect(run('launched/main.ts')).rejects.toThrow(/hint: Node's own type stripping ran it, for want of tsx/);
    });
  });
});

describe.skipIf(tooOld === undefined)(`Node ${TOO_OLD}`, () => {
  const place = { folder: projects.first, runtime: tooOld as Runtime };
  const sentence = /Node 20\.19 or newer(;| is needed;) this is Node 18\.\d+\.\d+\n/;

  test('is refused by the command in one sentence', async () => {
    const error: unknown = await answerOf(backwire(place, ['run', 'calls.mjs'])).catch((thrown: unknown) => thrown);
    const [, first, ...rest] = (error as Error).message.split('\n');
    expect(`${first ?? ''}\n`).toMatch(sentence);
    expect(rest.join('')).toBe('');
  });

  test('is refused by an import', async () => {
    await expect(answerOf(start(place, ['rpc-alone.mjs']))).rejects.toThrow(sentence);
  });
});
