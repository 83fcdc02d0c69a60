/** @file Finds a BLAS on this machine, makes sure that it is one, and calls it through the optional package `koffi`. */
import { TensorError } from '../errors.ts';
import { addressOf, loadKoffi, type Koffi, type Loaded, type Native } from './koffi.ts';
import { CHECK_SIZE, productsAreRight } from './product-check.ts';
import { requireHere } from './tfjs.ts';

/** Products of matrices of float32 in memory of this process. */
export interface BlasLibrary {
  readonly path: string;
  /** Where the memory of typed arrays over `buffer` starts. */
  addressOf(buffer: ArrayBufferLike): number;
  /** c[m, n] = op(a)[m, k] op(b)[k, n], row-major, and contiguous unless lines are said to lie so many elements apart; addresses in bytes. */
  multiply(
    m: number,
    n: number,
    k: number,
    a: number,
    turnA: boolean,
    b: number,
    turnB: boolean,
    c: number,
    add?: boolean,
    lineA?: number,
    lineB?: number,
    lineC?: number,
  ): void;
  /** undefined where the library takes no number of threads. */
  readonly setThreads: ((threads: number) => void) | undefined;
}

/** Where BLAS libraries are by default: those that are fast, with integers of 32 bits. The reference library is slower than our own kernels. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  linux: ['libopenblas.so.0', 'libopenblas.so', 'libmkl_rt.so.2', 'libmkl_rt.so', 'libblis.so.4', 'libblis.so'],
  darwin: [
    '/System/Library/Frameworks/Accelerate.framework/Accelerate',
    '/opt/homebrew/opt/openblas/lib/libopenblas.dylib',
    '/usr/local/opt/openblas/lib/libopenblas.dylib',
  ],
  win32: ['libopenblas.dll', 'mkl_rt.2.dll'],
};

/** What is missing where no library was found, and how to get one. */
const HOW =
  'libopenblas0-pthread on Debian and Ubuntu, openblas on Fedora and Homebrew; BACKWIRE_BLAS names another place';

/** Opens the library that BACKWIRE_BLAS names, 'none' being none, else the first of the usual ones. @throws TensorError with the path and the reason. */
export function openLibrary(): BlasLibrary {
  if (requireHere() === undefined) throw new TensorError('the blas backend needs Node');
  const koffi = loadKoffi();
  if (koffi === undefined) throw new TensorError("the blas backend needs the package 'koffi': npm install koffi");
  const named = process.env['BACKWIRE_BLAS'];
  if (named === 'none') throw new TensorError('BACKWIRE_BLAS is none');
  if (named !== undefined && named !== '') return openPath(koffi, named);
  const refused: string[] = [];
  for (const name of NAMES[process.platform] ?? []) {
    try {
      return openPath(koffi, name);
    } catch (error) {
      const { message } = error as Error;
      // One that is not there says nothing about those that are.
      if (!NOT_THERE.test(message)) refused.push(message);
    }
  }
  if (refused.length > 0) throw new TensorError(refused.join('; '));
  throw new TensorError(`there is no BLAS library on this machine (${HOW})`);
}

const NOT_THERE = /cannot open shared object file: No such file|no such file|could not be found|image not found/i;

function openPath(koffi: Koffi, path: string): BlasLibrary {
  let library: Loaded;
  try {
    library = koffi.load(path);
  } catch (error) {
    const why = foreign(path) ?? (error as Error).message;
    throw new TensorError(`BLAS ${path} was refused: it cannot be loaded: ${why}`);
  }
  library = fitToProcessor(koffi, library, path);
  const find = (declaration: string): Native | undefined => {
    try {
      return library.func(declaration);
    } catch {
      return undefined;
    }
  };
  const need = (name: string, declaration: string): Native => {
    const found = find(declaration);
    if (found !== undefined) return found;
    const wide = find(declaration.replace(name, `${name}64_`)) ?? find(declaration.replace(name, `scipy_${name}64_`));
    const why = wide === undefined ? `it has no ${name}` : `its ${name} takes integers of 64 bits`;
    throw new TensorError(`BLAS ${path} was refused: ${why}`);
  };
  const sgemm = need(
    'cblas_sgemm',
    'void cblas_sgemm(int, int, int, int, int, int, float, uintptr_t, int, uintptr_t, int, float, uintptr_t, int)',
  );
  const sdot = need('cblas_sdot', 'float cblas_sdot(int64_t, uintptr_t, int, uintptr_t, int)');
  const opened: BlasLibrary = {
    path,
    addressOf: (buffer) => addressOf(koffi, buffer),
    multiply: (
      m,
      n,
      k,
      a,
      turnA,
      b,
      turnB,
      c,
      add = false,
      lineA = turnA ? m : k,
      lineB = turnB ? k : n,
      lineC = n,
    ) => {
      const [left, right] = [turnA ? TURNED : PLAIN, turnB ? TURNED : PLAIN];
      sgemm(ROWS, left, right, m, n, k, 1, a, lineA, b, lineB, add ? 1 : 0, c, lineC);
    },
    setThreads: threadsOf(find),
  };
  try {
    checkIntegers(opened, sdot, path);
    checkProduct(opened, path);
  } catch (error) {
    library.unload();
    throw error;
  }
  return opened;
}

