/** @file The fence around a death: how an owner learns that nothing which the dead handed on is still under way. */
import type { MemberKey } from './ids.ts';
import type { Control } from './messages.ts';
import { ALL_RULES, type Rules } from './rules.ts';

export interface FencePort {
  send(to: MemberKey, message: Control): void;
  /** Every live member has acknowledged: what these dead held of this owner's may be released. */
  complete(dead: ReadonlySet<MemberKey>): void;
}

/** Plain data from which a fence can be made again. */
export interface FenceState {
  readonly epoch: number;
  readonly members: readonly MemberKey[];
  readonly dead: readonly MemberKey[];
  readonly waiting: readonly MemberKey[];
  readonly fenceEpoch: number;
  readonly asked: readonly (readonly [MemberKey, Question])[];
}

/** What an owner wants to know of a member. */
interface Question {
  readonly epoch: number;
  readonly dead: readonly MemberKey[];
}

/**
 * Both parts of the fence at one worker.
 *
 * As an owner: when the view loses members, every remaining member is asked to acknowledge the view's epoch. A member has told the
 * owner about everything the dead sent it before it acknowledges, since its sessions with the dead are cut by then and what it sends
 * to the owner is FIFO. Another death while acknowledgements are missing starts over with the later epoch, for all these dead together.
 *
 * As a member: a question about an epoch that has not been seen here yet is answered when it has, and when none of the dead it names is
 * a member any more: while the store is away members decide on deaths without it, and epochs alone do not say who knows of which.
 *
 * States as an owner: `idle` (nobody died since the last fence), `open` (acknowledgements missing). A death moves to `open` from both.
 */
export class Fence {
  private epoch = 0;
  private members: readonly MemberKey[] = [];
  private dead = new Set<MemberKey>();
  private waiting = new Set<MemberKey>();
  private fenceEpoch = 0;
  private asked = new Map<MemberKey, Question>();
  private readonly self: MemberKey;
  private readonly port: FencePort;
  private readonly rules: Rules;

  constructor(self: MemberKey, port: FencePort, rules: Rules = ALL_RULES) {
    this.self = self;
    this.port = port;
    this.rules = rules;
  }

  /** Whether deaths are being fenced. */
  get open(): boolean {
    return this.dead.size > 0;
  }

  get currentEpoch(): number {
    return this.epoch;
  }

  /** The group's view changed; `died` are the members it lost. Their sessions here are cut already. */
  viewChanged(epoch: number, members: readonly MemberKey[], died: readonly MemberKey[]): void {
    if (epoch <= this.epoch) return;
    this.epoch = epoch;
    this.members = members.filter((member) => member !== this.self);
    for (const member of died) this.asked.delete(member);
    if (died.length > 0) this.begin(died);
    for (const [owner, question] of [...this.asked]) this.consider(owner, question);
  }

  /** An owner asks. */
  request(owner: MemberKey, epoch: number, dead: readonly MemberKey[]): void {
    const question = { epoch, dead };
    this.asked.set(owner, question);
    this.consider(owner, question);
  }

  /** A member acknowledged. */
  acknowledged(member: MemberKey, epoch: number): void {
    if (!this.open || (epoch !== this.fenceEpoch && this.rules.deathExtendsFence)) return;
    this.waiting.delete(member);
    this.completeIfAll();
  }

  snapshot(): FenceState {
    return {
      epoch: this.epoch,
      members: this.members,
      dead: [...this.dead],
      waiting: [...this.waiting],
      fenceEpoch: this.fenceEpoch,
      asked: [...this.asked],
    };
  }

  restore(state: FenceState): void {
    this.epoch = state.epoch;
    this.members = state.members;
    this.dead = new Set(state.dead);
    this.waiting = new Set(state.waiting);
    this.fenceEpoch = state.fenceEpoch;
    this.asked = new Map(state.asked);
  }

  private begin(died: readonly MemberKey[]): void {
    const open = this.open;
    for (const member of died) this.dead.add(member);
    if (open && !this.rules.deathExtendsFence) {
      for (const member of died) this.waiting.delete(member);
    } else {
      this.fenceEpoch = this.epoch;
      this.waiting = new Set(this.members);
      const dead = [...this.dead];
      for (const member of this.members) this.port.send(member, { kind: 'fence', epoch: this.epoch, dead });
      if (!this.rules.forksWaitForFence) this.port.complete(new Set(died));
    }
    this.completeIfAll();
  }

  private consider(owner: MemberKey, { epoch, dead }: Question): void {
    if (epoch > this.epoch || dead.some((member) => this.members.includes(member))) return;
    this.asked.delete(owner);
    this.port.send(owner, { kind: 'fence-ack', epoch });
  }

  private completeIfAll(): void {
    if (this.waiting.size > 0) return;
    const dead = this.dead;
    this.dead = new Set();
    this.port.complete(dead);
    for (const member of this.members) this.port.send(member, { kind: 'fence-done', dead: [...dead] });
  }
}
