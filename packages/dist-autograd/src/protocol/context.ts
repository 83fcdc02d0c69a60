/** @file Autograd contexts of one worker: who knows them, their functions, and the ids that must never come back. */
import { MAX_CONTEXTS, MAX_FUNCTIONS, MAX_HEARSAY, MAX_TOMBSTONES, SHARE_OF_CONTEXTS } from '../limits.ts';
import { EndedPasses } from './ended-passes.ts';
import {
  localId,
  memberKey,
  publicId,
  sameMember,
  splitId,
  type ContextRef,
  type MemberKey,
  type MemberRef,
  type PassId,
} from './ids.ts';
import type { Failure, PassState } from './pass-types.ts';

/** Why a context is not to be had. */
export type Refusal = 'released' | 'creator-dead' | 'full';

/** Thrown where a message names a context that may not exist (any more). */
export class ContextRefused extends Error {
  readonly reason: Refusal;

  constructor(reason: Refusal, text: string) {
    super(text);
    this.reason = reason;
  }
}

/** One context on one worker. `S` and `R` are its send and receive functions, whatever the graph is made of. */
export class Context<S, R> {
  readonly ref: ContextRef;
  readonly id: bigint;
  /** By the message id this worker gave. */
  readonly sends = new Map<number, S>();
  /** By the worker that sent, then by the message id it gave. */
  readonly recvs = new Map<number, Map<number, R>>();
  /** Workers that take part as far as this one knows, with their life. */
  readonly known = new Map<number, number>();
  /** Workers that have called here in this context, with their life: they may know this one, and not be known. */
  private callers: Map<number, number> | undefined;
  /** The creator's oldest id alive, as whoever brought the context said. */
  oldest = 0;
  /** It was taken out of the table: no message may use it any more. */
  released = false;
  /** The backward pass in progress here. */
  pass: PassState | undefined;
  /** Passes that may neither begin nor go on here. */
  readonly ended = new EndedPasses();
  /** Passes that began here and failed, the latest of them. */
  failed: readonly number[] = [];
  /** The pass that failed here last, and how. */
  latest: { readonly pass: PassId; readonly failure: Failure } | undefined;
  /** A pass that failed here and whose abort has not come by yet: it still has to be handed on. */
  unspread: PassId | undefined;

  /** Passes whose failure this worker has told to all it knew, the latest of them: who is met later is told too. */
  aborted: readonly PassId[] = [];

  constructor(ref: ContextRef) {
    this.ref = ref;
    this.id = publicId(ref.worker, ref.local);
  }

  addSend(message: number, send: S): void {
    this.room(this.sends.size);
    this.sends.set(message, send);
  }

  addRecv(from: number, message: number, recv: R): void {
    let own = this.recvs.get(from);
    if (own === undefined) this.recvs.set(from, (own = new Map<number, R>()));
    this.room(own.size);
    own.set(message, recv);
  }

  /** Notes who has called here in this context. */
  calledBy({ worker, incarnation }: MemberRef): void {
    if (this.known.get(worker) !== incarnation) (this.callers ??= new Map<number, number>()).set(worker, incarnation);
  }

  /** Whether a member has a say in what fails here: it is known, has called here, or is the creator. */
  hasMet({ worker, incarnation }: MemberRef): boolean {
    if (worker === this.ref.worker && incarnation === this.ref.incarnation) return true;
    return this.known.get(worker) === incarnation || this.callers?.get(worker) === incarnation;
  }

  /** Workers that a pass may have come from or go to, and those that have called here: they learn of it ahead of what they are answered. */
  met(): Set<number> {
    return new Set([...this.known.keys(), ...this.recvs.keys(), ...(this.callers?.keys() ?? [])]);
  }

  get recvCount(): number {
    let count = 0;
    for (const own of this.recvs.values()) count += own.size;
    return count;
  }

