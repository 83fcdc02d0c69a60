/** @file Outcomes by idempotency key: a call that is sent twice runs once. */
import type { Core } from './core.ts';
import { RpcError } from './errors.ts';
import type { RpcMessage } from './extension.ts';
import type { InboundCall } from './inbound-call.ts';
import { IDEMPOTENT_KEEP_MS, MAX_IDEMPOTENT_OUTCOMES } from './limits.ts';

interface Outcome {
  readonly reply: Promise<RpcMessage>;
  /** When it may be forgotten; Infinity while the call runs. */
  until: number;
}

/**
 * Outcomes of calls with a key, by caller, function and key. A second call joins the first while that runs, and gets the same outcome for
 * a while after. A full cache refuses new keys: forgetting one too early would run its call twice.
 */
export class IdempotencyCache {
  private readonly core: Core;
  private readonly outcomes = new Map<string, Outcome>();

  constructor(core: Core) {
    this.core = core;
  }

  /** The outcome of `run`, or of the call that had the same key before. */
  run(call: InboundCall, run: () => Promise<RpcMessage>): Promise<RpcMessage> {
    const id = `${call.caller.name}\n${call.definition?.name ?? ''}\n${call.key ?? ''}`;
    const now = this.core.now();
    const known = this.outcomes.get(id);
    if (known !== undefined && now < known.until) return known.reply;
    if (known === undefined && this.outcomes.size >= MAX_IDEMPOTENT_OUTCOMES && !this.forget(now)) {
      const text = `${MAX_IDEMPOTENT_OUTCOMES} outcomes of calls with idempotency keys are kept already`;
      return Promise.reject(new RpcError('resource-exhausted', text, { executed: 'no' }));
    }
    const reply = run().then((made) => own(this.core, call, made));
    const outcome: Outcome = { reply, until: Infinity };
    this.outcomes.set(id, outcome);
    const settled = (): void => {
      outcome.until = this.core.now() + IDEMPOTENT_KEEP_MS;
    };
    reply.then(settled, settled);
    return reply;
  }

  clear(): void {
    this.outcomes.clear();
  }

  /** Drops what is too old; false when nothing was. */
  private forget(now: number): boolean {
    for (const [id, outcome] of this.outcomes) if (outcome.until <= now) this.outcomes.delete(id);
    return this.outcomes.size < MAX_IDEMPOTENT_OUTCOMES;
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
