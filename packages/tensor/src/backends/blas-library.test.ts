/** @file Which BLAS libraries are taken, and what is said of those that are not. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { backendName } from '../index.ts';
import { openLibrary } from './blas-library.ts';

// Not made as the file is read: a file whose tests are all skipped runs no hooks, and nothing would take it away.
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'blas-'));
});
const before = process.env['BACKWIRE_BLAS'];
afterEach(() => {
  if (before === undefined) delete process.env['BACKWIRE_BLAS'];
  else process.env['BACKWIRE_BLAS'] = before;
});
afterAll(() => rmSync(folder, { recursive: true }));

const compiler = spawnSync('cc', ['--version']).status === 0;

/** A library of one file of C. */
function library(name: string, source: string): string {
  const [file, out] = [join(folder, `${name}.c`), join(folder, `${name}.so`)];
  writeFileSync(file, source);
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', out, file]);
  return out;
}

const gemm = (int: string, sum: string): string => `
  float cblas_sdot(${int} n, const float *x, ${int} ix, const float *y, ${int} iy) {
    float s = 0; for (${int} i = 0; i < n; i++) s += x[i * ix] * y[i * iy]; return s; }
  void cblas_sgemm(int o, int ta, int tb, ${int} m, ${int} n, ${int} k, float al, const float *a, ${int} la, const float *b, ${int} lb,
    float be, float *c, ${int} lc) {
    for (${int} i = 0; i < m; i++) for (${int} j = 0; j < n; j++) { float s = 0;
      for (${int} p = 0; p < k; p++) s += (ta == 111 ? a[i * la + p] : a[p * la + i]) * (tb == 111 ? b[p * lb + j] : b[j * lb + p]);
      c[i * lc + j] = ${sum}; } }`;

// One process is enough for them all.
describe.runIf(backendName() === 'cpu' && process.platform === 'linux')('a BLAS library', () => {
  const refusal = (path: string): string => {
    process.env['BACKWIRE_BLAS'] = path;
    try {
      openLibrary();
    } catch (error) {
      return (error as Error).message;
    }
    return 'taken';
  };

  it('that is not there is refused by its path', () => {
    expect(refusal('/nowhere/libblas.so')).toMatch(/^BLAS \/nowhere\/libblas\.so was refused: it cannot be loaded: /);
  });

  it('that is no library at all is refused with the reason', () => {
    const text = join(folder, 'text.so');
    writeFileSync(text, 'not a library');
    expect(refusal(text)).toMatch(/text\.so was refused: it cannot be loaded: .*(invalid ELF header|file too short)/);
  });

  it('for another architecture is refused as such, of which the system says that there is no such file', () => {
    const [mine, other, machine] = process.arch === 'arm64' ? ['arm64', 'x64', 62] : [process.arch, 'arm64', 183];
    const header = Buffer.alloc(64);
    // A shared library of 64 bits, least byte first.
    header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
    header.writeUInt16LE(3, 16);
    header.writeUInt16LE(machine, 18);
    header.writeUInt32LE(1, 20);
    const foreign = join(folder, 'foreign.so');
    writeFileSync(foreign, header);
    expect(refusal(foreign)).toBe(
      `BLAS ${foreign} was refused: it cannot be loaded: it is for ${other}, and this process is ${mine}`,
    );
  });

  it('without the products is refused', () => {
    expect(refusal('libm.so.6')).toBe('BLAS libm.so.6 was refused: it has no cblas_sgemm');
  });

  it.runIf(compiler)('is taken when its products are right', () => {
    expect(refusal(library('right', gemm('int', 'al * s + 0 * be')))).toBe('taken');
  });

  it.runIf(compiler)('with integers of 64 bits is refused', () => {
    expect(refusal(library('wide', gemm('long', 's')))).toMatch(/wide\.so was refused: its integers have 64 bits/);
    const named = library('named', 'void cblas_sgemm64_(void) {}');
    expect(refusal(named)).toBe(`BLAS ${named} was refused: its cblas_sgemm takes integers of 64 bits`);
  });

  it.runIf(compiler)('whose products are wrong is refused', () => {
    expect(refusal(library('wrong', gemm('int', 's + 1')))).toMatch(/wrong\.so was refused: a product of its is wrong/);
  });
});
