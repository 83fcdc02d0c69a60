/** @file The Vitest settings every package shares: tests run against the siblings' sources, with no build. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { defineConfig, type ViteUserConfig } from 'vitest/config';
import type { Reporter } from 'vitest/reporters';

const conditions = ['@backwire/source'];

/** Keeps the errors that no test had (a process that died, a rejection nobody caught): the JSON report leaves them out. */
function strays(folder: string): Reporter {
  return {
    onTestRunEnd(_modules, errors) {
      const file = resolve(folder, 'strays.json');
      rmSync(file, { force: true });
      if (errors.length === 0) return;
      mkdirSync(folder, { recursive: true });
      writeFileSync(file, JSON.stringify(errors.map((e) => e.stack ?? e.message)));
    },
  };
}

/** Settings for the package in `root`; `overrides` are merged into its `test` section. */
export function shared(root: string, overrides: NonNullable<ViteUserConfig['test']> = {}): ViteUserConfig {
  return defineConfig({
    root,
    cacheDir: resolve(root, '../../node_modules/.vite', basename(root)),
    resolve: { conditions: [...conditions, 'node', 'import', 'module', 'default'] },
    ssr: { resolve: { conditions: [...conditions, 'node', 'import', 'module', 'default'] } },
    // Where global set-ups run.
    environments: { __vitest__: { resolve: { conditions: [...conditions, 'node', 'import', 'module', 'default'] } } },
    // `using` is not syntax to Node 20 and 22: tests and examples may write it, so it is lowered here.
    oxc: { target: 'es2022' },
    test: {
      name: basename(root),
      include: ['{src,test}/**/*.test.ts'],
      setupFiles: [resolve(import.meta.dirname, 'packages/testing/src/vitest-setup.ts')],
      pool: 'forks',
      maxWorkers: 2,
      testTimeout: 30_000,
      hookTimeout: 30_000,
      // What is waited for may cross processes, on a machine that is busy: the second that is the default measures the machine.
      expect: { poll: { timeout: 20_000 } },
      execArgv: [`--conditions=${conditions[0] ?? ''}`],
      reporters: ['default', 'json', strays(resolve(root, 'test-output'))],
      outputFile: { json: resolve(root, 'test-output/results.json') },
      ...overrides,
    },
  });
}
