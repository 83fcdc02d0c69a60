/** @file What a kernel of ours on the WebAssembly heap is. */
import type { DeviceTensor } from './backend.ts';
import type { Block, Heap } from './heap.ts';

export type Inputs = Readonly<Record<string, DeviceTensor>>;
export type Attrs = Readonly<Record<string, unknown>>;
/** One kernel: reads its inputs, writes a block of its own. */
export type OwnKernel = (heap: Heap, inputs: Inputs, attrs: Attrs) => Block;
