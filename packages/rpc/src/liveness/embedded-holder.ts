/** @file Holds leases of embedded stores from their tickets, all of one store over one connection. */
import { EmbeddedLink } from '../stores/embedded-link.ts';
import { holdBody, Op } from '../stores/protocol.ts';
import type { EmbeddedTicket, HolderEvents, LeaseHolder } from '../stores/ticket.ts';
import { tcpTransport } from '../transports/tcp.ts';
import { tlsTransport } from '../transports/tls.ts';

/** A connection to a store, and whom it tells of which lease. */
interface Shared {
  readonly link: EmbeddedLink;
  readonly holders: Map<number, HolderEvents>;
}

/** The connections of a thread. */
export class SharedLinks {
  private readonly links = new Map<string, Shared>();

  /** The connection for a ticket, and what ends this share of it: with the last one the connection is closed. */
  join(ticket: EmbeddedTicket, events: HolderEvents): { readonly link: EmbeddedLink; readonly leave: () => void } {
    const key = keyOf(ticket);
    const shared = this.links.get(key) ?? this.open(key, ticket);
    shared.holders.set(ticket.id, events);
    const leave = (): void => {
      if (shared.holders.get(ticket.id) !== events) return;
      shared.holders.delete(ticket.id);
      if (shared.holders.size > 0) return;
      this.links.delete(key);
      shared.link.close();
    };
    return { link: shared.link, leave };
  }

  private open(key: string, { endpoint, keys, tls }: EmbeddedTicket): Shared {
    const holders = new Map<number, HolderEvents>();
    const link = new EmbeddedLink(
      { endpoint, keys, transport: tls === undefined ? tcpTransport() : tlsTransport(tls) },
      {
        up: (first) => {
          if (!first) for (const events of [...holders.values()]) events.again();
        },
        event: () => undefined,
        leaseLost: (id) => holders.get(id)?.lost(),
      },
    );
    void link.reconnect();
    const shared = { link, holders };
    this.links.set(key, shared);
    return shared;
  }
}

export function embeddedHolder(ticket: EmbeddedTicket, events: HolderEvents, links: SharedLinks): LeaseHolder {
  const { link, leave } = links.join(ticket, events);
  return {
    hold: async (ageMs) => {
      const body = holdBody(ticket, { key: ticket.ageKey, value: new TextEncoder().encode(`${ageMs}`) });
      return (await link.request(Op.HOLD, body, { repeatable: false })).u8() === 1;
    },
    close: leave,
  };
}

/** Equal for tickets whose leases are of one store, reached and proved alike. */
function keyOf({ endpoint, keys, tls }: EmbeddedTicket): string {
  const plain = (_key: string, value: unknown): unknown => (value instanceof Uint8Array ? [...value] : value);
  return JSON.stringify([endpoint, keys, tls], plain);
}
