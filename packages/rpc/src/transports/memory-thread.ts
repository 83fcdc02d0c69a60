/** @file The program of the second thread that reads the memory of another process: it takes parts of each job until none is left. */
import { workerData } from 'node:worker_threads';
import {
  DONE,
  ENDED,
  FAILED,
  PARTS,
  PART_MASK,
  READY,
  WORD,
  partReader,
  rangeReader,
  type MemoryThreadData,
} from './memory-parts.ts';
import { loadNative } from './native.ts';

const data = workerData as MemoryThreadData;
const libc = loadNative(data.koffi);
const readPart = partReader(rangeReader(libc));
const control = new Int32Array(data.control);
const job = new BigInt64Array(data.job);

Atomics.store(control, READY, Number(libc.func('int gettid()')()));
// Whoever ends it looks at READY after saying so, and this the other way round: one of the two sees the other's.
while (Atomics.load(control, ENDED) === 0) {
  const word = Atomics.load(control, WORD);
  const part = word & PART_MASK;
  if (part >= Atomics.load(control, PARTS)) {
    Atomics.wait(control, WORD, word);
    continue;
  }
  const [pid, to = 0n, from = 0n, length = 0n, partBytes = 0n] = job;
  // Fails when the job has changed since its word was read.
  if (Atomics.compareExchange(control, WORD, word, word + 1) !== word) continue;
  const at = BigInt(part) * partBytes;
  const left = length - at;
  let whole = false;
  try {
    whole = readPart(Number(pid), to + at, from + at, Number(left < partBytes ? left : partBytes));
  } finally {
    if (!whole) Atomics.store(control, FAILED, 1);
    Atomics.add(control, DONE, 1);
    Atomics.notify(control, DONE, 1);
  }
}
