/** @file A worker of a torch group: the parts of its agent, and what programs see of them. */
import {
  RpcError,
  WorkerInfo,
  type AgentEvents,
  type AnyFn,
  type CallOptions,
  type Logger,
  type ShutdownOptions,
  type To,
} from '@backwire/rpc';
import {
  EventHub,
  Served,
  checkShutdown,
  checkTimeoutMs,
  forgetDefault,
  show,
  type CallingAgent,
  type Definition,
} from '@backwire/rpc/internal';
import type { Named } from '@backwire/tensor';
import { ASYNC_DISPOSE, runAtRoot, runClean } from '@backwire/tensor/internal';
import { bufferPool } from '@backwire/wire/internal';
import { provideRRefs } from '@backwire/rref/internal';
import { provideAutograd } from '@backwire/dist-autograd/internal';
import { remoteOptimizers, serveOptimizers, type OptimizerHost } from './autograd/optimizers.ts';
import { TorchAutograd } from './autograd/session.ts';
import { Caller, type Wraps } from './calls/caller.ts';
import { Gatherings } from './calls/gather.ts';
import { Names } from './calls/names.ts';
import { Server } from './calls/server.ts';
import { PY_PREFIX } from './calls/targets.ts';
import { Values, type References } from './calls/values.ts';
import type { Door } from './links/door.ts';
import type { PeerOptions, TorchPeer } from './links/peer.ts';
import type { TorchLimits } from './limits.ts';
import { Losses } from './losses.ts';
import { Members } from './members.ts';
import { remoteModuleHandles, remoteModules } from './modules/remote.ts';
import { serveModules } from './modules/serve.ts';
import { serveProfiles } from './profiling/server-profiles.ts';
import { TorchProfiling } from './profiling/session.ts';
import { RRefs, type SessionHost } from './rrefs/session.ts';
import { serveRRefs, valueIn } from './rrefs/requests.ts';
import type { TorchAgent } from './torch-agent.ts';
import { PyTuple } from './values/containers.ts';

/** How the agent leaves its group. */
export interface Leaving {
  /** Waits for the others, where the group does that. @throws RpcError 'deadline-exceeded' naming who is missing. */
  leave(agent: Agent, options: { readonly graceful: boolean; readonly timeoutMs: number }): Promise<void>;
  /** Puts other workers out of the group. */
  evict?(agent: Agent, names: readonly string[], timeoutMs: number): Promise<void>;
  /** `together`: all have come to the end of their programs. */
  close(together: boolean): Promise<void>;
}

export interface AgentOptions {
  readonly self: WorkerInfo;
  readonly limits: TorchLimits;
  readonly logger: Logger;
  readonly rpcTimeoutMs: number;
  readonly serve: readonly Named[] | undefined;
  readonly builtins: boolean;
  readonly transport: PeerOptions['transport'];
  readonly channels: readonly string[];
  /** Whether workers come and go. */
  readonly dynamic: boolean;
  /** How many collectives there were before, by the names of those who took part. */
  readonly collectives: Map<string, number>;
}

const DIAL_MS = 10_000;
/** What torch asks every member about its devices. */
const DEVICES = 'torch.distributed.rpc.backend_registry._get_device_infos';
/** Memory of messages that none has needed for so long goes back to the system. */
const POOL_SWEEP_MS = 30_000;
/** The id of a caller that is no member yet, which none ever gets: no RRef is its. */
const NOBODY = 0x7fff;
/** What leaving on its own may take. */
const DISPOSE_MS = 5_000;

