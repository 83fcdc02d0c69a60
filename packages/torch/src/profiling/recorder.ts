/** @file Records what a worker does for a call that another one profiles, as events of torch's legacy profiler. */
import type { OpObserver } from '@backwire/tensor/internal';
import type { TorchEvent } from '../messages/commands.ts';
import type { OperatorProfile } from '../operators/call.ts';

/** Events of one call that are kept. */
const MAX_EVENTS = 100_000;
const MARK = 0;
const PUSH = 1;
const POP = 2;
const MEMORY = 3;
/** Between the name of a call and what was done for it. */
const REMOTE_OP = '#remote_op: ';
/** torch numbers its threads; there is one here. */
const THREAD = 1;

export interface RecorderOptions {
  /** The worker whose events these are. */
  readonly node: number;
  readonly shapes: boolean;
  readonly memory: boolean;
}

/** Lifetime: from the first mark, which it makes at once, to `finish`. What is told later is dropped. */
export class Recorder implements OpObserver, OperatorProfile {
  readonly options: RecorderOptions;
  private readonly events: TorchEvent[] = [];
  private handles = 0;
  private finished = false;
  /** The operator that was called by schema and has no event yet. */
  private called: { readonly name: string; readonly args: readonly unknown[] } | undefined;

  constructor(options: RecorderOptions) {
    this.options = options;
    this.add(MARK, '__start_profile', 0);
  }

  begin(name: string, inputs: readonly unknown[]): number {
    const handle = ++this.handles;
    const shown = name.includes('::') || name.includes('#') ? name : `aten::${name}`;
    const { called } = this;
    this.called = undefined;
    this.add(PUSH, shown, handle, called?.name === shown ? called.args : inputs);
    return handle;
  }

  end(token: unknown, output?: unknown): void {
    if (typeof token !== 'number') return;
    if (this.options.memory) this.allocated(output);
    this.add(POP, '', token);
  }

  operator<T>(name: string, args: readonly unknown[], run: () => T): T {
    this.called = { name, args };
    try {
      return run();
    } finally {
      this.called = undefined;
    }
  }

  async during<T>(name: string, fn: () => Promise<T>): Promise<T> {
    const handle = ++this.handles;
    this.add(PUSH, name, handle);
    try {
      return await fn();
    } finally {
      this.add(POP, '', handle);
    }
  }

  /** Takes in the events of a call that was made meanwhile, under its name. */
  take(key: string, events: readonly TorchEvent[]): void {
    for (const event of events) {
      if (event.kind === MARK) continue;
      const name = event.name === '' ? '' : `${key}${REMOTE_OP}${event.name}`;
      this.keep({ ...event, name, handle: event.handle === 0 ? 0 : event.handle + this.handles });
    }
    this.handles += events.reduce((most, { handle }) => Math.max(most, handle), 0);
  }

  finish(): readonly TorchEvent[] {
    this.finished = true;
    return [...this.events, this.event(MARK, '__stop_profile', 0)];
  }

  private allocated(output: unknown): void {
    const { nbytes } = (output as { storage?: { nbytes?: number } } | undefined)?.storage ?? {};
    if (nbytes === undefined) return;
    this.keep({ ...this.event(MEMORY, '', 0), cpuBytes: nbytes });
  }

  private add(kind: number, name: string, handle: number, inputs: readonly unknown[] = []): void {
    this.keep(this.event(kind, name, handle, inputs));
  }

  private keep(event: TorchEvent): void {
    if (!this.finished && this.events.length < MAX_EVENTS) this.events.push(event);
  }

  private event(kind: number, name: string, handle: number, inputs: readonly unknown[] = []): TorchEvent {
    return {
      kind,
      name,
      thread: THREAD,
      handle,
      node: this.options.node,
      cpuBytes: 0,
      cpuNs: epochNs(),
      hasCuda: false,
      cudaBytes: 0,
      cudaDevice: -1,
      cudaUs: -1,
      shapes: this.options.shapes && kind === PUSH ? shapesOf(inputs) : [],
    };
  }
}

/** torch puts the events of all workers on one line of time: that since the epoch. */
function epochNs(): bigint {
  return BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6));
}

function shapesOf(inputs: readonly unknown[]): readonly (readonly number[])[] {
  return inputs.map((input) => {
    const shape = (input as { shape?: readonly number[] } | null)?.shape;
    return Array.isArray(shape) ? [...(shape as readonly number[])] : [];
  });
}
