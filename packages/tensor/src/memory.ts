/** @file What is alive. */
import { storageCounts } from './storage.ts';

/**
 * Handles (and values that graphs saved), storages, and the bytes of those storages. Storages that the collector freed are counted out at
 * a later turn of the event loop, with all that owned them. A handle or a saved value that only the collector has seen go stays in `tensors`
 * for as long as its storage lives: telling the collector of each would cost a tenth of a small call. So passes that record and are never
 * followed by `backward`, over a parameter that lives on, raise `tensors` alone; `dispose` of that parameter then leaves its memory to the
 * collector. Where nothing is to be recorded, `noGrad` saves nothing, and `scope` lets handles go in any case.
 */
export function memory(): { tensors: number; storages: number; bytes: number } {
  const { refs, storages, bytes } = storageCounts();
  return { tensors: refs, storages, bytes };
}
