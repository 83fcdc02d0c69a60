/** @file The rehearsal of a release, once for all tests beside it: a registry, a clone, two releases, and projects that install them. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { Clone } from './clone.ts';
import { Project } from './project.ts';
import { openRegistry } from './registry.ts';

/** What the tests find. */
export interface Rehearsal {
  readonly registry: string;
  /** For npm, to use the registry. */
  readonly env: Readonly<Record<string, string>>;
  /** Where the releases were made. */
  readonly clone: string;
  /** Folders of projects: with everything of the first release, of the second, and with one package alone. */
  readonly projects: { readonly first: string; readonly second: string; readonly alone: string };
  /** What `nx release` said. */
  readonly said: { readonly dryRun: string; readonly first: string; readonly second: string };
  /** How long each step took, in seconds. */
  readonly seconds: Readonly<Record<string, number>>;
}

declare module 'vitest' {
  interface ProvidedContext {
    rehearsal: Rehearsal;
  }
}

/** The oldest compiler that has to understand the declarations: docs/versioning.md. */
export const LEAST_TYPESCRIPT = '5.7';

/** What the second release adds to one package, for the projects to find. */
export const FIX = { package: 'profiler', line: "\nexport const rehearsed = 'fixed';\n" } as const;

export default async function setUp(tests: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'backwire-release-'));
  mkdirSync(join(folder, 'projects'));
  const registry = await openRegistry(join(folder, 'registry'));
  const tearDown = async (): Promise<void> => {
    await registry.close();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    tests.provide('rehearsal', await rehearse(folder, registry.url, registry.env));
  } catch (error) {
    await tearDown();
    throw error;
  }
  return tearDown;
}

async function rehearse(folder: string, url: string, env: Readonly<Record<string, string>>): Promise<Rehearsal> {
  const seconds: Record<string, number> = {};
  const timed = async <T>(step: string, work: () => Promise<T>): Promise<T> => {
    const began = performance.now();
    const result = await work();
    seconds[step] = Math.round((performance.now() - began) / 100) / 10;
    return result;
  };
  const project = (name: string, ...packages: string[]): Promise<Project> =>
    timed(`project ${name}`, () => Project.make(join(folder, 'projects', name), env, packages));
  const clone = await timed('clone', () => Clone.make(join(folder, 'clone'), env));
  const released = async (step: string, ...args: string[]): Promise<string> =>
    timed(step, async () => {
      const { code, stdout, stderr } = await clone.nx('release', ...args);
      if (code !== 0) throw new Error(`nx release ${args.join(' ')}: exit code ${code}\n${stdout}${stderr}`);
      return stdout + stderr;
    });
  const dryRun = await released('dry run', '--dry-run');
  const first = await released('first release', '--yes');
  const one = await project('first', 'backwire', '@backwire/torch', 'tsx', 'ws', '@types/node@20');
  const alone = await project('alone', '@backwire/rpc', '@types/node@20', `typescript@${LEAST_TYPESCRIPT}`);
  await clone.commit(`fix(${FIX.package}): what is rehearsed`, `packages/${FIX.package}/src/index.ts`, FIX.line);
  const second = await released('second release', '--yes');
  const two = await project('second', 'backwire');
  return {
    registry: url,
    env,
    clone: clone.folder,
    projects: { first: one.folder, second: two.folder, alone: alone.folder },
    said: { dryRun, first, second },
    seconds,
  };
}
