/** @file What the main thread and the thread that owns the WebGPU device say to each other. */
import type { DeviceDType } from './backend.ts';

/** What the main thread asks for. Ids of tensors are chosen by the asker, so that nothing but `download` needs an answer. */
export type Command =
  | { readonly op: 'upload'; readonly id: number; readonly dtype: DeviceDType; readonly bytes: Uint8Array }
  | {
      readonly op: 'run';
      readonly id: number;
      readonly kernel: string;
      readonly inputs: Readonly<Record<string, readonly [id: number, shape: readonly number[]]>>;
      readonly attrs: Readonly<Record<string, unknown>>;
    }
  | { readonly op: 'free'; readonly id: number }
  | { readonly op: 'download'; readonly id: number };

/** The first message: what the driver calls itself, or why there is no device. */
export type Started = { readonly adapter: string } | { readonly error: string };

export type Answer = { readonly bytes: Uint8Array } | { readonly error: string };

/** What the thread uses of a port of Node, whose types no declaration of this package may need. */
interface ThreadPort {
  on(event: 'message', listener: (command: Command) => void): unknown;
  postMessage(answer: Answer | Started, transfer?: readonly ArrayBuffer[]): void;
}

/** What the thread is started with. */
export interface WebgpuThreadData {
  /** Where the packages are looked up from. */
  readonly base: string;
  readonly port: ThreadPort;
  /** Raised and notified with each answer. */
  readonly signal: Int32Array;
}
