/** @file A profiler of everything a worker does for others, switched on and off from anywhere in the group. */
import { rpcName } from '@backwire/tensor';
import { currentAgent, rpcClass, type RpcAgent } from '@backwire/rpc';
import { type ProfileEvent, type ProfileOptions, publicEvents, type RecordedEvent } from './events.ts';
import { MAX_EVENTS } from './limits.ts';
import { Summary, type SummaryOptions, type TableOptions } from './summary.ts';

/** The profilers at work in one agent, outermost first. */
const active = new WeakMap<RpcAgent, ServerProfiler[]>();

/** The server profilers of `agent` that are on now, outermost first. */
export function activeServerProfilers(agent: RpcAgent): readonly ServerProfiler[] {
  return active.get(agent) ?? [];
}

/**
 * Records every call that a worker handles while it is on, whoever made it. Make one with `remote('server', ServerProfiler)` and switch
 * it through the reference. Of nested ones, each sees what happens while it is on.
 */
export class ServerProfiler {
  static readonly [rpcName] = 'backwire/ServerProfiler';
  readonly options: ProfileOptions;
  private readonly calls: (readonly RecordedEvent[])[] = [];
  private kept = 0;
  private lost = 0;

  constructor(options: ProfileOptions = {}) {
    this.options = { recordShapes: options.recordShapes === true, profileMemory: options.profileMemory === true };
  }

  /** On from now. @throws Error when it is on already. */
  enter(): void {
    const agent = currentAgent();
    const stack = active.get(agent) ?? [];
    if (stack.includes(this)) throw new Error('this server profiler is on already');
    stack.push(this);
    active.set(agent, stack);
  }

  /** Off from now. Calls that are running are still recorded to their end. @throws Error when it is not on. */
  exit(): void {
    const stack = active.get(currentAgent()) ?? [];
    const at = stack.indexOf(this);
    if (at < 0) throw new Error('this server profiler is not on');
    stack.splice(at, 1);
  }

  /** One list for every call that was handled, in the order they ended. Of long profiles ask for `table`: values that travel have limits. */
  events(): readonly (readonly ProfileEvent[])[] {
    return this.calls.map(publicEvents);
  }

  /** Events that there was no room for. */
  dropped(): number {
    return this.lost;
  }

  /** The sums of all calls as text. */
  table(options: SummaryOptions & TableOptions = {}): string {
    const all: RecordedEvent[] = [];
    for (const events of this.calls) {
      const base = all.length;
      for (const event of events) all.push({ ...event, parent: event.parent < 0 ? -1 : base + event.parent });
    }
    return new Summary(all, options).table(options);
  }

  /** Takes in the events of one call. */
  add(events: readonly RecordedEvent[]): void {
    if (this.kept + events.length > MAX_EVENTS) {
      this.lost += events.length;
      return;
    }
    this.kept += events.length;
    this.calls.push(events);
  }
}
rpcClass(ServerProfiler, { methods: ['enter', 'exit', 'events', 'dropped', 'table'] });