  private room(size: number): void {
    if (size < MAX_FUNCTIONS) return;
    const text = `autograd context ${this.id} has ${size} functions, and no more fit: go on in a new context`;
    throw new ContextRefused('full', text);
  }
}

/** What a creator has told itself, in one of its lives. Others are believed of contexts that they brought, and of nothing else. */
interface Creator {
  readonly incarnation: number;
  /** Every id below is released, but for those that are alive here. */
  oldest: number;
  readonly tombstones: Set<number>;
}

/** All contexts of one worker. `C` is its kind of context. */
export class ContextTable<C extends Context<unknown, unknown>> {
  readonly self: MemberRef;
  private readonly life: number;
  private readonly limit: number;
  private readonly make: (ref: ContextRef) => C;
  private readonly contexts = new Map<number, Map<number, C>>();
  private readonly creators = new Map<number, Creator>();
  /** By worker: lives up to this one are over. */
  private readonly dead = new Map<number, number>();
  /** Own ids that are alive, in the order they were drawn. */
  private readonly own = new Set<number>();
  private contextCounter = 0;
  private messageCounter = 0;
  private count = 0;
  /** Who brought each context that others have made, and how many each member has brought. */
  private readonly bringers = new Map<C, MemberKey>();
  private readonly brought = new Map<MemberKey, number>();
  /** Contexts of others that a member said are over: what it sent before may come after that. Its own messages bring them no more. */
  private readonly hearsay = new Map<MemberKey, Set<string>>();

  /** @param life how many lives of this worker there were before: part of the ids. */
  constructor(self: MemberRef, life: number, make: (ref: ContextRef) => C, limit = MAX_CONTEXTS) {
    this.self = self;
    this.make = make;
    this.life = life;
    this.limit = limit;
  }

  get size(): number {
    return this.count;
  }

  *[Symbol.iterator](): IterableIterator<C> {
    for (const own of this.contexts.values()) yield* own.values();
  }

  /** A new context of this worker. */
  create(): C {
    this.room();
    const { worker, incarnation } = this.self;
    const ref: ContextRef = { worker, incarnation, local: localId(this.life, this.contextCounter++) };
    this.own.add(ref.local);
    return this.insert(this.make(ref));
  }

  /** The next message id of this worker: one for each wrapped message, with tensors or without. */
  nextMessage(): number {
    return localId(this.life, this.messageCounter++);
  }

  /** This worker's oldest id alive; the next one to be drawn when there is none. */
  get oldestOwn(): number {
    for (const local of this.own) return local;
    return localId(this.life, this.contextCounter);
  }

  /** The context with a public id, if it is alive here. */
  find(id: bigint): C | undefined {
    const parts = splitId(id);
    return parts === undefined ? undefined : this.contexts.get(parts.worker)?.get(parts.local);
  }

  /** Whether a public id is that of a context which this worker made and which is over. */
  hasEnded(id: bigint): boolean {
    const parts = splitId(id);
    if (parts?.worker !== this.self.worker || this.own.has(parts.local)) return false;
    return parts.local >= localId(this.life, 0) && parts.local < localId(this.life, this.contextCounter);
  }

  /** The context that a message names, if it is alive here. */
  lookup(ref: ContextRef): C | undefined {
    const found = this.contexts.get(ref.worker)?.get(ref.local);
    return found !== undefined && sameMember(found.ref, ref) ? found : undefined;
  }

  /** The creator's oldest id alive, as far as this worker has heard. */
  oldestOf(ref: ContextRef): number {
    if (sameMember(ref, this.self)) return this.oldestOwn;
    const creator = this.creators.get(ref.worker);
    const told = creator?.incarnation === ref.incarnation ? creator.oldest : 0;
    return Math.max(told, this.lookup(ref)?.oldest ?? 0);
  }

