/** @file Calls with an idempotency key at work: one that comes again joins the one that runs, or gets what came of it. */
import type { Tensor } from '@backwire/tensor';
import { runAtRoot } from '@backwire/tensor/internal';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import { RpcError } from '../base/errors.ts';
import type { RpcMessage } from '../extensions/extension.ts';
import type { InboundCall } from './inbound-call.ts';
import { IDEMPOTENT_KEEP_MS, MAX_IDEMPOTENT_BYTES, MAX_IDEMPOTENT_OUTCOMES } from '../base/limits.ts';
import { MAX_TIMER_MS, unref } from '../base/platform.ts';
import { KeyedCalls, type Notice } from '../protocol/keyed-calls.ts';
import { system } from '../base/system-error.ts';

/** What a handler gave. */
type Outcome = { readonly reply: RpcMessage } | { readonly error: unknown };
type Told = Notice<Waiter, Outcome>['turn'];

/** A call with a key, ready to run. */
export interface KeyedCall {
  readonly call: InboundCall;
  /** The function's name. */
  readonly name: string;
  /** Of the arguments. */
  readonly digest: string;
  /** Runs the handler and makes its reply; calls `began` right before the handler. In the turn in which it is called, where it can. */
  readonly run: (began: () => void) => Promise<RpcMessage>;
  /** It waits for another call from now on, and needs no slot for that. */
  readonly rest: () => void;
}

/** One per agent. Keys are those of a caller and a function: the same key means nothing to others. */
export class Idempotency {
  private readonly environment: ExtendedEnvironment;
  private readonly calls = new KeyedCalls<Waiter, Outcome>(
    {
      maxOutcomes: MAX_IDEMPOTENT_OUTCOMES,
      maxBytes: MAX_IDEMPOTENT_BYTES,
      keepMs: IDEMPOTENT_KEEP_MS,
    },
    (outcome) => this.forgotten(outcome),
  );
  /** Tensors of outcomes that are remembered no more. */
  private readonly unused: Tensor[] = [];

  constructor(environment: ExtendedEnvironment) {
    this.environment = environment;
  }

  /** The reply of the call, or of the one that had its key before. @throws what the handler threw, then or now; why there is neither. */
  async run(keyed: KeyedCall): Promise<RpcMessage> {
    const { call, name, digest } = keyed;
    const key = `${call.caller.name}\n${name.length}\n${name}${call.key ?? ''}`;
    const waiter = new Waiter();
    let turn = this.calls.arrive(key, digest, waiter, this.environment.now(), call.caller.name);
    if (turn.kind === 'refused') throw this.refusal(turn.why, keyed);
    if (turn.kind === 'wait') {
      const told = waiter.turn(call);
      keyed.rest();
      try {
        turn = await told;
      } finally {
        this.calls.left(key, waiter);
      }
    }
    if (turn.kind === 'run') return this.attempt(key, keyed);
    if ('error' in turn.outcome) throw turn.outcome.error;
    return turn.outcome.reply;
  }

  /** Nothing is remembered any more, and nobody waits. */
  clear(): void {
    const closed = new RpcError('unavailable', 'the worker has shut down', { executed: 'maybe' });
    for (const waiter of this.calls.clear()) waiter.fail(system(closed));
  }

  private async attempt(key: string, { call, run }: KeyedCall): Promise<RpcMessage> {
    let began = false;
    const over = (outcome: Outcome, bytes: number): void => {
      const now = this.environment.now();
      // A handler that never looked at its limits did all it does, however late it was.
      const isResult = began && !(call.watched && (call.aborted || now >= call.deadline));
      for (const { to, turn } of this.calls.ended(key, isResult ? { outcome, bytes } : undefined, now)) to.tell(turn);
    };
    try {
      const reply = own(this.environment, call, await run(() => (began = true)));
      over({ reply }, bytesOf(reply));
      return reply;
    } catch (error) {
      over({ error }, 0);
      throw error;
    }
  }

  /** Whoever was given the outcome in this turn is still to send it. */
  private forgotten(outcome: Outcome): void {
    const { unused } = this;
    if (!('reply' in outcome) || outcome.reply.tensors.length === 0) return;
    if (unused.length === 0)
      unref(runAtRoot(() => setTimeout(() => unused.splice(0).forEach((tensor) => tensor.dispose()), 0)));
    unused.push(...outcome.reply.tensors);
  }

  private refusal(why: 'other-arguments' | 'full', { call, name }: KeyedCall): RpcError {
    if (why === 'other-arguments') {
      const text = `idempotency key '${call.key ?? ''}' came with other arguments of '${name}' before: another call needs another key`;
      return system(new RpcError('failed-precondition', text));
    }
    const text = `${this.calls.size} outcomes of calls with idempotency keys are kept already, ${this.calls.bytes} bytes`;
    return system(new RpcError('resource-exhausted', text));
  }
}

/** One that waits for another with its key, within its own limit. */
class Waiter {
  tell: (turn: Told) => void = () => undefined;
  fail: (error: unknown) => void = () => undefined;

  /** Its turn. Rejects when its call is cancelled, or when its time is up. */
  async turn(call: InboundCall): Promise<Told> {
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<Told>((resolve, reject) => {
        this.tell = resolve;
        this.fail = reject;
        call.wake = () => void (call.aborted && reject(call.abortReason));
        const check = (): void => {
          const left = call.deadline - performance.now();
          if (left <= 0) reject(system(call.late('maybe')));
          else timer = unref(runAtRoot(() => setTimeout(check, Math.min(Math.ceil(left), MAX_TIMER_MS))));
        };
        if (call.deadline !== Infinity) check();
      });
    } finally {
      clearTimeout(timer);
      call.wake = undefined;
    }
  }
}

function bytesOf({ payload, tensors }: RpcMessage): number {
  return tensors.reduce((sum, { storage }) => sum + storage.nbytes, payload.length);
}

/** The outcome is sent again later: by then its tensors may have been changed or freed by the program. */
function own(environment: ExtendedEnvironment, call: InboundCall, reply: RpcMessage): RpcMessage {
  if (reply.header !== undefined && reply.header.length > 0) {
    environment.extensions.undelivered(call.peer.worker, reply.header);
    const text = 'the result of a call with an idempotency key cannot hold remote references';
    throw system(new RpcError('failed-precondition', text, { executed: 'yes' }));
  }
  return { ...reply, tensors: reply.tensors.map(copyOf) };
}

/** Nobody's but ours. */
function copyOf(tensor: Tensor): Tensor {
  const detached = tensor.detach();
  const copy = detached.clone();
  detached.dispose();
  return copy;
}
