/** @file Compiles the kernels in `assembly/`, which are AssemblyScript, to WebAssembly. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** No runtime, no memory and no data of their own, nothing imported but what `src/backends/simd.ts` gives. */
const FLAGS = [
  ...['--runtime', 'stub', '--importMemory', '--noExportMemory', '--noAssert', '--use', 'abort='],
  ...['-O3', '--converge', '--enable', 'simd'],
];

/** What one module uses that the other does without: multiplications and additions that are rounded once. */
const RELAXED = ['--enable', 'relaxed-simd'];

/** A module's bytes. Not by the compiler's interface: its types would be this package's globals. @throws Error with the compiler's messages. */
function compiled(flags: readonly string[]): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), 'kernels-'));
  try {
    const out = join(folder, 'kernels.wasm');
    const compiler = createRequire(import.meta.url).resolve('assemblyscript/bin/asc.js');
    const cwd = fileURLToPath(new URL('..', import.meta.url));
    execFileSync(process.execPath, [compiler, 'assembly/index.ts', '--outFile', out, ...flags], { cwd, stdio: 'pipe' });
    return readFileSync(out);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The source file that holds both modules, in base64. */
export function moduleText(): string {
  const text = (flags: readonly string[]): string => Buffer.from(compiled(flags)).toString('base64');
  return [
    '/** @file Generated from `assembly/` by `npm run generate`; do not edit. */',
    '',
    '/** The kernels as a WebAssembly module, in base64. */',
    'export const SIMD_MODULE =',
    `  '${text(FLAGS)}';`,
    '',
    '/** The same of the relaxed instructions, which not every engine has. */',
    'export const RELAXED_MODULE =',
    `  '${text([...FLAGS, ...RELAXED])}';`,
    '',
  ].join('\n');
}
