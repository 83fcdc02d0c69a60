/** @file Runs the passes of one agent: messages to and from peers, time limits, and the promise of `backward`. */
import { type CallOptions, type Incoming, type WorkerInfo } from '@backwire/rpc';
import {
  cancelled,
  cancelledText,
  MAX_TIMER_MS,
  unwatchAbort,
  watchAbort,
  type ExtensionHost,
  type MessageOptions,
} from '@backwire/rpc/internal';
import type { Tensor } from '@backwire/tensor';
import { ambient, runClean } from '@backwire/tensor/internal';
import type { Message, MessageType as Type } from '@backwire/wire';
import {
  decodeAbort,
  decodeBackward,
  decodeDiscover,
  encodeAbort,
  encodeBackward,
  encodeDiscover,
  MAX_DISCOVERED,
  MessageType,
} from '@backwire/wire/internal';
import type { Grads } from './engine/functions.ts';
import { GraphTask } from './engine/graph-task.ts';
import { checkOptions, checkRoots } from './engine/roots.ts';
import { errorOf, failureOf } from './failure.ts';
import type { LiveContext } from './live-context.ts';
import { PartQueue } from './part-queue.ts';
import { answer, gradientsOf, outcomeOf, presenceOf, thereOf, together, type Request } from './pass-messages.ts';
import { incarnationOf, memberOf, tell } from './peers.ts';
import type { ContextTable } from './protocol/context.ts';
import type { PassId } from './protocol/ids.ts';
import { TimeLimits } from './time-limits.ts';
import { PassMachine } from './protocol/pass.ts';
import { noPart, PassError } from './protocol/pass-failures.ts';
import type { Failure, Fired, LocalGraph, PassOptions, PassPort, Reply } from './protocol/pass-types.ts';

/** How a backward pass may be run. */
export interface BackwardOptions extends CallOptions {
  /** Keep what the graph saved, on every worker, so that another pass can run over it. @default false */
  retainGraph?: boolean;
  /**
   * 'smart' finds out first which calls the roots depend on. 'fast' saves that round trip and takes it that all calls of the context
   * do: one that does not makes it wait until its time is up. @default 'smart'
   */
  mode?: 'smart' | 'fast';
}

/** An answer without gradients belongs to no context. */
const none = (): undefined => undefined;

export class PassRunner implements PassPort<Grads, LiveContext> {
  readonly machine: PassMachine<Grads, LiveContext>;
  private readonly host: ExtensionHost;
  private readonly contexts: ContextTable<LiveContext>;
  private readonly parts: PartQueue;
  private readonly limits = new TimeLimits();

  constructor(host: ExtensionHost, contexts: ContextTable<LiveContext>) {
    this.host = host;
    this.contexts = contexts;
    this.machine = new PassMachine(contexts.self, this);
    this.parts = new PartQueue(host, () => host.now());
  }

  /** Requests that peers send in a pass. */
  get messages(): [Type, (call: Incoming) => Promise<Message>][] {
    const { AUTOGRAD_DISCOVER_REQ, AUTOGRAD_DISCOVER_RESP, BACKWARD_AUTOGRAD_REQ } = MessageType;
    return [
      [
        AUTOGRAD_DISCOVER_REQ,
        (call) => answer(call, AUTOGRAD_DISCOVER_RESP, none, (reply) => this.onDiscover(call, reply)),
      ],
      [BACKWARD_AUTOGRAD_REQ, (call) => this.onBackward(call)],
    ];
  }

