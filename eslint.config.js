import nx from '@nx/eslint-plugin';
import js from '@eslint/js';
import { defineConfig, globalIgnores } from 'eslint/config';
import { tsImport } from 'tsx/esm/api';
import tseslint from 'typescript-eslint';

/** This repository's own rules; those about imports go over the same graph as `npm run imports`. */
const { rules } = await tsImport('./tools/lint/rules.ts', import.meta.url);

/** Which layers each layer may import: arrows point down only. Tests of any layer may also use `layer:testing`. */
const below = {
  'layer:testing': [],
  'layer:tensor': [],
  'layer:wire': ['layer:tensor'],
  'layer:rpc': ['layer:wire', 'layer:tensor'],
  'layer:rref': ['layer:rpc', 'layer:wire', 'layer:tensor'],
  'layer:dist-autograd': ['layer:rref', 'layer:rpc', 'layer:wire', 'layer:tensor'],
  'layer:profiler': ['layer:rpc', 'layer:wire', 'layer:tensor'],
  'layer:launch': ['layer:rpc'],
  'layer:torch': ['layer:dist-autograd', 'layer:profiler', 'layer:rref', 'layer:rpc', 'layer:wire', 'layer:tensor'],
  'layer:umbrella': [
    'layer:launch',
    'layer:profiler',
    'layer:dist-autograd',
    'layer:rref',
    'layer:rpc',
    'layer:wire',
    'layer:tensor',
  ],
};

/** What pure files may not reach, protocol classes above all: they take events and a time in, and give effects out. */
const ambient = [
  'Date',
  'performance',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'queueMicrotask',
  'clearTimeout',
  'clearInterval',
  'FinalizationRegistry',
  'WeakRef',
  'process',
  'crypto',
  'fetch',
  'Atomics',
];
const ambientMessage = 'This file is pure: pass it in as an event, a time or a port.';

/** Engines that are in use do not know it, and its helpers would be a dependency that nobody declares. */
const noUsing = {
  selector: 'VariableDeclaration[kind=/using$/]',
  message: 'Published packages run where `using` is not known: scope(), or dispose in finally.',
};

/** Engines that are in use do not have it, and a method would be called 'undefined'. */
const noSymbolDispose = {
  selector: "MemberExpression[object.name='Symbol'][property.name=/^(d|asyncD)ispose$/]",
  message: 'Not every engine has it: DISPOSE and ASYNC_DISPOSE of @backwire/tensor/internal.',
};

export default defineConfig(
  globalIgnores([
    '**/dist/**',
    '**/out/**',
    '**/out-tsc/**',
    '**/test-output/**',
    '**/coverage/**',
    '**/src/gen/**',
    // AssemblyScript, which has types and operators of its own.
    'packages/tensor/assembly/**',
    '.nx/**',
    // Run, and type-checked, outside of the workspace.
    'apps/e2e/programs/**',
    // Kept to the letter: what it writes has to compile, not to please.
    'apps/e2e/src/contract/programs.ts',
  ]),
  js.configs.recommended,
  tseslint.configs.recommendedTypeChecked,
  {
    files: ['**/*.ts'],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    plugins: { '@nx': nx, backwire: { rules } },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': ['error', { checksVoidReturn: { attributes: false } }],
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrorsIgnorePattern: '^_' },
      ],
      '@typescript-eslint/only-throw-error': 'off',
      '@typescript-eslint/prefer-promise-reject-errors': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      'no-restricted-imports': ['error', { patterns: ['@backwire/*/src/*', '@backwire/*/dist/*'] }],
      '@nx/enforce-module-boundaries': [
        'error',
        {
          enforceBuildableLibDependency: true,
          allow: [],
          depConstraints: [
            ...Object.entries(below).map(([sourceTag, layers]) => ({
              sourceTag,
              onlyDependOnLibsWithTags: [...layers, ...(sourceTag === 'layer:testing' ? [] : ['layer:testing'])],
            })),
            { sourceTag: 'type:example', onlyDependOnLibsWithTags: ['*'] },
          ],
        },
      ],
    },
  },
  {
    files: ['packages/*/src/**/*.ts'],
    ignores: ['**/*.test.ts', '**/testdata/**', 'packages/testing/**'],
    rules: {
      'no-restricted-syntax': ['error', noUsing, noSymbolDispose],
      'no-restricted-imports': [
        'error',
        {
          paths: [{ name: '@backwire/testing', message: 'Only tests use the testing package.' }],
          patterns: ['@backwire/*/src/*', '@backwire/*/dist/*'],
        },
      ],
    },
  },
  {
    files: [
      'packages/*/src/protocol/**/*.ts',
      'packages/rpc/src/liveness/policy.ts',
      'packages/rpc/src/security/{handshake,strength}.ts',
      'packages/launch/src/{rendezvous,scheduler}.ts',
      'packages/torch/src/{nop,values,pickle,table,messages,pipe,gloo,group}/**/*.ts',
    ],
    ignores: ['**/*.test.ts'],
    rules: {
      'no-restricted-globals': ['error', ...ambient.map((name) => ({ name, message: ambientMessage }))],
      'no-restricted-properties': ['error', { object: 'Math', property: 'random', message: ambientMessage }],
      'no-restricted-syntax': [
        'error',
        noUsing,
        noSymbolDispose,
        { selector: 'AwaitExpression', message: ambientMessage },
        { selector: 'ImportDeclaration[source.value=/^node:/]', message: ambientMessage },
      ],
    },
  },
  { files: ['**/*.ts'], rules: { 'backwire/no-import-circles': 'error', 'backwire/no-using-in-loop': 'error' } },
  { files: ['packages/*/src/**/*.ts'], rules: { 'backwire/no-import-up': 'error' } },
  {
    files: ['packages/*/src/**/*.ts'],
    // Kernels, and operators that schemas of PyTorch give their arguments.
    ignores: [
      '**/*.test.ts',
      'packages/tensor/src/ops/{loops,gemm,elementwise,kernels}.ts',
      'packages/tensor/src/backends/{simd,blas-library}.ts',
      'packages/torch/src/operators/rules.ts',
    ],
    rules: { '@typescript-eslint/max-params': ['error', { max: 6 }] },
  },
  {
    files: ['**/*.test.ts'],
    rules: {
      '@typescript-eslint/no-explicit-any': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/unbound-method': 'off',
    },
  },
  { files: ['**/vitest.config.ts'], rules: { '@nx/enforce-module-boundaries': 'off' } },
  {
    files: ['**/*.js', '**/*.mjs', '**/*.cjs'],
    extends: [tseslint.configs.disableTypeChecked],
    languageOptions: { globals: { process: 'readonly', console: 'readonly' } },
  },
);
