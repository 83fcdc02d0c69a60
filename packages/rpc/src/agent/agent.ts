/** @file One worker of a group: the parts of an agent, and what programs and extensions see of them. */
import type { Named, Tensor } from '@backwire/tensor';
import { ASYNC_DISPOSE, ambient, runClean, type CurrentScope } from '@backwire/tensor/internal';
import type { Message, MessageType } from '@backwire/wire';
import {
  DEFAULT_WIRE_LIMITS,
  MessageType as Types,
  SlabPool,
  ValueCodec,
  type WireLimits,
} from '@backwire/wire/internal';
import type { AgentEvents, RpcAgent, ShutdownOptions } from '../base/rpc-agent.ts';
import type { CallingAgent } from './calling-agent.ts';
import { Absence } from '../membership/absence.ts';
import { CallSites } from '../client/call-sites.ts';
import { Caller } from '../client/caller.ts';
import { Collectives } from './collectives.ts';
import type { ValueContext } from '../base/environment.ts';
import { DecodeContext } from '../extensions/value-context.ts';
import { nameOf, type Definition } from '../base/definitions.ts';
import type { DeviceMaps } from '../base/device-maps.ts';
import { Dispatcher } from '../server/dispatcher.ts';
import type { Fate } from '../server/handler.ts';
import { EventHub } from './events.ts';
import { RpcError } from '../base/errors.ts';
import type {
  ExtensionHost,
  ExtensionInternals,
  ExtensionSession,
  MessageOptions,
  RpcMessage,
} from '../extensions/extension.ts';
import { ExtensionChain } from '../extensions/chain.ts';
import { FrameRouter, type RouterParts } from './frame-router.ts';
import type { FaultInjector } from '../session/fault-injection.ts';
import { type Group } from '../membership/group.ts';
import type { StoreState } from '../membership/group-store.ts';
import { InboundCall } from '../server/inbound-call.ts';
import { isInspector, serveInspector } from '../inspection/responder.ts';
import { metricsOf, type AgentMetrics } from '../inspection/metrics.ts';
import { Observers } from '../base/call-observers.ts';
import { encodeCallMessage, encodeFor, readCallPayload } from '../extensions/call-message.ts';
import { Peers } from '../membership/peers.ts';
import {
  checkFunction,
  refuseUnknown,
  type CallOptions,
  type Limits,
  type Liveness,
  type Logger,
} from '../base/options.ts';
import { Membership, type View, type ViewMember } from '../protocol/membership.ts';
import { Served } from '../base/served.ts';
import { Shutdown, type Ending } from './shutdown.ts';
import type { Settings } from './settings.ts';
import { unsent } from '../base/unsent.ts';
import { StallGuard } from '../server/stall-guard.ts';
import type { Connection, Listener, Transport } from '../transports/transport.ts';
import { WorkerInfo, type To } from '../base/worker-info.ts';
import { waitToDial } from '../connect/dial-gate.ts';
import { claimIn, claimOf, dialMember, misdirected, type Dialer } from '../connect/dial.ts';
import { createAcceptor } from '../connect/accept.ts';

const LISTEN_OPTIONS: ReadonlySet<string> = new Set(['signal']);
const NO_EXTENSIONS: ReadonlySet<string> = new Set();

/** States of an agent: *running* → *draining* (a graceful shutdown waits) → *closed*; or *fenced* (the group removed it) → *closed*. */
export class Agent implements ExtensionHost, Ending, CallingAgent {
  readonly name: string;
  readonly id: number;
  readonly group: string;
  readonly self: WorkerInfo;
  readonly incarnation: number;
  readonly incarnationIndex: number;
  readonly hostId: string;
  readonly limits: Readonly<Limits>;
  readonly wireLimits: WireLimits;
  readonly liveness: Readonly<Liveness>;
  readonly logger: Logger;
  readonly slabs = new SlabPool();
  readonly observers = new Observers(() => this.logger);
  readonly extensions: ExtensionChain;
  readonly deviceMaps: DeviceMaps;
  readonly faults: FaultInjector;
  readonly codec: ValueCodec<ValueContext>;
  readonly lasting: ValueCodec<ValueContext>;
  readonly dispatcher: Dispatcher;
  readonly stallGuard: StallGuard;
  readonly caller: Caller;
  readonly members: Peers;
  readonly membership: Membership;
  readonly collectives: Collectives;
  readonly settings: Settings;
  refusal: 'draining' | 'fenced' | undefined;
  whyFenced = '';
  /** The places through which others come in. */
  readonly listeners: readonly Listener[];
  private readonly transports: readonly Transport[];
  private readonly hub = new EventHub();
  private readonly absence: Absence;
  /** What calls may name. */
  readonly names: Served;
  private readonly store: Group;
  private readonly closing = new AbortController();
  private ending: Promise<void> | undefined;

