/** @file The heap's last blocks, as its allocator gives them. */
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm';
import { expect, it } from 'vitest';
import { Heap } from './heap.ts';

const PAGE = 65_536;

/** A heap of one page whose allocator gives `places`, one after the other, and takes back what is noted. */
function heapThatGives(...places: number[]): { heap: Heap; takenBack: number[] } {
  const takenBack: number[] = [];
  const memory = new WebAssembly.Memory({ initial: 1 });
  const wasm = { asm: { memory }, _malloc: () => places.shift() ?? 0, _free: (at: number) => void takenBack.push(at) };
  return { heap: new Heap({ wasm } as unknown as BackendWasm), takenBack };
}

it('has no place for a block that would end behind its memory, whatever the allocator says', () => {
  const { heap, takenBack } = heapThatGives(PAGE - 8192, PAGE - 8192, PAGE - 4096);
  expect(heap.make(1024, 'float32').at).toBe(PAGE - 8192);
  expect(() => heap.make(2048, 'float32')).toThrow('the WebAssembly heap has no place for 8192 bytes');
  expect(takenBack).toEqual([]);
});

it('gives freed blocks back to the allocator where there is no other place, and asks again', () => {
  const { heap, takenBack } = heapThatGives(64, 0, 4096);
  const first = heap.make(256, 'float32');
  heap.free(first);
  expect(heap.make(512, 'float32').at).toBe(4096);
  expect(takenBack).toEqual([64]);
});
