/** @file The extension that lets a profile see into the workers it calls. */
import type { Extension, ExtensionSession, Incoming, Outgoing, WorkerInfo } from '@backwire/rpc';
import type { ExtensionHost, ExtensionInternals } from '@backwire/rpc/internal';
import { runWith } from '@backwire/tensor/internal';
import type { Message } from '@backwire/wire';
import { MessageType } from '@backwire/wire/internal';
import { MAX_PENDING_CALLS } from './limits.ts';
import { newRecorder } from './profile.ts';
import { currentScope, ProfileScope } from './profile-scope.ts';
import { unwrapRequest, unwrapResponse, wrapRequest, wrapResponse } from './profiling-wire.ts';
import { type Recorder } from './recorder.ts';

/** The name peers know it by. */
export const PROFILING = 'profiling';

/**
 * Remote profiling: calls made inside `profile` appear in it, and with them what the called worker did for them, over any number of
 * hops. Without this extension on the other side only the call itself is recorded.
 */
export function profiling(): Extension {
  return { name: PROFILING, attach: (agent) => new ProfilingSession(agent as ExtensionHost) };
}

/**
 * The key of a call, as PyTorch writes it: 'rpc_async#aten::add(w0 -> w1)'.
 *
 * @param kind 'sync', 'async', 'remote' …
 */
export function profilingKey(kind: string, name: string, from: string, to: string): string {
  return `rpc_${kind}#${name}(${from} -> ${to})`;
}

interface PendingCall {
  readonly recorder: Recorder;
  readonly event: number;
}

class ProfilingSession implements ExtensionSession, ExtensionInternals {
  readonly wraps = [MessageType.RUN_WITH_PROFILING_REQ];
  private readonly host: ExtensionHost;
  /** Calls that wait for their reply, by the local part of their id: replies come in any order. */
  private readonly pending = new Map<number, PendingCall>();
  private lastId = 0;

  constructor(host: ExtensionHost) {
    this.host = host;
  }

  request(call: Outgoing): Outgoing {
    const scope = currentScope();
    if (scope === undefined || call.label === undefined) return call;
    const { host } = this;
    const { recorder } = scope;
    const key = profilingKey(call.label.kind, call.label.name, host.self.name, call.to.name);
    const event = recorder.begin('rpc', key, scope.innermost(), call.message.tensors);
    const bytes = recorder.options.profileMemory === true ? tensorBytes(call.message) : undefined;
    const { settled } = call;
    const local = ++this.lastId;
    const asked = host.extensionsOf(call.to).has(PROFILING) && this.pending.size < MAX_PENDING_CALLS;
    if (asked) this.pending.set(local, { recorder, event });
    const id = { worker: host.self.id, incarnation: host.incarnation, local };
    return {
      ...call,
      message: asked ? wrapRequest(call.message, id, recorder.options) : call.message,
      settled: (outcome) => {
        this.pending.delete(local);
        recorder.end(event, bytes);
        settled?.(outcome);
      },
    };
  }

  response(from: WorkerInfo, reply: Message): Message {
    if (reply.type !== MessageType.RUN_WITH_PROFILING_RESP) return reply;
    const { inner, profile, remote } = unwrapResponse(reply, from.id);
    const call = profile?.worker === this.host.self.id ? this.pending.get(profile.local) : undefined;
    call?.recorder.mergeRemote(call.event, remote);
    return inner;
  }

  async serve(call: Incoming, next: (call: Incoming) => Promise<Message>): Promise<Message> {
    if (call.message.type !== MessageType.RUN_WITH_PROFILING_REQ) return next(call);
    const { inner, profile, options } = unwrapRequest(call.message);
    const recorder = newRecorder(this.host.self.id, options);
    const reply = await runWith({ profile: new ProfileScope(recorder, -1) }, () => next({ ...call, message: inner }));
    if (reply.type === MessageType.EXCEPTION) return reply;
    const handledUs = recorder.elapsedUs();
    return wrapResponse(reply, profile, recorder.finish(), handledUs, recorder.dropped);
  }

  debugInfo(): Record<string, number> {
    return { num_profiled_calls: this.pending.size };
  }

  close(): void {
    this.pending.clear();
  }
}

function tensorBytes(message: Message): number {
  return message.tensors.reduce((sum, { storage }) => sum + storage.nbytes, 0);
}