  constructor(
    settings: Settings,
    self: ViewMember,
    group: Group,
    transports: readonly Transport[],
    listeners: readonly Listener[],
  ) {
    this.settings = settings;
    this.name = self.name;
    this.id = self.id;
    this.group = settings.group;
    this.self = new WorkerInfo(self.name, self.id);
    this.incarnation = self.incarnation;
    this.incarnationIndex = group.incarnationIndex;
    this.hostId = self.host;
    this.limits = settings.limits;
    this.liveness = settings.liveness;
    this.logger = settings.logger;
    this.absence = new Absence(settings.liveness.leaseMs);
    this.wireLimits = wireLimitsOf(settings.limits);
    this.deviceMaps = settings.deviceMaps;
    this.store = group;
    this.transports = transports;
    this.listeners = listeners;
    this.names = new Served({
      worker: self.name,
      serve: settings.serve,
      builtins: settings.builtins,
      maxResultBytes: settings.limits.maxResultBytes,
    });
    this.membership = new Membership({ name: self.name, incarnation: self.incarnation });
    this.faults = settings.faults;
    this.caller = new Caller(this, this.faults, settings.rpcTimeoutMs);
    this.caller.callSites = new CallSites(settings.callSites);
    this.stallGuard = new StallGuard({
      environment: this,
      refuse: (call, error) => this.dispatcher.refuse(call, error),
      peers: () => this.members.list(),
      refresh: () => group.refresh(),
      onLate: (ms, now) => this.absence.stoodStill(ms, now),
    });
    this.dispatcher = new Dispatcher(this, this.faults, this.stallGuard, settings.maxConcurrentCalls);
    this.collectives = new Collectives(this);
    // Extensions look at the agent while they attach: all that does not need them is there by now.
    this.extensions = new ExtensionChain(settings.extensions, this);
    this.codec = new ValueCodec<ValueContext>(this.extensions.values(), this.wireLimits);
    this.lasting = new ValueCodec<ValueContext>(this.extensions.lastingValues(), this.wireLimits);
    const { hub } = this;
    const router: RouterParts = {
      environment: this,
      caller: this.caller,
      dispatcher: this.dispatcher,
      reported: (peer, payload) => this.members.reported(peer, payload),
    };
    this.members = new Peers(
      {
        environment: this,
        calls: this.caller.calls,
        stallGuard: this.stallGuard,
        handlerOf: (peer) => new FrameRouter(router, peer),
        waitToDial,
        connect: (peer, signal) => dialMember(this.dialer, peer.member, this.transports, signal),
        group,
        membership: this.membership,
        emit: (event, value) => {
          hub.emit(event, value);
          if (event === 'peer-down' || event === 'peer-left') this.collectives.gone((value as WorkerInfo).name);
          else if (event === 'peer-joined') this.collectives.joined((value as WorkerInfo).name);
        },
        knock: settings.knock,
        isGone: settings.isGone,
        // Who has left is not put out.
        onFenced: (why) => group.hasLeft || this.fenced(why),
        onUnreachable: ({ name }) => this.collectives.gone(name, true),
      },
      self,
    );
  }

  get agent(): RpcAgent {
    return this;
  }

  get epoch(): number {
    return this.membership.view.epoch;
  }

  /** The store has answered, or has not. */
  storeIs(state: StoreState): void {
    this.absence.storeIs(state === 'up', this.now());
    this.members.storeIs(state);
  }

  /** The agent begins to work: it has joined, and this is the view. */
  begin(view: View): void {
    this.members.update(view);
    this.members.start();
  }

  // RpcAgent

  run<T>(fn: () => T): T {
    if (typeof fn !== 'function') checkFunction(fn, 'run()');
    // A hook may ask so for what belongs to its pass.
    return runClean({ agent: this, exchange: ambient().exchange }, fn);
  }

  on<E extends keyof AgentEvents>(
    event: E,
    listener: (value: AgentEvents[E]) => void,
    options: { signal?: AbortSignal } = {},
  ): () => void {
    refuseUnknown(options, LISTEN_OPTIONS, 'on()');
    return this.hub.on(event, listener, options.signal);
  }

  register(definition: Named): () => void {
    return this.names.register(definition);
  }

