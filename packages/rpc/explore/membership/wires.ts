/** @file What is on its way between the workers of a world, in order for each pair, as small numbers. */
import type { Forms } from './forms.ts';
import type { Packet } from './packet.ts';

/** Queues of packets by their numbers; 0 is the empty one. */
export class Queues {
  readonly packets: Packet[] = [];
  private readonly forms: Forms;
  private readonly packetNumbers = new Map<string, number>();
  private readonly contents: (readonly number[])[] = [[]];
  private readonly numbers = new Map<string, number>([['', 0]]);
  private readonly appended: Map<number, number>[] = [new Map<number, number>()];
  private readonly rests: number[] = [0];

  constructor(forms: Forms) {
    this.forms = forms;
  }

  packet(packet: Packet): number {
    const text = this.forms.packet(packet);
    let number = this.packetNumbers.get(text);
    if (number === undefined) {
      number = this.packets.push(frozen(packet)) - 1;
      this.packetNumbers.set(text, number);
    }
    return number;
  }

  /** The number of the packet that arrives next. */
  first(queue: number): number {
    return (this.contents[queue] as number[])[0] as number;
  }

  /** What is left when that has arrived. */
  rest(queue: number): number {
    return (this.rests[queue] ??= this.number((this.contents[queue] as number[]).slice(1)));
  }

  packetsOf(queue: number): Packet[] {
    return (this.contents[queue] as readonly number[]).map((number) => this.packets[number] as Packet);
  }

  append(queue: number, packet: number): number {
    const appended = this.appended[queue] as Map<number, number>;
    let number = appended.get(packet);
    if (number === undefined) {
      const before = this.contents[queue] as readonly number[];
      const last = before.at(-1);
      const both = last === undefined ? undefined : this.both(last, packet);
      number = this.number(both === undefined ? [...before, packet] : [...before.slice(0, -1), both]);
      appended.set(packet, number);
    }
    return number;
  }

  /** A later report says all that the one before it said. */
  private both(first: number, second: number): number | undefined {
    const [last, packet] = [this.packets[first], this.packets[second]];
    if (last?.kind !== 'report' || packet?.kind !== 'report') return undefined;
    const asks = packet.report.asks || last.report.asks;
    return this.packet({ kind: 'report', report: { ...packet.report, asks }, view: packet.view ?? last.view });
  }

  private number(packets: readonly number[]): number {
    const text = packets.join();
    let number = this.numbers.get(text);
    if (number === undefined) {
      number = this.contents.push(packets) - 1;
      this.numbers.set(text, number);
      this.appended.push(new Map());
    }
    return number;
  }
}

/** Workers keep what comes, and are copied often. */
function frozen(packet: Packet): Packet {
  if (packet.kind === 'report') Object.freeze(packet.report);
  else Object.freeze(packet.removed);
  return Object.freeze(packet);
}
