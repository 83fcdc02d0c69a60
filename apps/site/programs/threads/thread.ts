import { workerData } from 'node:worker_threads';
import { initRpc, setNumThreads, shutdown } from 'backwire';
import './lengths.ts'; // every thread loads what it is to be called for

const { store, rank, worldSize } = workerData as { store: string; rank: number; worldSize: number };
setNumThreads(1); // the threads are the parallelism; kernels need none of their own
await initRpc({ name: `thread${rank}`, rank, worldSize, store, transports: ['port'] });
await shutdown(); // answers calls until all have called it