  debugInfo(): Record<string, number | string> {
    return {
      'agent.client_active_calls': this.caller.calls.size,
      'agent.server_active_calls': this.dispatcher.handlers.active,
      'agent.server_active_async_calls': this.dispatcher.handlers.active - this.dispatcher.handlers.running,
      'agent.max_concurrent_calls': this.settings.maxConcurrentCalls,
      'agent.peers': this.members.others().length,
      'agent.connected_peers': this.members.list().filter((peer) => peer.up).length,
      'agent.epoch': this.epoch,
      'agent.incarnation': this.incarnation,
      'agent.injected_faults': this.faults.injected,
      ...this.extensions.debugInfo(),
    };
  }

  metrics(): AgentMetrics {
    return metricsOf(this);
  }

  shutdown(options: ShutdownOptions = {}): Promise<void> {
    try {
      return (this.ending ??= new Shutdown(this, this.store, options).run());
    } catch (error) {
      // Asked for wrongly: nothing has begun.
      return Promise.reject(error);
    }
  }

  /** Leaves on its own: waits for its own calls and handlers for a while, and for nobody else. */
  async [ASYNC_DISPOSE](): Promise<void> {
    // Whoever called shutdown() was told how that went, and is not told again at the end of the block.
    if (this.ending !== undefined) return this.ending.catch(() => undefined);
    await (this.ending = new Shutdown(this, this.store, { timeoutMs: 5_000 }, true).run());
  }

  // ExtensionHost

  resolve(to: To): WorkerInfo {
    return this.members.find(to).worker;
  }

  peers(): readonly WorkerInfo[] {
    return this.members.others().map(({ worker }) => worker);
  }

  incarnationOf(worker: WorkerInfo): number {
    return this.members.find(worker).incarnation;
  }

  isAlive(worker: WorkerInfo): boolean {
    if (worker.name === this.name) return this.ending === undefined || this.refusal !== 'fenced';
    return this.membership.member(worker.name)?.id === worker.id;
  }

  isReachable(worker: WorkerInfo): boolean {
    return this.isAlive(worker) && this.members.find(worker).state === 'open';
  }

  call(to: WorkerInfo, message: RpcMessage, options: MessageOptions = {}): Promise<Message> {
    return new Promise((resolve, reject) => {
      const form = {
        mode: 'message' as const,
        label: options.label ?? { kind: 'other' as const, name: '' },
        defaultTimeoutMs: this.caller.defaultTimeoutMs,
      };
      this.caller.message(this.members.find(to), message, options, form, options.raw ?? false, { resolve, reject });
    });
  }

  control(to: WorkerInfo, type: MessageType, payload: Uint8Array): void {
    const peer = this.members.find(to);
    this.faults.control(peer, type, () => {
      if (peer.state !== 'gone') peer.sender.sendControl(type, payload, true);
    });
  }

  encodeCall(to: WorkerInfo, fn: Named, args: readonly unknown[], extra?: () => Uint8Array): RpcMessage {
    const name = nameOf(fn);
    const type = name.startsWith('aten::') ? Types.SCRIPT_CALL : Types.PYTHON_CALL;
    try {
      return encodeCallMessage(this, to, type, name, args, extra);
    } catch (error) {
      throw unsent(error, { what: 'the arguments', name, to, self: this.self, executed: 'no' });
    }
  }

  async runCall(from: WorkerInfo, message: Message): Promise<RpcMessage> {
    const value = await this.runMessage(from, message, 'answers');
    const name = (): string => readCallPayload(message.payload).name;
    return this.dispatcher.handlers.replyMessage(this.members.find(from), message.type, value, name);
  }

  runValue(from: WorkerInfo, message: Message): Promise<unknown> {
    return this.runMessage(from, message, 'stays');
  }

  private runMessage(from: WorkerInfo, message: Message, fate: Fate): Promise<unknown> {
    const call = ambient().call;
    const peer = call instanceof InboundCall ? call.peer : this.members.find(from);
    if (!(call instanceof InboundCall)) return this.dispatcher.runner.runMessage(peer, message, undefined, fate);
    return this.dispatcher.handlers.slotted(call, () => this.dispatcher.runner.runMessage(peer, message, call, fate));
  }

  encodeValue(value: unknown, to: WorkerInfo): ReturnType<ExtensionHost['encodeValue']> {
    return encodeFor(this, to, value);
  }

  decodeValue(
    bytes: Uint8Array,
    tensors: readonly Tensor[],
    from: WorkerInfo,
    pending: Promise<unknown>[] = [],
    scope?: CurrentScope,
  ): unknown {
    const context = new DecodeContext();
    context.scoped = scope !== undefined;
    const value = context.read(this.codec, from, bytes, 0, bytes.length, tensors);
    scope?.adopt(value, context.takeFound());
    pending.push(...context.take());
    return value;
  }

