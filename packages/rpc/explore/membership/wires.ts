/** @file What is on its way between the workers of a world, in order for each pair. */
import type { Life, View } from '../../src/protocol/membership.ts';
import type { Report } from '../../src/protocol/opinions.ts';

export type Packet =
  | { readonly kind: 'report'; readonly report: Report; readonly view: View | undefined }
  /** What an owner of remote values asks after a death: whoever answers has cut its session with all of `removed`. */
  | { readonly kind: 'fence'; readonly number: number; readonly removed: readonly Life[] };

/** Workers are known by rank. */
export class Wires {
  private readonly packets: Map<string, readonly Packet[]>;

  constructor(packets: ReadonlyMap<string, readonly Packet[]> = new Map()) {
    this.packets = new Map(packets);
  }

  copy(): Wires {
    return new Wires(this.packets);
  }

  first(from: number, to: number): Packet | undefined {
    return this.packets.get(`${from}>${to}`)?.[0];
  }

  take(from: number, to: number): Packet | undefined {
    const key = `${from}>${to}`;
    const [packet, ...later] = this.packets.get(key) ?? [];
    this.packets.set(key, later);
    return packet;
  }

  put(from: number, to: number, packet: Packet): void {
    const key = `${from}>${to}`;
    const wire = this.packets.get(key) ?? [];
    const last = wire.at(-1);
    // A later report says all that the one before it said.
    if (packet.kind === 'report' && last?.kind === 'report') {
      const asks = packet.report.asks || last.report.asks;
      const view = packet.view ?? last.view;
      const both = Object.freeze({ ...packet, report: Object.freeze({ ...packet.report, asks }), view });
      this.packets.set(key, [...wire.slice(0, -1), both]);
    } else this.packets.set(key, [...wire, Object.freeze(packet)]);
  }

  /** The connections of a worker that is over. */
  drop(rank: number): void {
    for (const key of this.packets.keys())
      if (key.startsWith(`${rank}>`) || key.endsWith(`>${rank}`)) this.packets.delete(key);
  }

  /** To be written down: views by their epoch. */
  plain(): [wire: string, packets: unknown][] {
    return [...this.packets]
      .filter(([, packets]) => packets.length > 0)
      .map(([key, packets]): [string, unknown] => [
        key,
        packets.map((packet) => (packet.kind === 'report' ? { ...packet, view: packet.view?.epoch } : packet)),
      ])
      .sort(([x], [y]) => (x < y ? -1 : 1));
  }
}
