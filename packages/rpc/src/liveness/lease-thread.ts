/** @file The program of the liveness thread: renews a lease while the main loop computes, and tells the store when that last turned. */
import { parentPort, workerData } from 'node:worker_threads';
import type { LeaseTicket } from '../stores/ticket.ts';
import { holderOf } from './lease-holder.ts';

/** What the thread is started with. */
export interface LeaseThreadData {
  readonly ticket: LeaseTicket;
  readonly everyMs: number;
  /** The time (hrtime) of the main loop's last turn. */
  readonly tick: SharedArrayBuffer;
}

/** The lease was renewed, which is posted every time, or is gone: then the thread ends. */
type LeaseThreadMessage = 'renewed' | 'lost';

const { ticket, everyMs, tick } = workerData as LeaseThreadData;
const ticks = new BigInt64Array(tick);
const post = (message: LeaseThreadMessage): void => parentPort?.postMessage(message);

const holder = holderOf(ticket, { again: () => void hold(), lost });
const timer = setInterval(() => void hold(), everyMs);
void hold();

/** Out of reach is not gone: the next turn tries again. */
async function hold(): Promise<void> {
  const ageMs = Math.max(0, Math.round(Number(process.hrtime.bigint() - Atomics.load(ticks, 0)) / 1e6));
  const alive = await holder.hold(ageMs).catch(() => undefined);
  if (alive === true) post('renewed');
  else if (alive === false) lost();
}

function lost(): void {
  clearInterval(timer);
  holder.close();
  post('lost');
}