  session(extension: string): (ExtensionSession & ExtensionInternals) | undefined {
    return this.extensions.session(extension);
  }

  extensionsOf(peer: WorkerInfo): ReadonlySet<string> {
    try {
      return this.members.find(peer).extensions;
    } catch {
      return NO_EXTENSIONS;
    }
  }

  timeoutMs(options?: CallOptions): number {
    const own = this.caller.timeout(options);
    const call = ambient().call;
    const rest = call instanceof InboundCall ? call.remainingMs() : Infinity;
    if (rest === Infinity) return own;
    return own === 0 ? Math.max(1, rest) : Math.max(1, Math.min(own, rest));
  }

  now(): number {
    return performance.now();
  }

  // Environment

  served(name: string): Definition {
    return this.names.find(name);
  }

  checkResult(definition: Definition, args: readonly unknown[]): void {
    this.names.checkResult(definition, args);
  }

  get servedVersion(): number {
    return this.names.version;
  }

  private get dialer(): Dialer {
    const { name, incarnation, group } = this;
    const { keys, checksums, mode } = this.settings.security;
    return { name, incarnation, group, keys, checksums, provesMembers: mode !== 'mtls' };
  }

  /** Takes the connections that come in: strangers prove themselves, a bounded number at a time. */
  acceptor(): (connection: Connection) => void {
    return createAcceptor({
      group: this.group,
      keys: this.settings.security.keys,
      claim: claimOf(this),
      mistaken: (claim) =>
        isInspector(claim)
          ? undefined
          : misdirected(
              claim,
              this,
              this.listeners.map(({ endpoint }) => endpoint),
            ),
      signal: this.closing.signal,
      onPeer: (peer) => {
        try {
          if (isInspector(peer.claim)) serveInspector(this, peer.connection, this.closing.signal);
          else this.members.welcome(peer.connection, claimIn(peer));
        } catch (error) {
          this.logger.warn({ error, remote: peer.connection.remote }, 'a connection was refused');
        }
      },
      onRefused: ({ code, message }, { remote, protection }) => {
        // Whoever has a certificate is no stranger.
        const level = protection.carries !== undefined && code === 'unauthenticated' ? 'warn' : 'debug';
        this.logger[level]({ error: message, remote }, 'a connection was refused');
      },
    });
  }

  /** New calls are refused from now on, and the other members are told, so that they send none; what runs is finished. */
  beginDraining(): void {
    if (this.refusal !== undefined) return;
    this.refusal = 'draining';
    this.members.announceDrain();
  }

  /** The group has removed this worker, or will: everything it waits for fails, and it serves nobody any more. */
  fenced(why = 'the group has removed this worker'): void {
    if (this.refusal === 'fenced' || this.isClosed) return;
    this.refusal = 'fenced';
    const now = this.now();
    // What it hears first when it wakes may be this.
    this.stallGuard.turn(now);
    const text = this.absence.explain(why, now);
    this.whyFenced = text;
    this.stallGuard.fenced(text);
    this.caller.calls.failEverything((executed, peer) => new RpcError('fenced', text, { executed, peer: peer.worker }));
    this.extensions.fenced(text);
    this.hub.emit('fenced', undefined);
  }

  /** Others may think that this worker is dead; its group looks whether they do. */
  leaseLost(error: Error): void {
    if (this.isClosed || this.ending !== undefined) return;
    this.logger.warn({ error }, 'the lease in the store was lost');
  }

  isClosed = false;

  /** Ends everything at once; `shutdown` has waited for what it wanted to wait for. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.closing.abort();
    this.caller.calls.failEverything(
      (executed, peer) =>
        new RpcError('unavailable', `worker '${this.name}' has shut down`, { executed, peer: peer.worker }),
    );
    this.members.close();
    this.collectives.close();
    this.extensions.close();
    this.caller.calls.close();
    this.faults.close();
    this.dispatcher.idempotency.clear();
  }
}

function wireLimitsOf(limits: Readonly<Limits>): WireLimits {
  return {
    ...DEFAULT_WIRE_LIMITS,
    maxMessageBytes: limits.maxMessageBytes,
    maxFrameBytes: Math.max(limits.maxFrameBytes, 64 * 1024),
    maxValues: limits.maxValues,
    maxStringBytes: limits.maxStringBytes,
    maxDepth: limits.maxDepth,
  };
}
