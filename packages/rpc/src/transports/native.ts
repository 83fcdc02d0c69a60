/** @file Functions of the C library, through the optional package `koffi`. */
import { createRequire } from 'node:module';

/** What this project uses of `koffi`. */
export interface Native {
  /** A function of the C library, by its declaration. @throws Error when there is none of that name. */
  func(declaration: string): (...args: unknown[]) => unknown;
}

interface Koffi {
  load(path: null): Native;
}

let loaded: Native | undefined;
let tried = false;

/** undefined where it cannot work: another system than Linux, or no `koffi`. Loading takes some 20 ms, once a process. */
export function native(): Native | undefined {
  if (!tried) {
    tried = true;
    loaded = process.platform === 'linux' ? load() : undefined;
  }
  return loaded;
}

function load(): Native | undefined {
  try {
    const koffi = createRequire(import.meta.url)('koffi') as Koffi;
    return koffi.load(null);
  } catch {
    return undefined;
  }
}
