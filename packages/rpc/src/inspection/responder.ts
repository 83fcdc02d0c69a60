/** @file The agent's side of an inspection: whoever holds the group's secret may look, and nothing more. */
import { equalBytes } from '../base/platform.ts';
import type { AgentParts } from './agent-parts.ts';
import type { Connection } from '../transports/transport.ts';
import { CallLog } from './call-log.ts';
import { jsonSink, sendJson } from './frames.ts';
import { MAX_INSPECTORS, MAX_QUESTION_BYTES, MAX_UNSENT_BYTES } from './limits.ts';
import { reportOf } from './report.ts';

/** What an inspector says of itself in the handshake. No worker can be called that. */
export const INSPECTOR_CLAIM: Uint8Array = new TextEncoder().encode('?inspect/1');

/** A question. `recent` asks for calls that ended after that number, and starts to remember them. */
export type Question = { readonly ask: 'view' } | { readonly ask: 'report'; readonly recent?: number };

/** Who looks at each agent. */
const visitors = new WeakMap<AgentParts, Set<Connection>>();

/** Whether someone who proved itself with this claim wants to look, and not to join. */
export function isInspector(claim: Uint8Array): boolean {
  return equalBytes(claim, INSPECTOR_CLAIM);
}

/**
 * Answers questions until either side has had enough. It is no member and no peer: the view, shutdown and sessions know nothing of it.
 * Calls that end are remembered from the first question about them until the connection is closed.
 *
 * @param connection one that has proved itself; owned from here on.
 * @param signal ends it, with the agent.
 */
export function serveInspector(agent: AgentParts, connection: Connection, signal: AbortSignal): void {
  const all = visitors.get(agent) ?? new Set<Connection>();
  if (all.size >= MAX_INSPECTORS || signal.aborted) {
    connection.destroy();
    return;
  }
  if (!visitors.has(agent)) {
    visitors.set(agent, all);
    const hangUp = (): void => {
      for (const visitor of all) visitor.destroy();
    };
    signal.addEventListener('abort', hangUp, { once: true });
  }
  all.add(connection);
  let log: CallLog | undefined;
  let unwatch: (() => void) | undefined;
  const answer = (question: unknown): void => {
    if (connection.bufferedBytes > MAX_UNSENT_BYTES) throw new Error('reports are not taken');
    const { ask, recent } = (question ?? {}) as { ask?: unknown; recent?: unknown };
    if (ask === 'view') sendJson(connection, { view: agent.membership.view });
    else if (ask === 'report') {
      if (typeof recent === 'number' && log === undefined) {
        log = new CallLog();
        unwatch = agent.observers.add(log);
      }
      const seen = log === undefined ? undefined : { calls: log, after: typeof recent === 'number' ? recent : 0 };
      sendJson(connection, { report: reportOf(agent, seen) });
    } else throw new Error('a question that nobody knows');
  };
  const closed = (): void => {
    unwatch?.();
    all.delete(connection);
  };
  connection.attach(jsonSink(MAX_QUESTION_BYTES, answer, closed));
}
