/** @file Calls of the group's own that wait until there is room for them on the way to a member, in the order in which they were made. */
import { ambient, runAtRoot, runWith } from '@backwire/tensor/internal';
import { rpcInfo } from '../base/errors.ts';
import type { CallOptions } from '../base/options.ts';
import { sleep } from '../base/within.ts';
import type { Answer } from '../client/pending-call.ts';
import type { AgentParts } from '../inspection/agent-parts.ts';
import { begin } from './collective-calls.ts';

interface Waiting {
  readonly name: string;
  readonly args: readonly unknown[];
  readonly timeoutMs: number;
  /** When it was made, by the clock of `performance`. */
  readonly madeAt: number;
  readonly signal: AbortSignal | undefined;
  /** What was in force there: its deadline is no other call's. */
  readonly record: ReturnType<typeof ambient>;
  readonly answer: Answer;
}

/** Pauses between two looks whether there is room: short at first. */
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 250;

export class PatientCalls {
  private readonly agent: AgentParts;
  /** By member, those for which there was no room: whoever comes later waits behind them, or would arrive before them. */
  private readonly queues = new Map<string, Waiting[]>();

  constructor(agent: AgentParts) {
    this.agent = agent;
  }

  /** The answer of a member, to which the call goes as soon as there is room for it. */
  ask(to: string, name: string, args: readonly unknown[], { timeoutMs = 0, signal }: CallOptions): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const answer = { resolve, reject };
      const call = { name, args, timeoutMs, madeAt: performance.now(), signal, record: ambient(), answer };
      const queue = this.queues.get(to);
      if (queue !== undefined) queue.push(call);
      else if (!this.went(to, call)) {
        const own = [call];
        this.queues.set(to, own);
        runAtRoot(() => void this.drain(to, own));
      }
    });
  }

  /** Whether it was made, or is over: there was no room for it otherwise. */
  private went(to: string, call: Waiting): boolean {
    const { name, args, timeoutMs, madeAt, signal, answer } = call;
    const leftMs = timeoutMs === 0 ? 0 : Math.max(1, timeoutMs - (performance.now() - madeAt));
    let isBeginning = true;
    let isFull = false;
    const reject = (error: unknown): void => {
      const info = rpcInfo(error);
      // One that is refused later has lost its place in the order.
      if (isBeginning && !isOver(call) && info?.code === 'resource-exhausted' && info.retryable) isFull = true;
      else answer.reject(error);
    };
    try {
      const told = { resolve: (value: unknown) => answer.resolve(value), reject };
      begin(this.agent, to, name, args, { timeoutMs: leftMs, signal }, told);
    } catch (error) {
      answer.reject(error);
    }
    isBeginning = false;
    return !isFull;
  }

  private async drain(to: string, queue: Waiting[]): Promise<void> {
    const goes = (call: Waiting): boolean => runWith(call.record, () => this.went(to, call));
    let pauseMs = FIRST_PAUSE_MS;
    while (queue.length > 0) {
      await sleep(pauseMs);
      pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
      // Whose time is up, or who has given up, does not wait for its turn to hear so.
      for (const call of queue.filter(isOver)) {
        queue.splice(queue.indexOf(call), 1);
        goes(call);
      }
      while (queue.length > 0 && goes(queue[0] as Waiting)) {
        queue.shift();
        pauseMs = FIRST_PAUSE_MS;
      }
    }
    this.queues.delete(to);
  }
}

function isOver({ signal, timeoutMs, madeAt }: Waiting): boolean {
  return signal?.aborted === true || (timeoutMs > 0 && performance.now() - madeAt > timeoutMs);
}