  /**
   * The context that a wrapped message names, made now if this is the first time.
   * @param oldest the creator's oldest id alive when it last told.
   * @param by who sent the message.
   * @throws ContextRefused when it was released, its creator is dead, or there are too many.
   */
  accept(ref: ContextRef, oldest: number, by: MemberRef = ref): C {
    const known = this.lookup(ref);
    const first = sameMember(by, ref);
    if (known !== undefined) {
      if (first) {
        this.heard(ref, oldest);
        this.setBringer(known, by);
      }
      return known;
    }
    if (sameMember(ref, this.self)) throw released(ref);
    if (ref.incarnation <= (this.dead.get(ref.worker) ?? -1)) {
      throw new ContextRefused('creator-dead', `the creator of autograd context ${idOf(ref)} died`);
    }
    if (first) this.heard(ref, oldest);
    const stale = this.contexts.get(ref.worker)?.get(ref.local);
    if (ref.local < oldest || this.isOver(ref, by) || (stale !== undefined && !first)) throw released(ref);
    this.room(memberKey(by));
    if (stale !== undefined) this.drop(stale);
    const made = this.insert(this.make(ref));
    made.oldest = oldest;
    this.setBringer(made, by);
    return made;
  }

  /**
   * Takes the context out and leaves a tombstone, also when it was never here. Returns it if it was.
   * @param by who says that it is over: its creator, or whoever brought it here. Of anybody else it means the messages that are still to
   *   come from there, and no more.
   */
  release(ref: ContextRef, oldest = 0, by: MemberRef = ref): C | undefined {
    const context = this.lookup(ref);
    if (!sameMember(by, ref)) {
      this.note(memberKey(by), ref);
      if (context === undefined || !this.broughtBy(context, by)) return undefined;
      // Others who were in it and have not heard yet may bring it again, and will say that it is over; this worker has heard.
      this.note(memberKey(this.self), ref);
    } else if (!sameMember(ref, this.self)) {
      const creator = this.heard(ref, oldest);
      if (creator !== undefined && ref.local >= creator.oldest) this.bury(creator, ref.local);
    }
    if (context !== undefined) this.drop(context);
    return context;
  }

  /** A member is no more: its contexts go, and no message brings them back. Returns those that were here. */
  creatorDied(member: MemberRef): C[] {
    this.dead.set(member.worker, Math.max(member.incarnation, this.dead.get(member.worker) ?? -1));
    const creator = this.creators.get(member.worker);
    if (creator !== undefined && creator.incarnation <= member.incarnation) this.creators.delete(member.worker);
    const gone = [...(this.contexts.get(member.worker)?.values() ?? [])].filter(
      (context) => context.ref.incarnation <= member.incarnation,
    );
    for (const context of gone) this.drop(context);
    return gone;
  }

  /**
   * These members are no more, of a group that is `present` now. A creator that is none of it was not there when one of them brought a context
   * of its: nobody will end that. Returns those that were here.
   */
  bringersDied(members: readonly MemberRef[], present: readonly MemberRef[]): C[] {
    const dead = new Set(members.map(memberKey));
    for (const member of dead) this.hearsay.delete(member);
    if (![...dead].some((member) => this.brought.has(member))) return [];
    const creators = new Set([this.self, ...present].map(memberKey));
    const gone: C[] = [];
    for (const [context, bringer] of this.bringers)
      if (dead.has(bringer) && !creators.has(memberKey(context.ref))) gone.push(context);
    for (const context of gone) this.drop(context);
    return gone;
  }

  /** Whether `member` brought the context here. */
  broughtBy(context: C, member: MemberRef): boolean {
    return this.bringers.get(context) === memberKey(member);
  }

  /** How many released ids are remembered. */
  get tombstones(): number {
    let count = 0;
    for (const creator of this.creators.values()) count += creator.tombstones.size;
    return count;
  }

  /** How many ends are remembered that members told of contexts which are not theirs. */
  get remembered(): number {
    let count = 0;
    for (const said of this.hearsay.values()) count += said.size;
    return count;
  }

