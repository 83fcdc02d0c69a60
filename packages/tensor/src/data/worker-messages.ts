/** @file What a loader and its threads say to each other. */
import type { Packed } from './packing.ts';

/** Under this key of a function that `workerDataset` made lies the rest of a thread's program, out of the package that the function's module uses. */
export const SERVE: unique symbol = Symbol.for('backwire.tensor.data.serve');
/** Set in the threads of loaders, before any module of the program is loaded there. */
export const IN_LOADER_THREAD: unique symbol = Symbol.for('backwire.tensor.data.thread');

/** An export of a module. */
export interface ModuleExport {
  readonly url: string;
  readonly name: string;
}

/**
 * How a thread makes its copy of a data set. `args` are cloned, memory that is shared stays so; `random` is where the random numbers were
 * when the program opened it, so that each copy draws the same.
 */
export type DatasetRecipe =
  | (ModuleExport & { readonly kind: 'module'; readonly args: readonly unknown[]; readonly random: Uint32Array })
  | { readonly kind: 'subset'; readonly of: DatasetRecipe; readonly indices: ArrayLike<number> }
  | { readonly kind: 'concat'; readonly of: readonly DatasetRecipe[] };

/** What all threads of a loader are told alike. */
export interface LoaderThreadPlan {
  /** The module that is loaded first, and has the program under SERVE. */
  readonly entry: ModuleExport;
  readonly recipe: DatasetRecipe;
  /** Whether the data set is one that is read, which is closed before its thread ends. */
  readonly stream: boolean;
  readonly numWorkers: number;
  /** null for samples without batches. */
  readonly batchSize: number | null;
  readonly dropLast: boolean;
  readonly collate: ModuleExport | undefined;
  readonly workerInit: ModuleExport | undefined;
  /** The module whose `register` makes Node load TypeScript, where it is needed. */
  readonly typescript: string | undefined;
}

export interface LoaderThreadData extends LoaderThreadPlan {
  readonly id: number;
  /** Of its first epoch. */
  readonly seed: number;
}

export type Order =
  /** What follows belongs to this epoch. */
  | { readonly op: 'epoch'; readonly epoch: number; readonly seed: number }
  /** The batch of these samples, the one sample, or what comes next in the stream. */
  | { readonly op: 'fetch'; readonly epoch: number; readonly task: number; readonly of: Wanted }
  /** What is left of this epoch is not wanted any more. */
  | { readonly op: 'cancel'; readonly epoch: number }
  /** The thread closes its stream and ends. */
  | { readonly op: 'stop' };

export type Wanted = readonly number[] | number | undefined;

export type Report =
  | { readonly op: 'batch'; readonly task: number; readonly batch: Packed }
  /** The thread's stream is over. */
  | { readonly op: 'end'; readonly task: number }
  /** Without a task the thread could not begin, and ends. */
  | {
      readonly op: 'failed';
      readonly task: number | undefined;
      readonly index: number | undefined;
      readonly error: PackedError;
    };

/** An error, with the words of the thread: its class stays there. Something else that was thrown is in `message`. */
export interface PackedError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly code: string | undefined;
}

export function packError(thrown: unknown): PackedError {
  if (!(thrown instanceof Error)) return { name: 'Error', message: String(thrown), stack: undefined, code: undefined };
  const { name, message, stack } = thrown;
  const { code } = thrown as { code?: unknown };
  return { name, message, stack, code: typeof code === 'string' ? code : undefined };
}

export function unpackError({ name, message, stack, code }: PackedError): Error {
  const error = new Error(message);
  Object.defineProperty(error, 'name', { value: name, configurable: true, writable: true });
  if (stack !== undefined) error.stack = stack;
  return code === undefined ? error : Object.assign(error, { code });
}

/** The part of a thread's port that its program uses. */
export interface ThreadPort {
  postMessage(report: Report, transfer?: readonly ArrayBuffer[]): void;
  on(event: 'message', listener: (order: Order) => void): unknown;
}

/** The rest of a thread's program. Resolves once it listens. */
export type Serve = (
  port: ThreadPort,
  start: LoaderThreadData,
  importModule: (url: string) => Promise<Readonly<Record<string, unknown>>>,
) => Promise<void>;