/** A worker of a torch group. Lifetime: made by `joinTorch`, *running*, *leaving* from `shutdown` on, *closed*. */
export class Agent implements TorchAgent, CallingAgent {
  readonly name: string;
  readonly id: number;
  readonly group = 'torch';
  readonly self: WorkerInfo;
  readonly logger: Logger;
  readonly members: Members;
  readonly caller: Caller;
  readonly server: Server;
  readonly collectives: Gatherings;
  /** Members that went without leaving. */
  readonly losses: Losses;
  readonly names: Served;
  /** What Python may name here. */
  readonly offered: Names;
  readonly values: Values;
  readonly rrefs: RRefs;
  readonly autograd: TorchAutograd;
  readonly profiling: TorchProfiling;
  readonly dynamic: boolean;
  isClosed = false;
  private readonly hub = new EventHub();
  /** Members of which `peer-down` was told, and that have not answered since. */
  private readonly dead = new WeakSet<TorchPeer>();
  private door: Door | undefined;
  private sweepTimer: NodeJS.Timeout | undefined;
  private leaving: Leaving | undefined;
  private ending: Promise<void> | undefined;

  constructor(options: AgentOptions) {
    const { self, limits, logger } = options;
    this.self = self;
    this.name = self.name;
    this.id = self.id;
    this.logger = logger;
    this.dynamic = options.dynamic;
    this.names = new Served({
      worker: self.name,
      serve: options.serve,
      builtins: options.builtins,
      maxResultBytes: limits.maxResultBytes,
    });
    this.offered = new Names(this.names);
    const references: References = {
      receive: (fork, reading) => this.rrefs.receive(fork, reading),
      share: (value, writing) => this.rrefs.share(value, writing),
    };
    const handles = remoteModuleHandles(() => modules);
    this.values = new Values(this.offered, references, handles, limits);
    const wraps: Wraps = {
      request: (to, body, call) => {
        const inner = this.autograd.request(to, body);
        const outer = this.profiling.request(to, inner.body, call);
        if (outer === undefined) return inner;
        const settled = (error?: unknown): void => {
          outer.settled();
          inner.settled?.(error);
        };
        return { body: outer.body, settled };
      },
      response: (from, body) => this.autograd.response(from, this.profiling.response(from, body)),
    };
    this.caller = new Caller(this.values, wraps, options.rpcTimeoutMs);
    this.server = new Server({
      agent: this,
      self,
      names: this.offered,
      values: this.values,
      find: (name) => this.callerNamed(name),
      failed: (error, what) => logger.warn({ error }, what),
    });
    this.members = new Members(self, {
      name: self.name,
      transport: options.transport,
      limits,
      channels: options.channels,
      dialTimeoutMs: DIAL_MS,
      onDown: (peer, error) => this.down(peer, error),
      onAnswer: (peer) => void this.dead.delete(peer),
    });
    this.losses = new Losses({
      ask: (worker) => this.callPython(worker, DEVICES, []),
      gone: (worker) => this.lost(worker),
    });
    this.collectives = new Gatherings(
      {
        name: self.name,
        names: () => this.members.names(),
        isMember: (name) => this.members.has(name),
        counts: options.collectives,
        doubt: (name) => {
          const peer = this.members.find(name);
          if (peer.isDown) this.losses.check(peer.worker);
        },
        seek: (name) => {
          if (!this.members.has(name)) return;
          const peer = this.members.find(name);
          if (!peer.isLinked) this.losses.check(peer.worker);
        },
        callPython: (to, path, args, limited) => this.callPython(to, path, args, limited),
      },
      this.offered,
    );
    const { caller, server, values, offered: names } = this;
    const find: Members['find'] = (to) => this.members.find(to);
    const call: OptimizerHost['call'] = (to, path, args, limits) => this.callAsProgram(to, path, args, limits);
    const backward: SessionHost['backward'] = (id, roots, limits) => this.autograd.backward(id, roots, limits);
    const lost = (error: unknown, what: string): void => logger.debug({ error }, what);
    const own = (value: unknown, type: string): unknown => this.rrefs.ownTyped(value, type);
    this.rrefs = new RRefs({ self, caller, values, find, call, backward, lost });
    this.autograd = new TorchAutograd({ agent: this, self, caller, server, values, find, lost, logger });
    this.profiling = new TorchProfiling({ self, server, values });
    serveProfiles({ self, server, offer: (path, body, methods) => this.offer(path, body, methods) });
    const optimizers: OptimizerHost = {
      names,
      valueIn,
      own,
      gradients: (id) => this.autograd.contexts.find(id as bigint)?.gradients.snapshot(),
      call,
    };
    serveOptimizers(optimizers);
    this.autograd.optimizers = remoteOptimizers(optimizers);
    const modules = remoteModules({ remote: (to, fn, args, limits) => this.rrefs.remote(to, fn, args, limits), call });
    this.autograd.modules = modules;
    serveModules({ names, valueIn, own, over: (rref, device) => handles.over(rref, device) });
    provideAutograd(this, this.autograd);
    serveRRefs({
      self,
      worker: this.rrefs.worker,
      names,
      values,
      server,
      valueOf: (entry) => this.rrefs.valueOf(entry),
      takeRefusal: () => this.rrefs.takeRefusal(),
      accepted: (fork, from) => this.rrefs.accepted(fork, from),
      backward,
      typed: (owned, type) => this.rrefs.typed(owned, type),
    });
    provideRRefs(this, this.rrefs);
    // There are none to map.
    this.offered.answer(DEVICES, () => PyTuple.of<unknown>(0, new Map(), []));
  }