  private room(bringer?: MemberKey): void {
    const free = this.limit - this.count;
    const own = bringer === undefined ? 0 : (this.brought.get(bringer) ?? 0);
    if (free > 0 && own < SHARE_OF_CONTEXTS * free) return;
    const whose = free > 0 ? `, ${own} of which one member has brought` : '';
    const text = `${this.count} autograd contexts are alive on this worker${whose}, and no more may be: one ends when what runs in it does, and limits.maxContexts (${this.limit}) bounds them`;
    throw new ContextRefused('full', text);
  }

  private insert(context: C): C {
    let own = this.contexts.get(context.ref.worker);
    if (own === undefined) this.contexts.set(context.ref.worker, (own = new Map<number, C>()));
    own.set(context.ref.local, context);
    this.count++;
    return context;
  }

  private drop(context: C): void {
    const own = this.contexts.get(context.ref.worker);
    if (own?.delete(context.ref.local) !== true) return;
    if (own.size === 0) this.contexts.delete(context.ref.worker);
    if (sameMember(context.ref, this.self)) this.own.delete(context.ref.local);
    context.released = true;
    this.count--;
    this.setBringer(context, undefined);
  }

  /** It counts as brought by `by` from now on; by nobody once it is gone. */
  private setBringer(context: C, by: MemberRef | undefined): void {
    const before = this.bringers.get(context);
    const now = by && memberKey(by);
    if (before === now) return;
    if (before !== undefined) {
      this.bringers.delete(context);
      const rest = (this.brought.get(before) ?? 1) - 1;
      if (rest === 0) this.brought.delete(before);
      else this.brought.set(before, rest);
    }
    if (now === undefined) return;
    this.bringers.set(context, now);
    this.brought.set(now, (this.brought.get(now) ?? 0) + 1);
  }

  /** Whether what is known says that a context, which is not here, is no more. */
  private isOver(ref: ContextRef, by: MemberRef): boolean {
    if (this.hearsay.get(memberKey(by))?.has(keyOf(ref)) === true) return true;
    const creator = this.creators.get(ref.worker);
    if (creator === undefined || creator.incarnation < ref.incarnation) return false;
    return creator.incarnation > ref.incarnation || ref.local < creator.oldest || creator.tombstones.has(ref.local);
  }

  private note(by: MemberKey, ref: ContextRef): void {
    let said = this.hearsay.get(by);
    if (said === undefined) this.hearsay.set(by, (said = new Set<string>()));
    said.add(keyOf(ref));
    if (said.size > MAX_HEARSAY) for (const oldest of said) return void said.delete(oldest);
  }

  /** Notes what a creator told; undefined when a later life of it has been heard of. */
  private heard(ref: ContextRef, oldest: number): Creator | undefined {
    let creator = this.creators.get(ref.worker);
    if (creator !== undefined && creator.incarnation > ref.incarnation) return undefined;
    if (creator === undefined || creator.incarnation < ref.incarnation) {
      creator = { incarnation: ref.incarnation, oldest: 0, tombstones: new Set() };
      this.creators.set(ref.worker, creator);
    }
    if (oldest > creator.oldest) {
      creator.oldest = oldest;
      for (const local of creator.tombstones) if (local < oldest) creator.tombstones.delete(local);
    }
    return creator;
  }

  private bury(creator: Creator, local: number): void {
    creator.tombstones.add(local);
    if (creator.tombstones.size <= MAX_TOMBSTONES) return;
    let lowest = Infinity;
    for (const id of creator.tombstones) if (id < lowest) lowest = id;
    creator.tombstones.delete(lowest);
    creator.oldest = lowest + 1;
  }
}

function keyOf({ worker, incarnation, local }: ContextRef): string {
  return `${worker}.${incarnation}.${local}`;
}

function idOf(ref: ContextRef): bigint {
  return publicId(ref.worker, ref.local);
}

function released(ref: ContextRef): ContextRefused {
  return new ContextRefused(
    'released',
    `Couldn't find autograd context data for current autograd context id: context ${idOf(ref)} was released`,
  );
}
