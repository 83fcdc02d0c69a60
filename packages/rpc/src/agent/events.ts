/** @file The listeners of an agent's events. */
import { nearestName, optionNames, runAtRoot } from '@backwire/tensor/internal';
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import type { AgentEvents } from '../base/rpc-agent.ts';
import { invalidArgument, RpcError } from '../base/errors.ts';
import { MAX_EVENT_LISTENERS } from '../base/limits.ts';
import { observe } from '../base/observe.ts';
import { checkSignal, show } from '../base/options.ts';
import { warn } from '../base/platform.ts';

const EVENTS = optionNames<AgentEvents>()('peer-suspect peer-down peer-joined peer-left peer-reconnected fenced error');

type Listener = (value: never) => unknown;

function unknownEvent(name: unknown): RpcError {
  const near = typeof name === 'string' ? nearestName(name, EVENTS) : undefined;
  const advice = near === undefined ? `there are ${[...EVENTS].join(', ')}` : `did you mean '${near}'?`;
  return invalidArgument(`no event is named ${show(name)}; ${advice}`);
}

export class EventHub {
  private readonly listeners = new Map<keyof AgentEvents, Set<Listener>>();

  on<E extends keyof AgentEvents>(
    event: E,
    listener: (value: AgentEvents[E]) => void,
    signal?: AbortSignal,
  ): () => void {
    if (!EVENTS.has(event)) throw unknownEvent(event);
    if (typeof listener !== 'function') throw new TypeError(`a listener of '${event}' is a function`);
    checkSignal(signal);
    let list = this.listeners.get(event);
    if (list === undefined) this.listeners.set(event, (list = new Set()));
    if (list.size >= MAX_EVENT_LISTENERS)
      throw new RpcError(
        'resource-exhausted',
        `more than ${MAX_EVENT_LISTENERS} listeners of '${event}': end each with what on() returned, or with a signal`,
      );
    const entry = (value: never): unknown => listener(value);
    const off = (): void => {
      list.delete(entry);
      if (signal !== undefined) unwatchAbort(signal, off);
    };
    if (signal?.aborted === true) return off;
    list.add(entry);
    if (signal !== undefined) watchAbort(signal, off);
    return off;
  }

  /** Tells every listener, outside of whatever call is running; what one throws, or rejects with, becomes an 'error' event. */
  emit<E extends keyof AgentEvents>(event: E, value: AgentEvents[E]): void {
    const list = this.listeners.get(event);
    if (list === undefined || list.size === 0) {
      if (event === 'error') warnOf(value);
      return;
    }
    runAtRoot(() => {
      for (const listener of [...list]) {
        observe(
          () => listener(value as never),
          (error) => (event === 'error' ? warnOf(error) : this.emit('error', error)),
        );
      }
    });
  }
}

function warnOf(error: unknown): void {
  warn(error instanceof Error ? error : String(error));
}
