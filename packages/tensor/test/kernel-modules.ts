/** @file Both modules of our kernels, for tests of what they compute: without and with the relaxed instructions, which Node 20 has behind a flag. */
import { setFlagsFromString } from 'node:v8';
import { beforeAll, describe, expect } from 'vitest';
import { CONSTANTS_BYTES, hasRelaxed, startSimd, type SimdExports } from '../src/backends/simd.ts';
import { backendName } from '../src/index.ts';

/** The memory that kernels are tested in; the last 64 KiB are for their constants. */
export const memory = new WebAssembly.Memory({ initial: 81 });
const CONSTANTS = 80 * 65_536;

/** Where each constant stands, with what comes after them. */
export const constants = new Float32Array(memory.buffer, CONSTANTS, (CONSTANTS_BYTES >> 2) + 4);

if (!hasRelaxed()) setFlagsFromString('--experimental-wasm-relaxed-simd');

/** By what they are called in tests. */
export const MODULES: readonly (readonly [string, SimdExports])[] = [
  ['rounded twice', startSimd(memory, CONSTANTS, false)],
  ['rounded once', startSimd(memory, CONSTANTS, true)],
];

let current: SimdExports = {};

/** Calls a kernel of the module whose turn it is. */
export function call(name: string, ...args: number[]): number | void {
  const kernel = current[name];
  if (kernel === undefined) throw new Error(`there is no kernel '${name}'`);
  return kernel(...args);
}

/** Puts elements at `at`; answers it. */
export function put(at: number, values: ArrayLike<number>): number {
  new Float32Array(memory.buffer, at, values.length).set(values);
  return at;
}

/** What nobody computes: around results, and after what a kernel may use. */
export const CANARY = 12345;

/** What a kernel writes at `at`, with nothing changed on either side. */
export function written(at: number, n: number, kernel: () => void): Float32Array {
  const around = new Float32Array(memory.buffer, at - 16, n + 8);
  around.fill(CANARY);
  kernel();
  expect([...around.subarray(0, 4), ...around.subarray(n + 4)]).toEqual(Array(8).fill(CANARY));
  return around.slice(4, n + 4);
}

/** Tests of kernels, which are the same on every backend of the host: once for each module. */
export function describeKernels(name: string, tests: () => void): void {
  for (const [kind, module] of MODULES)
    describe.runIf(backendName() === 'wasm')(`${name} (${kind})`, () => {
      beforeAll(() => {
        current = module;
      });
      tests();
    });
}
