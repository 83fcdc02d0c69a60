/** @file Functions of the C library, through the optional package `koffi`. */
import { attempt, once } from '../base/attempt.ts';

/** What this project uses of `koffi`. */
export interface Native {
  /** A function of the C library, by its declaration. @throws Error when there is none of that name. */
  func(declaration: string): (...args: unknown[]) => unknown;
}

interface Koffi {
  load(path: null): Native;
}

/** undefined where it cannot work: another system than Linux, or no `koffi`. Loading takes some 20 ms, once a process. */
export const native = once(() => (process.platform === 'linux' ? attempt(() => loadNative(koffiPath())) : undefined));

/** By a way that bundlers do not see: a thread looks for the package in its place, which a bundle would not have. */
function createRequire(from: string): NodeJS.Require {
  return process.getBuiltinModule('node:module').createRequire(from);
}

/** Where the package is. @throws Error when it is not installed. */
export function koffiPath(): string {
  return createRequire(import.meta.url).resolve('koffi');
}

/** The C library by the package at that place: a thread that runs from text cannot look for it. */
export function loadNative(koffi: string): Native {
  return (createRequire(koffi)(koffi) as Koffi).load(null);
}
