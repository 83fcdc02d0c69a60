/** @file Outcomes by idempotency key: a call that is sent twice runs once. */
import type { Core } from './core.ts';
import { RpcError } from './errors.ts';
import type { RpcMessage } from './extension.ts';
import type { InboundCall } from './inbound-call.ts';
import { IDEMPOTENT_KEEP_MS, MAX_IDEMPOTENT_BYTES, MAX_IDEMPOTENT_OUTCOMES } from './limits.ts';

interface Outcome {
  readonly reply: Promise<RpcMessage>;
  /** When it may be forgotten; Infinity while the call runs. */
  until: number;
  /** What it keeps in memory; 0 while the call runs. */
  bytes: number;
}

/**
 * Outcomes of calls with a key, by caller, function and key. A second call joins the first while that runs, and gets the same outcome for
 * a while after. A full cache refuses new keys: forgetting one too early would run its call twice.
 */
export class IdempotencyCache {
  private readonly core: Core;
  private readonly outcomes = new Map<string, Outcome>();
  private bytes = 0;
  /** Before this nothing can be forgotten: a full cache is not searched for every call that it refuses. */
  private nextForget = 0;

  constructor(core: Core) {
    this.core = core;
  }

  /** The outcome of `run`, or of the call of `name` that had the same key before. */
  run(call: InboundCall, name: string, run: () => Promise<RpcMessage>): Promise<RpcMessage> {
    const id = `${call.caller.name}\n${name}\n${call.key ?? ''}`;
    const now = this.core.now();
    const known = this.outcomes.get(id);
    if (known !== undefined && now < known.until) return known.reply;
    if (known !== undefined) this.drop(id, known);
    else if (this.isFull() && !this.forget(now)) {
      const text = `${this.outcomes.size} outcomes of calls with idempotency keys are kept already, ${this.bytes} bytes`;
      return Promise.reject(new RpcError('resource-exhausted', text, { executed: 'no' }));
    }
    const reply = run().then((made) => own(this.core, call, made));
    const outcome: Outcome = { reply, until: Infinity, bytes: 0 };
    this.outcomes.set(id, outcome);
    const settled = (bytes: number): void => {
      outcome.until = this.core.now() + IDEMPOTENT_KEEP_MS;
      if (this.outcomes.get(id) !== outcome) return;
      outcome.bytes = bytes;
      this.bytes += bytes;
    };
    reply.then(
      ({ payload, tensors }) => settled(tensors.reduce((sum, { storage }) => sum + storage.nbytes, payload.length)),
      () => settled(0),
    );
    return reply;
  }

  clear(): void {
    this.outcomes.clear();
    this.bytes = 0;
  }

  private isFull(): boolean {
    return this.outcomes.size >= MAX_IDEMPOTENT_OUTCOMES || this.bytes >= MAX_IDEMPOTENT_BYTES;
  }

  private drop(id: string, outcome: Outcome): void {
    this.outcomes.delete(id);
    this.bytes -= outcome.bytes;
  }

  /** Drops what is too old; false when it is full all the same. */
  private forget(now: number): boolean {
    if (now < this.nextForget) return false;
    // Those that run now are kept for the whole time from their end on.
    let next = now + IDEMPOTENT_KEEP_MS;
    for (const [id, outcome] of this.outcomes) {
      if (outcome.until <= now) this.drop(id, outcome);
      else if (outcome.until < next) next = outcome.until;
    }
    this.nextForget = next;
    return !this.isFull();
  }
}

/** The outcome is sent again later: by then its tensors may have been changed or freed by the program. */
function own(core: Core, call: InboundCall, reply: RpcMessage): RpcMessage {
  if (reply.header !== undefined && reply.header.length > 0) {
    core.extensions.undelivered(call.peer.worker, reply.header);
    throw new RpcError(
      'failed-precondition',
      'the result of a call with an idempotency key cannot hold remote references',
      { executed: 'yes' },
    );
  }
  return { ...reply, tensors: reply.tensors.map((tensor) => tensor.detach().clone()) };
}