/** Processors by their number in the header of a library (`e_machine` of ELF), as `process.arch` names them. */
const MACHINES: Readonly<Record<number, string>> = {
  3: 'ia32',
  21: 'ppc64',
  22: 's390x',
  40: 'arm',
  62: 'x64',
  183: 'arm64',
  243: 'riscv64',
  258: 'loong64',
};

/** What is wrong with a library of Linux for another architecture. The system only says that there is no such file. */
function foreign(path: string): string | undefined {
  const { closeSync, openSync, readSync } = process.getBuiltinModule('node:fs');
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    // A name to be searched for, or nothing.
    return undefined;
  }
  try {
    const header = new DataView(new ArrayBuffer(20));
    if (readSync(file, header) < 20 || header.getUint32(0) !== ELF) return undefined;
    const leastByteFirst = header.getUint8(5) === 1;
    const machine = header.getUint16(18, leastByteFirst);
    const name = MACHINES[machine] ?? `machine ${machine}`;
    return name === process.arch ? undefined : `it is for ${name}, and this process is ${process.arch}`;
  } catch {
    // A folder, for one.
    return undefined;
  } finally {
    closeSync(file);
  }
}

const ELF = 0x7f454c46;

/** The constants of cblas.h. */
const ROWS = 101;
const PLAIN = 111;
const TURNED = 112;

/** OpenBLAS's names for processors that it does not know. */
const UNKNOWN = /^(prescott|generic|core2|nehalem|barcelona|atom)$/i;

/**
 * An OpenBLAS that is older than the processor takes it for one of 2004 and computes five times slower than it could: then it is loaded again
 * with the name of a processor that has the same instructions.
 */
function fitToProcessor(koffi: Koffi, library: Loaded, path: string): Loaded {
  if (process.platform !== 'linux' || process.env['OPENBLAS_CORETYPE'] !== undefined) return library;
  try {
    const core = library.func('const char *openblas_get_corename()')() as string;
    const better = UNKNOWN.test(core) ? processorLike() : undefined;
    if (better === undefined) return library;
    // In the C library's own environment: in a thread, process.env is a copy.
    koffi.load(null).func('int setenv(const char *, const char *, int)')('OPENBLAS_CORETYPE', better, 1);
    library.unload();
    return koffi.load(path);
  } catch {
    // Not OpenBLAS: it chooses by itself.
    return library;
  }
}

function processorLike(): string | undefined {
  const { readFileSync } = process.getBuiltinModule('node:fs');
  const flags = new Set(/^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1]?.split(' '));
  const all = (...names: string[]): boolean => names.every((name) => flags.has(name));
  if (all('avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl')) return 'SkylakeX';
  return all('avx2', 'fma') ? 'Haswell' : undefined;
}

function threadsOf(find: (declaration: string) => Native | undefined): ((threads: number) => void) | undefined {
  const set =
    find('void openblas_set_num_threads(int)') ??
    find('void MKL_Set_Num_Threads(int)') ??
    find('void bli_thread_set_num_threads(int64_t)');
  return set === undefined ? undefined : (threads) => void set(threads);
}

/** A count of 2 - 2^32 is 2 to who reads 32 bits, and negative, thus nothing, to who reads 64. */
function checkIntegers(library: BlasLibrary, sdot: Native, path: string): void {
  const x = Float32Array.of(2, 3);
  const at = library.addressOf(x.buffer);
  if (sdot(2 - 2 ** 32, at, 1, at, 1) !== 13)
    throw new TensorError(`BLAS ${path} was refused: its integers have 64 bits, or its products are wrong`);
}

function checkProduct(library: BlasLibrary, path: string): void {
  const memory = new Float32Array(CHECK_SIZE);
  const right = productsAreRight(memory, library.addressOf(memory.buffer), ({ m, n, k, a, turnA, b, turnB, out }) =>
    library.multiply(m, n, k, a, turnA, b, turnB, out),
  );
  if (!right) throw new TensorError(`BLAS ${path} was refused: a product of its is wrong`);
}