  /** The agent has joined: this is its door, and how it leaves. */
  begin(door: Door, leaving: Leaving): void {
    this.door = door;
    this.server.open();
    this.leaving = leaving;
    this.sweepTimer = runAtRoot(() => setInterval(() => bufferPool.sweep(), POOL_SWEEP_MS));
    this.sweepTimer.unref();
  }

  // RpcAgent

  run<T>(fn: () => T): T {
    return runClean({ agent: this }, fn);
  }

  on<E extends keyof AgentEvents>(
    event: E,
    listener: (value: AgentEvents[E]) => void,
    options: { signal?: AbortSignal } = {},
  ): () => void {
    return this.hub.on(event, listener, options.signal);
  }

  /** Tells the listeners of an event. */
  emit<E extends keyof AgentEvents>(event: E, value: AgentEvents[E]): void {
    this.hub.emit(event, value);
  }

  register(definition: Named): () => void {
    return this.names.register(definition);
  }

  offer(
    path: string,
    body: AnyFn | (abstract new (...args: never[]) => object),
    methods: readonly string[] = [],
  ): () => void {
    if (!/^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(path))
      throw new RpcError('invalid-argument', `Python's names are module.name, as in 'app.scale'; got ${show(path)}`);
    if (typeof body !== 'function')
      throw new RpcError(
        'invalid-argument',
        `what is offered as '${path}' is a function or a class, got ${show(body)}`,
      );
    const isClass = Object.getOwnPropertyDescriptor(body, 'prototype')?.writable === false;
    const definition: Definition = {
      name: path,
      kind: isClass ? 'class' : 'function',
      body: body as AnyFn,
      self: undefined,
      methods: new Set(methods),
      scope: false,
      origin: 'program',
      runs: undefined,
    };
    return this.offered.offer(path, definition);
  }

  debugInfo(): Record<string, number | string> {
    return {
      'agent.client_active_calls': this.caller.active,
      'agent.server_active_calls': this.server.active,
      'agent.peers': this.members.others().length,
      ...this.rrefs.debugInfo(),
      ...this.autograd.debugInfo(),
    };
  }

  metrics(): Record<string, unknown> {
    return { ...this.debugInfo(), 'agent.handled': this.server.handled };
  }

  async shutdown(options: ShutdownOptions = {}): Promise<void> {
    // What is refused does not end the agent.
    const checked = checkShutdown(options);
    await (this.ending ??= this.end(checked));
  }

  /** Leaves on its own: waits for nobody else, and for its own calls for a while. */
  async [ASYNC_DISPOSE](): Promise<void> {
    // Whoever called shutdown() was told how that went, and is not told again at the end of the block.
    if (this.ending !== undefined) return this.ending.catch(() => undefined);
    await (this.ending = this.end({ graceful: false, timeoutMs: DISPOSE_MS, onLeak: 'warn' }));
  }

