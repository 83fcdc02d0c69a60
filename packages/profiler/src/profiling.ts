/** @file The extension that lets a profile see into the workers it calls. */
import type { Extension, ExtensionSession, Incoming, Outgoing, WorkerInfo } from '@backwire/rpc';
import { handledMethod, type ExtensionHost, type ExtensionInternals, type Followed } from '@backwire/rpc/internal';
import { runWith } from '@backwire/tensor/internal';
import type { Message } from '@backwire/wire';
import { MessageType, travellingBytes } from '@backwire/wire/internal';
import { ClockBook, type ClockEstimate } from './clock.ts';
import { MAX_PENDING_CALLS } from './limits.ts';
import { setClock, type WorkerClock } from './now.ts';
import { newRecorder } from './profile.ts';
import { currentScope, ProfileScope } from './profile-scope.ts';
import { unwrapRequest, unwrapResponse, wrapRequest, wrapResponse } from './profiling-wire.ts';
import type { Recorder, RemoteEvents } from './recorder.ts';
import { activeRecordings, anyServerProfiler, endServerProfilersOf } from './server-profiler.ts';

/** The name peers know it by. */
const PROFILING = 'profiling';

/**
 * Remote profiling: calls made inside `profile` appear in it, and with them what the called worker did for them, over any number of
 * hops. Without this extension on the other side only the call itself is recorded.
 */
export function profiling(): Extension {
  return { name: PROFILING, attach: (agent) => new ProfilingSession(agent as ExtensionHost) };
}

/** The same for an agent with a clock of its own; for simulations. */
export function profilingWithClock(clock: WorkerClock): Extension {
  return {
    name: PROFILING,
    attach: (agent) => {
      setClock(agent, clock);
      return new ProfilingSession(agent as ExtensionHost);
    },
  };
}

/**
 * The key of a call, as PyTorch writes it: 'rpc_async#aten::add(w0 -> w1)', and 'to_here#(w0)->(w1)' for the value of a reference.
 *
 * @param kind 'sync', 'async', 'remote' …
 */
export function profilingKey(kind: string, name: string, from: string, to: string): string {
  if (kind === 'other' && name === 'rref.to_here') return `to_here#(${from})->(${to})`;
  return `rpc_${kind}#${name}(${from} -> ${to})`;
}

interface PendingCall {
  readonly recorder: Recorder;
  readonly event: number;
}

class ProfilingSession implements ExtensionSession, ExtensionInternals {
  readonly wraps = [MessageType.RUN_WITH_PROFILING_REQ];
  /** Outside of a profile no call comes by. */
  readonly requestsWhile = 'profile' as const;
  /** How often calls and replies came by; for the proof that they do not when nothing is profiled. */
  hookCalls = 0;
  private readonly host: ExtensionHost;
  /** Calls that wait for their reply, by the local part of their id: replies come in any order. */
  private readonly pending = new Map<number, PendingCall>();
  private lastId = 0;
  /** Each reply to a profiled call says what time it is there. */
  private readonly clocks = new ClockBook<string>();

  constructor(host: ExtensionHost) {
    this.host = host;
  }

  request(call: Outgoing): Followed {
    this.hookCalls++;
    const scope = currentScope();
    if (scope === undefined || call.label === undefined) return call;
    const { host } = this;
    const { recorder } = scope;
    const key = profilingKey(call.label.kind, call.label.name, host.self.name, call.to.name);
    const event = recorder.begin('rpc', key, scope.innermost(), call.message.tensors);
    const bytes = recorder.options.profileMemory === true ? travellingBytes(call.message.tensors) : undefined;
    const local = ++this.lastId;
    // Nobody waits for a one-way call, and what it takes is the sending. Of a stream the items are the answer: neither has a reply that
    // could bring events.
    const { kind } = call.label;
    const oneway = kind === 'oneway';
    const asked =
      !oneway &&
      kind !== 'stream' &&
      host.extensionsOf(call.to).has(PROFILING) &&
      this.pending.size < MAX_PENDING_CALLS;
    if (asked) this.pending.set(local, { recorder, event });
    if (oneway) recorder.end(event, bytes);
    const id = { worker: host.self.id, incarnation: host.incarnation, local };
    return {
      ...call,
      message: asked ? wrapRequest(call.message, id, recorder.options) : call.message,
      settled: () => {
        this.pending.delete(local);
        recorder.end(event, bytes);
      },
    };
  }

  response(from: WorkerInfo, reply: Message): Message {
    this.hookCalls++;
    if (reply.type !== MessageType.RUN_WITH_PROFILING_RESP) return reply;
    const { inner, profile, remote } = unwrapResponse(reply, from.id);
    const call = profile?.worker === this.host.self.id ? this.pending.get(profile.local) : undefined;
    if (call !== undefined) call.recorder.mergeRemote(call.event, remote, this.compare(from, call, remote));
    return inner;
  }

  async serve(call: Incoming, next: (call: Incoming) => Promise<Message>): Promise<Message> {
    this.hookCalls++;
    const observers = activeRecordings(this.host);
    const asked = call.message.type === MessageType.RUN_WITH_PROFILING_REQ ? unwrapRequest(call.message) : undefined;
    if (asked === undefined && observers.length === 0) return next(call);
    const wishes = [...(asked === undefined ? [] : [asked.options]), ...observers.map(({ options }) => options)];
    const recorder = newRecorder(this.host, {
      recordShapes: wishes.some(({ recordShapes }) => recordShapes === true),
      profileMemory: wishes.some(({ profileMemory }) => profileMemory === true),
    });
    const inner = asked === undefined ? call : { ...call, message: asked.inner };
    try {
      const reply = await runWith({ profile: new ProfileScope(recorder, -1) }, () => next(inner));
      if (asked === undefined || reply.type === MessageType.EXCEPTION) return reply;
      const handledUs = recorder.elapsedUs();
      return wrapResponse(reply, asked.profile, recorder.finish(), {
        startedUs: recorder.epochUs(0),
        handledUs,
        dropped: recorder.dropped,
      });
    } finally {
      const tookUs = recorder.elapsedUs();
      const name = handledMethod() ?? messageName(inner.message.type);
      for (const observer of observers) observer.add(name, this.host.self.id, tookUs, recorder.finish());
    }
  }

  peerDown(peer: WorkerInfo): void {
    this.clocks.forget(peer.name);
    endServerProfilersOf(this.host, peer.name);
  }

  /** How far the callee's clock is from this one, by this reply and those before. */
  private compare(from: WorkerInfo, call: PendingCall, remote: RemoteEvents): ClockEstimate | undefined {
    const { startedUs, handledUs } = remote;
    if (startedUs === undefined) return undefined;
    const { recorder, event } = call;
    const receivedUs = recorder.epochUs(recorder.elapsedUs());
    const sentUs = recorder.epochUs(recorder.startOf(event));
    return this.clocks.add(from.name, { sentUs, otherUs: startedUs, otherEndUs: startedUs + handledUs, receivedUs });
  }

  /** Whether every request has to come by: a server profiler is on. */
  servesAll(): boolean {
    return anyServerProfiler(this.host);
  }

  debugInfo(): Record<string, number> {
    return { num_profiled_calls: this.pending.size, num_profiler_hooks: this.hookCalls };
  }

  close(): void {
    this.pending.clear();
  }
}

/** What a message that calls no definition is called. */
function messageName(type: number): string {
  return Object.entries(MessageType).find(([, value]) => value === type)?.[0] ?? `message ${type}`;
}