  /** Runs a pass from `roots`, which are on this worker; see `backward`. */
  backward(find: () => LiveContext, roots: readonly Tensor[], options: BackwardOptions): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const context = find();
      const timeoutMs = this.check(context, roots, options);
      const { signal } = options;
      const flags = { retainGraph: options.retainGraph ?? false, fast: options.mode === 'fast' };
      let stop: (() => void) | undefined;
      let ended = false;
      const pass = this.start(context, roots, flags, (failure) => {
        ended = true;
        stop?.();
        if (failure === undefined) resolve();
        else reject(errorOf(failure));
      });
      if (pass !== undefined && !ended) stop = this.bound(context, pass, timeoutMs, signal);
    });
  }

  onAbort(from: WorkerInfo, payload: Uint8Array): void {
    const { context: ref, pass, failure } = decodeAbort(payload);
    const context = this.contexts.lookup(ref);
    if (context === undefined) return;
    if (!this.machine.onAbort(context, memberOf(this.host, from), pass, failure))
      this.host.logger.debug(
        { from: from.name, context: ref },
        'a worker without a say tells that a backward pass failed',
      );
  }

  // What a pass does to the world.

  open(context: LiveContext, pass: PassId, options: PassOptions, roots: unknown): LocalGraph<Grads> {
    context.forgetParting();
    const isReleased = (id: bigint): boolean => this.contexts.find(id) === undefined;
    context.gradients.confirm(pass, options.failed);
    context.replicas.confirm(pass, options.failed);
    return new GraphTask(context, pass, (roots ?? []) as readonly Tensor[], options.retainGraph, isReleased, this.host);
  }

  discover(
    to: number,
    token: number,
    context: LiveContext,
    pass: PassId,
    messages: readonly number[],
    options: PassOptions,
  ): void {
    const parts: Request[] = [];
    for (let i = 0; i < messages.length; i += MAX_DISCOVERED) {
      const payload = encodeDiscover({
        context: context.ref,
        pass,
        options,
        messages: messages.slice(i, i + MAX_DISCOVERED),
      });
      parts.push({ type: MessageType.AUTOGRAD_DISCOVER_REQ, payload, tensors: [] });
    }
    this.ask(context, to, token, parts);
  }

  backwardTo(
    { to, message, grads }: Fired<Grads>,
    token: number,
    context: LiveContext,
    pass: PassId,
    options: PassOptions,
  ): void {
    const payload = encodeBackward({ context: context.ref, pass, options, message, present: presenceOf(grads) });
    this.ask(context, to, token, [{ type: MessageType.BACKWARD_AUTOGRAD_REQ, payload, tensors: thereOf(grads) }]);
  }

  drop(grads: Grads): void {
    for (const grad of thereOf(grads)) grad.release();
  }

  abort(to: number, context: LiveContext, pass: PassId, failure: Failure): void {
    tell(this.host, to, MessageType.AUTOGRAD_ABORT, encodeAbort({ context: context.ref, pass, failure }));
  }

  finish(token: number, context: LiveContext, graph: LocalGraph<Grads>): boolean {
    if (context.replicas.empty) return false;
    const { profile } = ambient();
    // The group's own calls belong to no context, and nothing of the caller's bounds them.
    const combined = runClean({ agent: this.host, gradMode: false, profile }, () =>
      context.replicas.combine(graph as GraphTask),
    );
    if (combined === undefined) return false;
    context.waitsFor.set(token, 'the groups of its replicated models');
    combined
      .finally(() => context.waitsFor.delete(token))
      .then(
        () => this.machine.onAck(token),
        (error: unknown) => this.machine.onNack(token, failureOf(error)),
      );
    return true;
  }

  rollback(context: LiveContext, pass: PassId, failure: Failure): boolean {
    context.replicas.undo(pass, errorOf(failure));
    return context.gradients.rollback(pass);
  }

  missed(context: LiveContext, failure: Failure): void {
    context.replicas.fail(errorOf(failure));
  }

  settled(context: LiveContext, _pass: PassId, failure?: Failure): void {
    const { waiting } = context;
    context.waiting = undefined;
    if (waiting !== undefined) context.hadPass = true;
    waiting?.(failure);
  }

  // Below the port.

  /** The time that a pass has. @throws what is wrong with it; the context's replicas are given up, as in any pass that fails. */
  private check(context: LiveContext, roots: readonly Tensor[], options: BackwardOptions): number {
    try {
      checkOptions(options);
      checkRoots(roots);
      const { signal } = options;
      if (signal?.aborted === true) throw cancelled('backward', signal.reason);
      return this.host.timeoutMs(options);
    } catch (error) {
      // Those of a pass that is in progress get what they wait for.
      if (context.pass === undefined) {
        context.replicas.fail(error);
        this.machine.refuse(context, failureOf(error));
      }
      throw error;
    }
  }

  private start(
    context: LiveContext,
    roots: readonly Tensor[],
    flags: Pick<PassOptions, 'retainGraph' | 'fast'>,
    done: (failure: Failure | undefined) => void,
  ): PassId | undefined {
    try {
      return this.machine.start(context, roots, flags, () => {
        context.waiting = done;
      });
    } catch (error) {
      if (!(error instanceof PassError)) throw error;
      done(error.failure);
      return undefined;
    }
  }

  private onDiscover({ from, message }: Incoming, reply: Reply): void {
    const { context: ref, pass, options, messages } = decodeDiscover(message.payload);
    const context = this.contexts.lookup(ref);
    if (context !== undefined && !this.knows(context, from)) return reply(noPart(from, context));
    this.machine.onDiscover(context, pass, messages, options, { worker: from.id, reply });
  }

  /** Gradients, and questions of them, come back from where tensors went. */
  private knows(context: LiveContext, from: WorkerInfo): boolean {
    return context.known.get(from.id) === incarnationOf(this.host, from);
  }

  private onBackward(call: Incoming): Promise<Message> {
    const { from, message } = call;
    const sent = decodeBackward(message.payload, message.tensors.length);
    const { context: ref, pass, options } = sent;
    const grads = gradientsOf(sent.present, message.tensors[Symbol.iterator]());
    const contextNow = (): LiveContext | undefined => this.contexts.lookup(ref);
    return answer(call, MessageType.BACKWARD_AUTOGRAD_RESP, contextNow, (reply) => {
      this.parts.run(() => {
        const context = contextNow();
        if (context === undefined || this.knows(context, from))
          return this.machine.onBackward(context, pass, sent.message, grads, options, { worker: from.id, reply });
        this.drop(grads);
        reply(noPart(from, context));
      });
    });
  }

  /** Sends the messages of one token and reports their outcome, never at once. Frees their tensors. */
  private ask(context: LiveContext, to: number, token: number, requests: readonly Request[]): void {
    context.waitsFor.set(token, `worker '${this.nameOf(to)}'`);
    // Nothing of the caller's applies but its profile: its deadline and signal bound the pass, not a message of it.
    const { profile } = ambient();
    const options: MessageOptions = {
      raw: profile === undefined,
      timeoutMs: 0,
      label: { kind: 'other', name: 'backward' },
    };
    const send = ({ type, payload, tensors }: Request): Promise<Message> =>
      this.host.call(this.host.resolve(to), { type, id: 0n, payload, tensors }, options);
    // Not even a worker that cannot be found is told of at once.
    const all = runClean({ agent: this.host, profile }, async () =>
      requests.length === 1
        ? outcomeOf(await send(requests[0] as Request))
        : together((await Promise.all(requests.map(send))).map(outcomeOf)),
    );
    const free = (): void => {
      context.waitsFor.delete(token);
      for (const { tensors } of requests) for (const tensor of tensors) tensor.release();
    };
    void all.then(
      ({ failure, back }) => {
        free();
        if (back !== undefined) this.parts.run(() => this.machine.onAck(token, back));
        else if (failure === undefined) this.machine.onAck(token);
        else this.machine.onNack(token, failure);
      },
      (error: unknown) => {
        free();
        this.machine.onNack(token, failureOf(error));
      },
    );
  }

  private nameOf(worker: number): string {
    try {
      return this.host.resolve(worker).name;
    } catch {
      return String(worker);
    }
  }

  /** Aborts the pass when its time is up or its signal fires; returns how to stop that. */
  private bound(context: LiveContext, pass: PassId, timeoutMs: number, signal: AbortSignal | undefined): () => void {
    const late = (): Failure => {
      const known = [...new Set(context.waitsFor.values())].join(', ');
      const waits = known === '' ? '' : `: the backward pass waits for ${known}`;
      const text = `RPC ran for more than set timeout (${timeoutMs} ms) and will now be marked with an error${waits}`;
      return { code: 'deadline-exceeded', name: 'RpcError', text };
    };
    // A longer wait than a timer can have is no limit.
    const limited = timeoutMs > 0 && timeoutMs <= MAX_TIMER_MS;
    const lift = limited ? this.limits.add(timeoutMs, () => this.machine.abort(context, late(), pass)) : undefined;
    const onAbort = (): void => {
      const cause: unknown = signal?.reason;
      const text = cancelledText('backward', cause);
      this.machine.abort(context, { code: 'cancelled', name: 'RpcError', text, cause }, pass);
    };
    if (signal !== undefined) watchAbort(signal, onAbort);
    return () => {
      lift?.();
      if (signal !== undefined) unwatchAbort(signal, onAbort);
    };
  }
}
