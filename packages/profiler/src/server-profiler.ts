/** @file A profiler of everything a worker does for others, switched on and off from anywhere in the group. */
import { rpcName } from '@backwire/tensor';
import { callContext, currentAgent, rpcClass, RpcError, type RpcAgent } from '@backwire/rpc';
import { attempt } from '@backwire/rpc/internal';
import {
  checkProfileOptions,
  type ProfileEvent,
  type ProfileOptions,
  publicEvents,
  type RecordedEvent,
} from './events.ts';
import { MAX_EVENTS } from './limits.ts';
import { Summary, type SummaryOptions, type TableOptions } from './summary.ts';

/** What one server profiler has recorded. It does not lead back to the profiler: that one may be gone before it is told to stop. */
class Recording {
  readonly options: ProfileOptions;
  readonly calls: (readonly RecordedEvent[])[] = [];
  lost = 0;
  private kept = 0;

  constructor(options: ProfileOptions) {
    this.options = options;
  }

  /** Takes in one call: `name`, how long its handler took, and the events inside. */
  add(name: string, node: number, durationUs: number, events: readonly RecordedEvent[]): void {
    if (this.kept + events.length + 1 > MAX_EVENTS) {
      this.lost += events.length + 1;
      return;
    }
    this.kept += events.length + 1;
    const whole = { name, kind: 'scope', node, isRemote: false, parent: -1, startUs: 0, durationUs } as const;
    this.calls.push([whole, ...events.map((event) => ({ ...event, parent: event.parent + 1 }))]);
  }
}

/** A recording that is on, and the worker that switched it on; undefined for a program's own. */
interface Active {
  readonly recording: Recording;
  readonly by: string | undefined;
}

/** The recordings that are on in one agent, outermost first. */
const active = new WeakMap<RpcAgent, Active[]>();

/** The recordings of the server profilers of `agent` that are on now, outermost first. */
export function activeRecordings(agent: RpcAgent): readonly Recording[] {
  return (active.get(agent) ?? []).map(({ recording }) => recording);
}

/** Whether any server profiler of `agent` is on. */
export function anyServerProfiler(agent: RpcAgent): boolean {
  return (active.get(agent)?.length ?? 0) > 0;
}

/** Ends what `worker` switched on: it is gone, and nobody else will. */
export function endServerProfilersOf(agent: RpcAgent, worker: string): void {
  const stack = active.get(agent);
  if (stack !== undefined) remove(stack, ({ by }) => by === worker);
}

function remove(stack: Active[], which: (each: Active) => boolean): void {
  for (let at = stack.length - 1; at >= 0; at--) {
    const each = stack[at];
    if (each !== undefined && which(each)) stack.splice(at, 1);
  }
}

/** A profiler that nobody refers to any more can never be switched off: its recording ends with it. */
const abandoned = new FinalizationRegistry<{ readonly stack: Active[]; readonly recording: Recording }>(
  ({ stack, recording }) => remove(stack, (each) => each.recording === recording),
);

/**
 * Records every call that a worker handles while it is on, whoever made it: an event with the name of what was called, and inside what it
 * did. Make one with `remote('server', ServerProfiler)` and switch it through the reference. Of nested ones, each sees what happens while
 * it is on. It goes off by itself when the worker that switched it on leaves or dies, and some time after the last reference is gone.
 */
export class ServerProfiler {
  static readonly [rpcName] = 'backwire/ServerProfiler';
  readonly options: ProfileOptions;
  private readonly recording: Recording;

  constructor(options: ProfileOptions = {}) {
    checkProfileOptions(options, 'ServerProfiler');
    this.options = { recordShapes: options.recordShapes === true, profileMemory: options.profileMemory === true };
    this.recording = new Recording(this.options);
  }

  /** On from now. @throws RpcError 'failed-precondition' when it is on already. */
  enter(): void {
    const agent = currentAgent();
    const { recording } = this;
    const stack = active.get(agent) ?? [];
    if (stack.some((each) => each.recording === recording))
      throw new RpcError('failed-precondition', 'this server profiler is on already');
    // Undefined outside of a handler.
    const by = attempt(callContext)?.caller.name;
    stack.push({ recording, by: by === agent.name ? undefined : by });
    active.set(agent, stack);
    abandoned.register(this, { stack, recording }, this);
  }

  /** Off from now. Calls that are running are still recorded to their end. @throws RpcError 'failed-precondition' when it is not on. */
  exit(): void {
    const stack = active.get(currentAgent()) ?? [];
    const at = stack.findIndex(({ recording }) => recording === this.recording);
    if (at < 0) throw new RpcError('failed-precondition', 'this server profiler is not on');
    stack.splice(at, 1);
    abandoned.unregister(this);
  }

  /** One list for every call that was handled, in the order they ended. Of long profiles ask for `table`: values that travel have limits. */
  events(): readonly (readonly ProfileEvent[])[] {
    return this.recording.calls.map(publicEvents);
  }

  /** Events that there was no room for, those of whole calls included. */
  dropped(): number {
    return this.recording.lost;
  }

  /** The sums of all calls as text. */
  table(options: SummaryOptions & TableOptions = {}): string {
    const all: RecordedEvent[] = [];
    for (const events of this.recording.calls) {
      const base = all.length;
      for (const event of events) all.push({ ...event, parent: event.parent < 0 ? -1 : base + event.parent });
    }
    const { groupBy, ...table } = options;
    return new Summary(all, groupBy === undefined ? {} : { groupBy }, this.recording.lost).table(table);
  }
}
rpcClass(ServerProfiler, { methods: ['enter', 'exit', 'events', 'dropped', 'table'] });