  /** Joining failed: what the agent had opened is closed. */
  abandon(): Promise<void> {
    this.isClosed = true;
    this.rrefs.close();
    this.autograd.close();
    return (this.ending = this.members.close());
  }

  /** Waits, at most so long, until what others hold here is let go of. */
  settle(timeoutMs: number): Promise<void> {
    return this.rrefs.drain(timeoutMs);
  }

  /** A worker is no member any more: calls to it fail, and nobody waits for it. */
  forget(name: string): void {
    if (!this.members.has(name) || name === this.name) return;
    const { worker } = this.members.find(name);
    this.members.remove(name);
    this.collectives.gone(name);
    this.rrefs.forget(worker.id);
    this.hub.emit('peer-left', worker);
  }

  async evict(names: string | readonly string[], options: { timeoutMs?: number } = {}): Promise<void> {
    if (this.leaving?.evict === undefined)
      throw new RpcError('failed-precondition', 'only workers of a dynamic group can be put out of it');
    await this.leaving.evict(
      this,
      typeof names === 'string' ? [names] : names,
      options.timeoutMs === undefined ? this.caller.defaultTimeoutMs : checkTimeoutMs(options.timeoutMs),
    );
  }

  /** Who joins a dynamic group makes itself known by a call. */
  private callerNamed(name: string): WorkerInfo {
    if (this.dynamic && !this.members.has(name)) return new WorkerInfo(name, NOBODY);
    return this.members.find(name).worker;
  }

  // Calls of torch's own functions.

  /** Calls a Python function by its path, outside of any context of the program. */
  callPython(to: To, path: string, args: readonly unknown[], options: CallOptions = {}): Promise<unknown> {
    return runClean({ agent: this }, () => this.callAsProgram(to, path, args, { timeoutMs: 0, ...options }));
  }

  /** The same, in whatever context the program is. */
  private callAsProgram(to: To, path: string, args: readonly unknown[], options: CallOptions): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const form = { mode: 'value' as const, label: { kind: 'other' as const, name: path } };
      this.caller.call(this.members.find(to), PY_PREFIX + path, args, options, form, { resolve, reject });
    });
  }

  private down(peer: TorchPeer, error: Error | undefined): void {
    const { worker } = peer;
    if (this.losses.isAsked(worker)) return;
    // Others that have left have closed their connections, too: who leaves asks.
    if (this.ending !== undefined) return this.losses.check(worker);
    this.collectives.gone(worker.name);
    this.tellDown(peer, error);
  }

  /** A member was asked whether it is there, and nobody was. */
  private lost(worker: WorkerInfo): void {
    this.collectives.gone(worker.name);
    if (this.ending === undefined && this.members.has(worker.name)) this.tellDown(this.members.find(worker.name));
  }

  /** Each call to a dead member finds it dead: it is told once, until the member answers again. */
  private tellDown(peer: TorchPeer, error?: Error): void {
    if (this.dead.has(peer)) return;
    this.dead.add(peer);
    const { worker } = peer;
    this.logger.warn({ peer: worker.name, error }, 'the connection to a worker ended');
    this.hub.emit('peer-down', worker);
  }

  private async end({ graceful, timeoutMs, onLeak }: Required<ShutdownOptions>): Promise<void> {
    // Whatever leaving comes to, nothing stays open.
    const failure = await this.leaving?.leave(this, { graceful, timeoutMs }).then(
      () => undefined,
      (error: unknown) => ({ error }),
    );
    const leaks = this.rrefs.leaks();
    this.isClosed = true;
    this.rrefs.close();
    this.autograd.close();
    clearInterval(this.sweepTimer);
    forgetDefault(this);
    await this.members.close();
    await this.door?.close();
    await this.leaving?.close(graceful && failure === undefined);
    if (failure !== undefined) throw failure.error;
    if (leaks.length === 0) return;
    const text = `RRefs that others still hold: ${leaks.slice(0, 10).join('; ')}`;
    if (onLeak === 'throw') throw new RpcError('failed-precondition', text);
    this.logger.warn({ leaks: leaks.length }, text);
  }
}
