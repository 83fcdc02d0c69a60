/** @file Holds a lease of a store from a ticket: what a thread needs of the stores' clients. */
import { embeddedHolder, type SharedLinks } from './embedded-holder.ts';
import { writeBeatSync } from '../stores/beat-file.ts';
import { EtcdApi } from '../stores/etcd-api.ts';
import type { EtcdTicket, FileTicket, HolderEvents, LeaseHolder, LeaseTicket } from '../stores/ticket.ts';
import { BUSY_AGE_MS } from './policy.ts';
import { RedisHolder } from './redis-holder.ts';

export function holderOf(ticket: LeaseTicket, events: HolderEvents, links: SharedLinks): LeaseHolder {
  switch (ticket.kind) {
    case 'embedded':
      return embeddedHolder(ticket, events, links);
    case 'etcd':
      return new EtcdHolder(ticket);
    case 'redis':
      return new RedisHolder(ticket, events);
    case 'file':
      return fileHolder(ticket);
  }
}

/** Renewals of a lease in etcd in its time: each is a stream of its own there, and a thousand workers are as many. */
const RENEWALS_PER_TTL = 4;
/** An endpoint that is silent for longer, or for the time between two renewals, keeps the lease from the next one. */
const ETCD_REQUEST_MS = 3_000;

class EtcdHolder implements LeaseHolder {
  private readonly ticket: EtcdTicket;
  private readonly api: EtcdApi;
  private readonly closing = new AbortController();
  private readonly betweenMs: number;
  /**
   * The age that etcd has, which writes every one to disk: the next says something new where it says that the holder is busy and this does
   * not, or that it is no more, or where it has grown by as much as is between two renewals.
   */
  private toldMs: number | undefined;
  private renewedAt = -Infinity;
  /** The renewal that is under way. */
  private going: Promise<boolean> | undefined;

  constructor(ticket: EtcdTicket) {
    this.ticket = ticket;
    this.betweenMs = ticket.ttlMs / RENEWALS_PER_TTL;
    const requestMs = Math.min(ETCD_REQUEST_MS, this.betweenMs);
    this.api = new EtcdApi(ticket.endpoints, { requestMs, strict: true });
  }

  /** One at a time: an etcd that is slow is not asked more for it. */
  hold(ageMs: number): Promise<boolean> {
    this.going ??= this.holdOnce(ageMs).finally(() => (this.going = undefined));
    return this.going;
  }

  private async holdOnce(ageMs: number): Promise<boolean> {
    const { id, ageKey } = this.ticket;
    const isNews = this.saysMore(ageMs);
    if (!isNews && performance.now() - this.renewedAt < this.betweenMs) return true;
    if (!(await this.renew())) return false;
    if (!isNews) return true;
    this.toldMs = undefined;
    const value = Buffer.from(`${ageMs}`).toString('base64');
    await this.api.call('/v3/kv/put', { key: ageKey, value, lease: id }, this.closing.signal);
    this.toldMs = ageMs;
    return true;
  }

  /** One that was waited for in vain has taken the next turn's time, and is made again at once: the turn after that may be too late. */
  private async renew(): Promise<boolean> {
    const { id } = this.ticket;
    const began = performance.now();
    let askedAt = began;
    const alive = await this.api.keepAlive(id, this.closing.signal).catch((error: unknown) => {
      askedAt = performance.now();
      if (this.closing.signal.aborted || askedAt - began < this.betweenMs / 2) throw error;
      return this.api.keepAlive(id, this.closing.signal);
    });
    // What etcd counts from is when it was asked, or later.
    if (alive) this.renewedAt = askedAt;
    return alive;
  }

  private saysMore(ageMs: number): boolean {
    const { toldMs } = this;
    if (toldMs === undefined) return true;
    const isBusy = ageMs >= BUSY_AGE_MS;
    return isBusy !== toldMs >= BUSY_AGE_MS || (isBusy && Math.abs(ageMs - toldMs) >= this.betweenMs);
  }

  close(): void {
    this.closing.abort();
  }
}

function fileHolder({ path }: FileTicket): LeaseHolder {
  return {
    hold: async () => {
      // Different each time, and from what the main thread writes.
      writeBeatSync(path, `thread ${process.hrtime.bigint()}`);
      return true;
    },
    close: () => undefined,
  };
}
