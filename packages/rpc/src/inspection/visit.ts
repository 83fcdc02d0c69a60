/** @file A connection to one agent that asks and never joins. */
import { RpcError } from '../base/errors.ts';
import { MAX_TIMER_MS } from '../base/platform.ts';
import { decodeView, type View } from '../protocol/membership.ts';
import { authenticate } from '../connect/authenticate.ts';
import { workerIn } from '../security/certificate.ts';
import type { ResolvedSecurity } from '../security/policy.ts';
import type { Connection, Transport } from '../transports/transport.ts';
import { INSPECTOR_CLAIM, type Question } from './responder.ts';
import { jsonSink, sendJson } from './frames.ts';
import { MAX_REPORT_BYTES } from './limits.ts';

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** What an agent answers. */
export interface Reply {
  readonly view?: View;
  /** To be read with `readReport`. */
  readonly report?: unknown;
}

export interface VisitOptions {
  readonly group: string;
  readonly security: ResolvedSecurity;
  readonly timeoutMs: number;
}

interface Waiter {
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

/** Of what a worker says nothing is believed that others cannot use. */
function replyOf(given: unknown): Reply {
  const { view, report } = (given ?? {}) as { readonly view?: unknown; readonly report?: unknown };
  const known = view === undefined ? undefined : decodeView(encoder.encode(JSON.stringify(view)));
  return { ...(known === undefined ? {} : { view: known }), ...(report === undefined ? {} : { report }) };
}

/** States: *open* → *closed* (either side hung up; every question that waits is rejected). */
export class Visit {
  /** Who answers: a worker's name and its incarnation. */
  readonly claim: string;
  private readonly connection: Connection;
  private readonly timeoutMs: number;
  private readonly waiting: Waiter[] = [];
  private over: Error | undefined;

  private constructor(connection: Connection, claim: string, timeoutMs: number) {
    this.connection = connection;
    this.claim = claim;
    this.timeoutMs = timeoutMs;
    connection.attach(
      jsonSink(
        MAX_REPORT_BYTES,
        (reply) => this.waiting.shift()?.resolve(replyOf(reply)),
        (error) => this.closed(error),
      ),
    );
  }

  /**
   * Connects and proves itself, with the group's secret or a certificate.
   * @throws RpcError 'unavailable', 'unauthenticated', 'deadline-exceeded', 'version-mismatch'.
   */
  static async open(transport: Transport, endpoint: string, options: VisitOptions): Promise<Visit> {
    const { group, security, timeoutMs } = options;
    const connection = await transport.dial(endpoint, { timeoutMs });
    const proved = await authenticate(connection, {
      role: 'dialer',
      group,
      keys: security.keys,
      claim: INSPECTOR_CLAIM,
      timeoutMs,
    });
    const claim = decoder.decode(proved.claim);
    if (workerIn(proved.claim) === undefined) {
      proved.connection.destroy();
      throw new RpcError('unauthenticated', `who answers at ${endpoint} claims to be no worker`);
    }
    return new Visit(proved.connection, claim, timeoutMs);
  }

  get closedAlready(): boolean {
    return this.over !== undefined;
  }

  /** @throws RpcError 'unavailable' when the agent hangs up, 'deadline-exceeded' when it does not answer; the visit is over then. */
  async ask(question: Question): Promise<Reply> {
    if (this.over !== undefined) throw this.over;
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<Reply>((resolve, reject) => {
        timer = setTimeout(
          () => {
            reject(new RpcError('deadline-exceeded', `no answer within ${this.timeoutMs} ms`));
            this.close();
          },
          Math.min(this.timeoutMs, MAX_TIMER_MS),
        );
        this.waiting.push({ resolve, reject });
        sendJson(this.connection, question);
      });
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    this.connection.destroy();
    this.closed();
  }

  private closed(error?: Error): void {
    this.over ??= new RpcError('unavailable', 'the worker hung up', error === undefined ? {} : { cause: error });
    for (const waiter of this.waiting.splice(0)) waiter.reject(this.over);
  }
}
