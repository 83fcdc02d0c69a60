/** @file One outgoing call that is not settled. */
import type { Message } from '@backwire/wire';
import type { HeaderEntry } from '@backwire/wire/internal';
import type { CallLabel } from './extension.ts';
import type { Ticket } from './outbox.ts';
import type { Peer } from './peer.ts';
import type { InboundCall } from './inbound-call.ts';

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
  item(value: unknown, seq: number): void;
  /** Whether items are on their way. */
  readonly incomplete: boolean;
  /** Called once none is any more. */
  onComplete: (() => void) | undefined;
}

/** What follows a call on behalf of an extension. */
export interface CallFollower {
  settled?(outcome: { readonly reply?: Message; readonly error?: unknown }): void;
}

/** The record of an open call in the call table. Whoever takes it from there settles it. */
export class PendingCall implements Ticket {
  id = 0;
  seq = 0;
  withdrawn = false;
  readonly peer: Peer;
  readonly deadline: number;
  /** The time given, for the words of the error. */
  readonly timeoutMs: number;
  /** 'value': the RESULT is decoded; 'message': handed over as it is; 'stream': items. */
  readonly mode: 'value' | 'message' | 'stream';
  readonly answer: Answer;
  /** The handler that made this call: it gives its slot back while it waits. */
  readonly parent: InboundCall | undefined;
  /** How the program made it, and of what. */
  label: CallLabel = NO_LABEL;
  /** When it was made; on the clock of `deadline`. */
  startedAt = 0;
  /** Whether response hooks run. */
  hooked = true;
  /** Whether storages were left for the body lane. */
  hasBodies = false;
  /** Of a stream: the items that may come at first. */
  items = 0;
  header: readonly HeaderEntry[] | undefined;
  follower: CallFollower | undefined;
  signal: AbortSignal | undefined;
  onAbort: (() => void) | undefined;

  constructor(
    peer: Peer,
    mode: PendingCall['mode'],
    timeoutMs: number,
    deadline: number,
    answer: Answer,
    parent: InboundCall | undefined,
  ) {
    this.peer = peer;
    this.mode = mode;
    this.timeoutMs = timeoutMs;
    this.deadline = deadline;
    this.answer = answer;
    this.parent = parent;
  }
}

const NO_LABEL: CallLabel = Object.freeze({ kind: 'other', name: '' });
