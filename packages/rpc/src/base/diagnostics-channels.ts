/** @file Calls on Node's diagnostics channels, for tools that subscribe there; without a subscriber nothing is made. */
import type { Channel, TracingChannel } from 'node:diagnostics_channel';
import type { CallObserver, ObservedCall, ObservedHandler } from './observed-call.ts';

/** What travels on `tracing:backwire:rpc.call:*` (outgoing calls) and `tracing:backwire:rpc.handle:*` (incoming ones). */
interface CallTrace {
  /** The name of the function, 'Class.method' for a method of a remote value. */
  readonly method: string;
  /** 'sync', 'async', 'remote', 'oneway', 'stream', 'other'; 'handler' for an incoming call. */
  readonly kind: string;
  /** The name of the other worker. */
  readonly peer: string;
  /** Set on 'error', and on the 'asyncStart' and 'asyncEnd' after it. */
  error?: unknown;
}

const diagnostics = globalThis.process?.getBuiltinModule?.('node:diagnostics_channel');
const calls = diagnostics?.tracingChannel<unknown, CallTrace>('backwire:rpc.call');
const handlers = diagnostics?.tracingChannel<unknown, CallTrace>('backwire:rpc.handle');
const watched: readonly Channel[] = [calls, handlers].flatMap((channel) =>
  channel === undefined
    ? []
    : [channel.start, channel.end, channel.asyncStart, channel.asyncEnd, channel.error].map((one) => one as Channel),
);

/** Whether anybody subscribes to any of them. */
export function channelsAreWatched(): boolean {
  for (let i = 0; i < watched.length; i++) if (watched[i]?.hasSubscribers === true) return true;
  return false;
}

/** One object for the messages about one call; calls that began before anybody subscribed have none. */
const traces = new WeakMap<object, CallTrace>();

/** Publishes what it is told. */
export const channelObserver: CallObserver = {
  called: (call: ObservedCall) =>
    begin(calls, call, { method: call.label.name, kind: call.label.kind, peer: call.peer.worker.name }),
  settled: (call: ObservedCall, error: unknown) => finish(calls, call, error),
  handling: (call: ObservedHandler) =>
    begin(handlers, call, { method: call.definition?.name ?? '', kind: 'handler', peer: call.peer.worker.name }),
  handled: (call: ObservedHandler, error: unknown) => finish(handlers, call, error),
};

type Channels = TracingChannel<unknown, CallTrace> | undefined;

/** A subscriber that throws is Node's affair: it reports the error as uncaught, and the call goes on. */
function begin(channel: Channels, call: object, trace: CallTrace): void {
  traces.set(call, trace);
  channel?.start.publish(trace);
  channel?.end.publish(trace);
}

function finish(channel: Channels, call: object, error: unknown): void {
  const trace = traces.get(call);
  if (trace === undefined) return;
  traces.delete(call);
  if (error !== undefined) {
    trace.error = error;
    channel?.error.publish(trace);
  }
  channel?.asyncStart.publish(trace);
  channel?.asyncEnd.publish(trace);
}
