/** @file The Vitest settings every package shares: tests run against the siblings' sources, with no build. */
import { basename, resolve } from 'node:path';
import { defineConfig, type ViteUserConfig } from 'vitest/config';

const conditions = ['@backwire/source'];

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
      pool: 'forks',
      maxWorkers: 2,
      testTimeout: 30_000,
      hookTimeout: 30_000,
      execArgv: [`--conditions=${conditions[0] ?? ''}`],
      reporters: ['default', 'json'],
      outputFile: { json: resolve(root, 'test-output/results.json') },
      ...overrides,
    },
  });
}
