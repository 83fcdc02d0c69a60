/** @file Messages under way as small numbers: each packet, and each queue of packets, has one for as long as the exploration runs. */
import type { GlobalId, MemberKey } from '../src/protocol/ids.ts';
import type { Carried, Control } from '../src/protocol/messages.ts';

/** A message under way. */
export type Packet = Carried | Control | { readonly kind: 'created'; readonly fork: GlobalId };

/** For each member its new number. */
export type Renaming = readonly MemberKey[];

/** Members and local numbers that fit the masks below. */
const MAX_MEMBERS = 4;
const LOCALS = 8;

/** The bit of an id in a mask of ids: 8 for each of 4 members. */
export function bitOf({ member, local }: GlobalId): number {
  if (member >= MAX_MEMBERS || local >= LOCALS) throw new RangeError(`id ${member}.${local} does not fit a mask`);
  return 1 << (member * LOCALS + local);
}

/** The lowest number that `mask` leaves free at a member. */
export function freeLocal(mask: number, member: MemberKey): number {
  const used = (mask >>> (member * LOCALS)) & 0xff;
  return 31 - Math.clz32(~used & -~used);
}

export function rename({ member, local }: GlobalId, to: Renaming): GlobalId {
  return { member: to[member] as MemberKey, local };
}

export function idText({ member, local }: GlobalId): string {
  return `${member}.${local}`;
}

/** What an explorer has to know about a queue without looking into it. Number 0 is the empty queue. */
export class Queues {
  readonly packets: Packet[] = [];
  /** Packet numbers of each queue. */
  readonly contents: number[][] = [[]];
  /** Ids that a queue mentions. */
  readonly mentions: number[] = [0];
  /** Whether a queue has a handle in it. */
  readonly carries: boolean[] = [false];
  private readonly ordered: boolean;
  private readonly renamings: readonly Renaming[];
  private readonly packetNumbers = new Map<string, number>();
  private readonly numbers = new Map<string, number>([['', 0]]);
  private readonly appended: Map<number, number>[] = [new Map<number, number>()];
  private readonly renamed: number[][];

  /** @param ordered whether the order in a queue means anything; if not, queues are kept sorted. */
  constructor(ordered: boolean, renamings: readonly Renaming[]) {
    this.ordered = ordered;
    this.renamings = renamings;
    this.renamed = renamings.map(() => [0]);
  }

  packet(packet: Packet): number {
    const text = textOf(packet);
    let known = this.packetNumbers.get(text);
    if (known === undefined) {
      known = this.packets.push(packet) - 1;
      this.packetNumbers.set(text, known);
    }
    return known;
  }

  append(queue: number, packet: number): number {
    const after = this.appended[queue] as Map<number, number>;
    let known = after.get(packet);
    if (known === undefined) after.set(packet, (known = this.number([...(this.contents[queue] as number[]), packet])));
    return known;
  }

  without(queue: number, index: number): number {
    return this.number((this.contents[queue] as number[]).filter((_, i) => i !== index));
  }

  /** The queue with its members renamed by the renaming of this index. */
  rename(queue: number, index: number): number {
    const table = this.renamed[index] as number[];
    return (table[queue] ??= this.number(
      (this.contents[queue] as number[]).map((packet) =>
        this.packet(renamePacket(this.packets[packet] as Packet, this.renamings[index] as Renaming)),
      ),
    ));
  }

  private number(packets: number[]): number {
    if (!this.ordered) packets.sort((a, b) => a - b);
    const text = packets.join();
    let known = this.numbers.get(text);
    if (known === undefined) {
      known = this.contents.push(packets) - 1;
      this.numbers.set(text, known);
      this.appended.push(new Map());
      const inside = packets.map((packet) => this.packets[packet] as Packet);
      this.mentions.push(inside.reduce((mask, packet) => mask | mentionsOf(packet), 0));
      this.carries.push(inside.some((packet) => packet.kind === 'fork'));
    }
    return known;
  }
}

function mentionsOf(packet: Packet): number {
  if (packet.kind === 'user-delete') return packet.forks.reduce((mask, fork) => mask | bitOf(fork), 0);
  return 'fork' in packet ? bitOf(packet.fork) : 0;
}

function renamePacket(packet: Packet, to: Renaming): Packet {
  switch (packet.kind) {
    case 'user-delete':
      return { ...packet, forks: packet.forks.map((fork) => rename(fork, to)) };
    case 'fence-ack':
      return packet;
    case 'fence':
    case 'fence-done':
      return { ...packet, dead: packet.dead.map((member) => to[member] as MemberKey).sort() };
    case 'fork':
      return {
        ...packet,
        rref: rename(packet.rref, to),
        fork: rename(packet.fork, to),
        owner: to[packet.owner] as MemberKey,
      };
    case 'fork-request':
    case 'create':
    case 'create-failed':
      return { ...packet, rref: rename(packet.rref, to), fork: rename(packet.fork, to) };
    default:
      return { ...packet, fork: rename(packet.fork, to) };
  }
}

function textOf(packet: Packet): string {
  switch (packet.kind) {
    case 'user-delete':
      return `${packet.kind} ${packet.forks.map(idText).join()}`;
    case 'fence-ack':
      return `${packet.kind} ${packet.epoch}`;
    case 'fence':
      return `${packet.kind} ${packet.epoch} ${packet.dead.join()}`;
    case 'fence-done':
      return `${packet.kind} ${packet.dead.join()}`;
    case 'fork-ack':
      return `${packet.kind} ${idText(packet.fork)} ${packet.refused?.code ?? ''}`;
    default:
      return `${packet.kind} ${idText(packet.fork)}`;
  }
}
