/** @file One outgoing call that is not settled. */
import type { CurrentScope } from '@backwire/tensor/internal';
import type { HeaderEntry } from '@backwire/wire/internal';
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import type { CallSite } from '../base/program-lines.ts';
import type { CallLabel } from '../base/observed-call.ts';
import type { CallOutcome } from '../extensions/extension.ts';
import type { Ticket } from '../session/send-queue.ts';
import type { Peer } from '../session/peer.ts';
import type { InboundCall } from '../server/inbound-call.ts';

/** What kind of call is made: how its answer comes back. One for many calls. */
export interface CallForm {
  /** 'value': the RESULT is decoded; 'message': handed over as it is; 'stream': items. */
  readonly mode: 'value' | 'message' | 'stream';
  readonly label: CallLabel;
  /** undefined = the agent's. */
  readonly defaultTimeoutMs?: number;
  /** Of a stream: how many items may come before the first is taken. */
  readonly items?: number;
  /** The function of the library that the program called: what lies above it is the call site. */
  readonly above?: unknown;
}

/** What an answer is turned into. */
export interface Answer {
  /** The value of a RESULT, or a whole message for calls made of messages. */
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Items of a stream, in the order of their frames, then one `resolve` or `reject`. */
export interface StreamAnswer extends Answer {
  /** The item of this frame is on its way: keep its place. */
  expect(seq: number): void;
  /** `discard` frees what is in the item, should nobody get it. */
  item(value: unknown, seq: number, discard: (() => void) | undefined): void;
  /** Whether items are on their way. */
  readonly incomplete: boolean;
  /** How long nobody has waited for an item, in milliseconds; Infinity when nobody ever has. */
  unreadMs(): number;
  /** Called once none is any more. */
  onComplete: (() => void) | undefined;
}

/** What follows a call on behalf of an extension. */
export interface CallFollower {
  readonly gradless?: boolean;
  settled?(outcome: CallOutcome): void;
}

/** What only few calls have. */
interface Rare {
  withdrawn?: boolean;
  heldBack?: boolean;
  raw?: boolean;
  answering?: boolean;
  deadline?: number;
  follower?: CallFollower | undefined;
  scope?: CurrentScope;
  signal?: AbortSignal;
  onAbort?: () => void;
}

/**
 * The record of an open call in the call table. Whoever takes it from there settles it. As small as it can be: with many calls open,
 * most of what a call costs its caller is that the collector copies this.
 */
export class PendingCall implements Ticket {
  id = 0;
  seq = 0;
  readonly peer: Peer;
  readonly form: CallForm;
  /** The time given; 0 = none. */
  readonly timeoutMs: number;
  /** When it was made; on the clock of `deadline`. */
  readonly startedAt: number;
  readonly answer: Answer;
  /** The handler that made this call: it gives its slot back while it waits. */
  readonly parent: InboundCall | undefined;
  /** Whether storages were left for the body lane. */
  hasBodies = false;
  header: readonly HeaderEntry[] | undefined;
  /** Where the program made it; only where that is noted. */
  site: CallSite | undefined;
  private rare: Rare | undefined;

  constructor(
    peer: Peer,
    form: CallForm,
    timeoutMs: number,
    startedAt: number,
    answer: Answer,
    parent: InboundCall | undefined,
  ) {
    this.peer = peer;
    this.form = form;
    this.timeoutMs = timeoutMs;
    this.startedAt = startedAt;
    this.answer = answer;
    this.parent = parent;
    if (parent !== undefined && parent.deadline < this.deadline) this.seldom.deadline = parent.deadline;
  }

  /** 'value': the RESULT is decoded; 'message': handed over as it is; 'stream': items. */
  get mode(): CallForm['mode'] {
    return this.form.mode;
  }
  /** How the program made it, and of what. */
  get label(): CallLabel {
    return this.form.label;
  }
  /** When it has to be over: its own time, or what is left to the handler that made it. */
  get deadline(): number {
    return this.rare?.deadline ?? (this.timeoutMs === 0 ? Infinity : this.startedAt + this.timeoutMs);
  }

  get withdrawn(): boolean {
    return this.rare?.withdrawn === true;
  }
  set withdrawn(value: boolean) {
    this.seldom.withdrawn = value;
  }
  /** Whether it is sent later than it was made. */
  get heldBack(): boolean {
    return this.rare?.heldBack === true;
  }
  set heldBack(value: boolean) {
    this.seldom.heldBack = value;
  }
  /** Whether no response hooks run. */
  get raw(): boolean {
    return this.rare?.raw === true;
  }
  set raw(value: boolean) {
    this.seldom.raw = value;
  }
  /** Whether its answer is here but for storages that are on their way. */
  get answering(): boolean {
    return this.rare?.answering === true;
  }
  set answering(value: boolean) {
    this.seldom.answering = value;
  }
  get follower(): CallFollower | undefined {
    return this.rare?.follower;
  }
  set follower(value: CallFollower) {
    this.seldom.follower = value;
  }

  /** Whose the tensors of the answer are; undefined where the program has no scope. */
  get scope(): CurrentScope | undefined {
    return this.rare?.scope;
  }
  set scope(value: CurrentScope) {
    this.seldom.scope = value;
  }

  /** Calls `abort` when the signal does, until `unwatch`. */
  watch(signal: AbortSignal, abort: () => void): void {
    const rare = this.seldom;
    rare.signal = signal;
    rare.onAbort = abort;
    watchAbort(signal, abort);
  }
  unwatch(): void {
    const { rare } = this;
    if (rare?.onAbort === undefined || rare.signal === undefined) return;
    unwatchAbort(rare.signal, rare.onAbort);
  }

  private get seldom(): Rare {
    return (this.rare ??= {});
  }
}
