/** @file The program of the liveness thread: renews the leases of a process while its main loop computes, and tells the store when that last turned. */
import { parentPort, workerData } from 'node:worker_threads';
import type { LeaseHolder, LeaseTicket } from '../stores/ticket.ts';
import { SharedLinks } from './embedded-holder.ts';
import { holderOf } from './lease-holder.ts';

/** What the thread is started with. */
export interface LeaseThreadData {
  /** The time (hrtime) of the main loop's last turn. */
  readonly tick: SharedArrayBuffer;
}

/** What the thread is told. Each lease has a number. */
export type LeaseOrder =
  | { readonly do: 'hold'; readonly lease: number; readonly ticket: LeaseTicket; readonly everyMs: number }
  | { readonly do: 'drop'; readonly lease: number };

/** A lease was renewed, which is posted every time, or is gone: then nothing more is done for it. */
export interface LeaseNews {
  readonly lease: number;
  readonly is: 'renewed' | 'lost';
}

interface Held {
  readonly holder: LeaseHolder;
  readonly timer: NodeJS.Timeout;
}

const { tick } = workerData as LeaseThreadData;
const ticks = new BigInt64Array(tick);
const links = new SharedLinks();
const held = new Map<number, Held>();

parentPort?.on('message', (order: LeaseOrder) => {
  if (order.do === 'hold') take(order);
  else drop(order.lease);
});

function take({ lease, ticket, everyMs }: Extract<LeaseOrder, { do: 'hold' }>): void {
  const renew = (): void => void hold(lease, holder);
  const holder = holderOf(ticket, { again: renew, lost: () => lost(lease) }, links);
  held.set(lease, { holder, timer: setInterval(renew, everyMs) });
  renew();
}

/** Out of reach is not gone: the next turn tries again. */
async function hold(lease: number, holder: LeaseHolder): Promise<void> {
  const ageMs = Math.max(0, Math.round(Number(process.hrtime.bigint() - Atomics.load(ticks, 0)) / 1e6));
  const alive = await holder.hold(ageMs).catch(() => undefined);
  if (!held.has(lease)) return;
  if (alive === true) post({ lease, is: 'renewed' });
  else if (alive === false) lost(lease);
}

function lost(lease: number): void {
  if (drop(lease)) post({ lease, is: 'lost' });
}

function drop(lease: number): boolean {
  const { holder, timer } = held.get(lease) ?? {};
  clearInterval(timer);
  holder?.close();
  return held.delete(lease);
}

function post(news: LeaseNews): void {
  parentPort?.postMessage(news);
}
