/** @file What a profile consists of. */
import { optionNames, refuseUnknown, show } from '@backwire/rpc/internal';

/** One thing that took time. */
export interface ProfileEvent {
  /** The operation ('aten::add'), the label of `recordFunction`, or the key of a call ('rpc_async#aten::add(w0 -> w1)'). */
  readonly name: string;
  /** The id of the worker that it ran on; 0 in a process without an agent. */
  readonly node: number;
  /** It ran on another worker than the one that profiles. */
  readonly isRemote: boolean;
  /** Since the profile began, in microseconds, on the clock of the worker that profiles. */
  readonly startUs: number;
  readonly durationUs: number;
  /** The shapes of the tensors among its inputs, with `recordShapes`. */
  readonly shapes?: readonly (readonly number[])[];
  /** Bytes of tensor memory it allocated (negative: freed); of a call the bytes of tensors that its message carries. With `profileMemory`. */
  readonly bytes?: number;
}

/** Stands between the key of a call and the name of what the callee did for it. */
export const REMOTE_OP = '#remote_op: ';

/** What an event is to the trace. */
export type EventKind = 'op' | 'scope' | 'rpc' | 'handler';

/** An event as it is kept. */
export interface RecordedEvent extends ProfileEvent {
  readonly kind: EventKind;
  /** The index of the event it happened in, -1 for none. A remote event's parent is the call it came from. */
  readonly parent: number;
}

/** What a profile keeps beside names and times. */
export interface ProfileOptions {
  /** Keeps the shapes of inputs. @default false */
  recordShapes?: boolean;
  /** Keeps how much tensor memory each operation took. @default false */
  profileMemory?: boolean;
}

const PROFILE_OPTIONS = optionNames<ProfileOptions>()('recordShapes profileMemory');

/** @throws RpcError 'invalid-argument' for an option that there is none of, TypeError for one that is neither true nor false. */
export function checkProfileOptions(options: ProfileOptions, what: string): void {
  refuseUnknown(options, PROFILE_OPTIONS, what);
  for (const [name, value] of Object.entries(options) as [string, unknown][])
    if (value !== undefined && typeof value !== 'boolean')
      throw new TypeError(`${name} of ${what} is true or false, got ${show(value)}`);
}

/** The events as the public sees them: without those that only the trace draws. */
export function publicEvents(events: readonly RecordedEvent[]): ProfileEvent[] {
  return events.filter(({ kind }) => kind !== 'handler').map(({ kind: _, parent: __, ...event }) => event);
}
