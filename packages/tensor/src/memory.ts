/** @file What is alive. */
import { storageCounts } from './storage.ts';

/**
 * Handles (and values that graphs saved), storages, and the bytes of those storages. What the collector freed is counted out at a
 * later turn of the event loop.
 */
export function memory(): { tensors: number; storages: number; bytes: number } {
  const { refs, storages, bytes } = storageCounts();
  return { tensors: refs, storages, bytes };
}
