/** @file Failures on purpose: the first sends of a message type fail, others are held back. */
import { nearestName, runAtRoot } from '@backwire/tensor/internal';
import { makeRpcError } from '@backwire/wire';
import { MessageType, messageTypeName, messageTypeOf, type MessageTypeName } from '@backwire/wire/internal';
import { RpcError, type Executed } from '../base/errors.ts';
import { show, type FaultInjection, type Logger } from '../base/options.ts';
import { MAX_TIMER_MS } from '../base/platform.ts';
import { system } from '../base/system-error.ts';

/** What agents never send as a message of its own, so that a fault of it could never come about. */
const UNSENT: ReadonlyMap<MessageTypeName, string> = new Map<MessageTypeName, string>([
  ['SCRIPT_RREF_FETCH_CALL', 'values are fetched by PYTHON_RREF_FETCH_CALL'],
  ['SCRIPT_RREF_FETCH_RET', 'values are fetched by PYTHON_RREF_FETCH_CALL'],
  ['CLEANUP_AUTOGRAD_CONTEXT_RESP', 'CLEANUP_AUTOGRAD_CONTEXT_REQ is sent one way'],
  ['UNKNOWN', 'it is no message'],
  ['REPORT', "it is the group's own, and told again whatever is lost"],
  ['DRAIN', 'it is the end of an agent itself'],
  ['BYE', 'it is the end of an agent itself'],
]);

/** How long a control message that failed waits for its next try: at first, and at most. */
const RETRY_MS = 10;
const MAX_RETRY_MS = 1_000;
const RETRY_BACKOFF = 1.5;

/** A control message that waits for its next try, or behind one that does. */
interface Held {
  readonly type: number;
  readonly send: () => void;
  tries: number;
  delayed: boolean;
}

/**
 * The faults of one agent, for each of the three ways in which messages leave it. Calls and answers that fail are failures of the call;
 * control is sent again until it goes, in order: nobody waits for it, and it is promised to arrive exactly once.
 */
export class FaultInjector {
  /** Sends that failed or were held back so far. */
  injected = 0;
  private readonly failures = new Map<number, number>();
  private readonly delays = new Map<number, number>();
  private readonly active: boolean;
  /** Control messages that are held, by whom they are for. Unbounded but by what is sent meanwhile: for tests alone. */
  private readonly held = new Map<object, Held[]>();
  private readonly timers = new Set<NodeJS.Timeout>();
  private readonly logger: Pick<Logger, 'debug'> | undefined;

  /** @throws RpcError 'invalid-argument' for a name that is no message type, or one that is never sent. */
  constructor(faults: FaultInjection = {}, logger?: Pick<Logger, 'debug'>) {
    this.logger = logger;
    fill(this.failures, faults, 'failFirst', Number.isInteger, 'a whole number from 0');
    fill(this.delays, faults, 'delayMs', isDelay, `a number of milliseconds from 0 to ${MAX_TIMER_MS}`);
    this.active = this.failures.size > 0 || this.delays.size > 0;
  }

  /** By how many milliseconds this request is held back. @throws RpcError 'unavailable' when it is one of those that fail. */
  request(type: number): number {
    return this.active ? this.attempt(type, 'no') : 0;
  }

  /** The same for an answer. */
  answer(type: number): number {
    return this.active ? this.attempt(type, 'yes') : 0;
  }

  /** Sends a control message to `peer`: at once, or when its faults are over, behind what is held for that peer. */
  control(peer: object, type: number, send: () => void): void {
    const queue = this.held.get(peer);
    if (queue === undefined && !this.active) {
      send();
      return;
    }
    const held: Held = { type, send, tries: 0, delayed: false };
    if (queue !== undefined) {
      queue.push(held);
      return;
    }
    this.held.set(peer, [held]);
    this.advance(peer);
  }

  /** Runs `fn` in so many milliseconds, unless the agent ends before. */
  after(ms: number, fn: () => void): void {
    runAtRoot(() => {
      const timer = setTimeout(() => {
        this.timers.delete(timer);
        fn();
      }, ms);
      this.timers.add(timer);
    });
  }

  /** The agent is ending: what control is held so far goes now. */
  flush(): void {
    for (const queue of this.held.values()) for (const { send } of queue.splice(0)) send();
    this.held.clear();
  }

  close(): void {
    this.held.clear();
    for (const timer of this.timers) clearTimeout(timer);
    this.timers.clear();
  }

  private attempt(type: number, executed: Executed): number {
    if (this.fails(type)) {
      const text = makeRpcError(
        `Send attempt failed intentionally for ${messageTypeName(type)}`,
        'intentional-failure',
      );
      throw system(new RpcError('unavailable', text, { executed }));
    }
    return this.delayOf(type);
  }

  private delayOf(type: number): number {
    const delayMs = this.delays.get(type) ?? 0;
    if (delayMs > 0) this.note(type, 'a send is held back on purpose');
    return delayMs;
  }

  private note(type: number, what: string): void {
    this.injected++;
    this.logger?.debug({ type: messageTypeName(type) }, what);
  }

  private fails(type: number): boolean {
    const left = this.failures.get(type) ?? 0;
    if (left <= 0) return false;
    this.failures.set(type, left - 1);
    this.note(type, 'a send fails on purpose');
    return true;
  }

  /** Sends what is held for `peer` up to the first that has to wait. */
  private advance(peer: object): void {
    const queue = this.held.get(peer);
    for (let first = queue?.[0]; first !== undefined; first = queue?.[0]) {
      const waitMs = this.wait(first);
      if (waitMs > 0) {
        this.after(waitMs, () => this.advance(peer));
        return;
      }
      queue?.shift();
      first.send();
    }
    this.held.delete(peer);
  }

  /** How long a control message waits now: for its next try, or because sends of its type are held back. */
  private wait(held: Held): number {
    if (this.fails(held.type)) return Math.min(RETRY_MS * RETRY_BACKOFF ** held.tries++, MAX_RETRY_MS);
    if (held.delayed) return 0;
    held.delayed = true;
    return this.delayOf(held.type);
  }
}

/** Timers know no longer ones. */
function isDelay(value: unknown): boolean {
  return typeof value === 'number' && value <= MAX_TIMER_MS;
}

function fill(
  table: Map<number, number>,
  faults: FaultInjection,
  way: 'failFirst' | 'delayMs',
  fits: (value: unknown) => boolean,
  what: string,
): void {
  const given: unknown = faults[way];
  if (given === undefined) return;
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new TypeError(`faults: ${way} is an object with ${what} by type of message, got ${show(given)}`);
  for (const [name, value] of Object.entries(given) as [string, unknown][]) {
    const type = messageTypeOf(name);
    if (type === undefined) throw unknownMessage(name);
    const why = UNSENT.get(name as MessageTypeName);
    if (why !== undefined)
      throw new RpcError('invalid-argument', `faults: no agent sends a message of type ${name}: ${why}`);
    if (!fits(value) || (value as number) < 0) throw new RangeError(`faults: ${name} is ${what}, got ${show(value)}`);
    table.set(type, value as number);
  }
}

/** The types that faults may be told of. */
export const FAULTY_TYPES: readonly MessageTypeName[] = (Object.keys(MessageType) as MessageTypeName[]).filter(
  (name) => !UNSENT.has(name),
);

function unknownMessage(name: string): RpcError {
  const near = nearestName(name, Object.keys(MessageType));
  const advice =
    near === undefined ? "they are named as in docs/protocol.md, such as 'PYTHON_CALL'" : `did you mean '${near}'?`;
  return new RpcError('invalid-argument', `faults: no message type is named '${name}'; ${advice}`);
}
