/** @file Remote profiling, as torch's legacy profiler has it: what others profile here, and calls that are made meanwhile. */
import type { WorkerInfo } from '@backwire/rpc';
import { ambient, runWith } from '@backwire/tensor/internal';
import { MessageType } from '@backwire/wire/internal';
import { failed, type CallName } from '../calls/caller.ts';
import type { Server, Serving } from '../calls/server.ts';
import { readingFrom, type Values } from '../calls/values.ts';
import type { ArrivedBody } from '../links/bodies.ts';
import { readResponse, writeCommand } from '../messages/codec.ts';
import type { Body, ProfilingRequest } from '../messages/commands.ts';
import type { TensorLike } from '../values/opaque-tensor.ts';
import { Recorder } from './recorder.ts';

export interface ProfilingHost {
  readonly self: WorkerInfo;
  readonly server: Server;
  readonly values: Values;
}

/** torch's number of a profiler that records times of the cpu. */
const CPU_STATE = 1;

interface Profiled {
  readonly recorder: Recorder;
  readonly key: string;
}

/** One per agent. */
export class TorchProfiling {
  private readonly host: ProfilingHost;
  /** Calls that wait for their answer, by the number of their profile. */
  private readonly waiting = new Map<number, Profiled>();
  private last = 0;

  constructor(host: ProfilingHost) {
    this.host = host;
    host.server.handle('run-with-profiling-req', (request, serving) => this.serve(request, serving));
  }

  /** What is sent in place of a request that is made while another worker's profile is served. */
  request(to: WorkerInfo, body: Body, call: CallName | undefined): { body: Body; settled: () => void } | undefined {
    const { profile } = ambient();
    if (call === undefined || !(profile instanceof Recorder)) return undefined;
    const { self } = this.host;
    const key = `rpc_${call.kind}#${call.name}(${self.name} -> ${to.name})`;
    const local = this.last++;
    const event = profile.begin(key, []);
    this.waiting.set(local, { recorder: profile, key });
    const { shapes, memory } = profile.options;
    const id = { worker: self.id, local };
    return {
      body: writeCommand({
        kind: 'run-with-profiling-req',
        inner: body,
        profile: id,
        state: CPU_STATE,
        shapes,
        memory,
      }),
      settled: () => {
        this.waiting.delete(local);
        profile.end(event);
      },
    };
  }

  /** What is read in place of a response. */
  response(from: WorkerInfo, body: ArrivedBody): ArrivedBody {
    if (body.type !== MessageType.RUN_WITH_PROFILING_RESP) return body;
    const response = readResponse(body, this.host.values.script(readingFrom(from)));
    if (response.kind !== 'run-with-profiling-resp') throw failed(response, from);
    const { worker, local } = response.profile;
    const profiled = worker === this.host.self.id ? this.waiting.get(local) : undefined;
    profiled?.recorder.take(profiled.key, response.events);
    return { ...response.inner, tensors: response.inner.tensors as readonly TensorLike[] };
  }

  private serve({ inner, profile, shapes, memory }: ProfilingRequest, { from }: Serving): Body | Promise<Body> {
    const { self, server } = this.host;
    const recorder = new Recorder({ node: self.id, shapes, memory });
    const body: ArrivedBody = { ...inner, tensors: inner.tensors as readonly TensorLike[] };
    const reply = runWith({ profile: recorder }, () => server.inner(body, from));
    const wrapped = (made: Body): Body => {
      if (made.type === MessageType.EXCEPTION) return made;
      return writeCommand({ kind: 'run-with-profiling-resp', inner: made, profile, events: recorder.finish() });
    };
    return reply instanceof Promise ? reply.then(wrapped) : wrapped(reply);
  }
}
