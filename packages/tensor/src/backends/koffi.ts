/** @file The optional package `koffi`, which calls libraries of this machine. */
import { requireHere } from './tfjs.ts';

export type Native = (...args: unknown[]) => unknown;

export interface Loaded {
  func(declaration: string): Native;
  symbol(name: string, type: string): object;
  unload(): void;
}

export interface Koffi {
  load(path: string | null): Loaded;
  /** Of memory, or of a symbol. */
  address(value: object): bigint | number;
}

/** undefined where it is not installed, or not for this platform. */
export function loadKoffi(): Koffi | undefined {
  const require = requireHere();
  if (require === undefined) return undefined;
  try {
    return require('koffi') as Koffi;
  } catch {
    return undefined;
  }
}

/** Where the memory of typed arrays over `buffer` starts in this process. */
export const addressOf = (koffi: Koffi, buffer: ArrayBufferLike): number =>
  Number(koffi.address(new Uint8Array(buffer)));
