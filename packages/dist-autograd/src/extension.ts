/** @file Distributed autograd at work in one agent: wraps calls, keeps contexts, hands messages to the passes. */
import {
  RpcError,
  type ExtensionSession,
  type Incoming,
  type Logger,
  type Outgoing,
  type WorkerInfo,
} from '@backwire/rpc';
import { show, type ExtensionHost, type ExtensionInternals, type Followed, type Member } from '@backwire/rpc/internal';
import type { Tensor } from '@backwire/tensor';
import { ambient, runWith } from '@backwire/tensor/internal';
import type { Message, MessageType as Type } from '@backwire/wire';
import { decodeContextMessage, encodeContextMessage, MessageType } from '@backwire/wire/internal';
import type { Gradients } from './engine/gradients.ts';
import { unlessRefused } from './failure.ts';
import { MAX_INSPECTED } from './limits.ts';
import { LiveContext } from './live-context.ts';
import { PassRunner, type BackwardOptions } from './pass-runner.ts';
import { memberOf, tell } from './peers.ts';
import { ContextTable } from './protocol/context.ts';
import { sameMember, type ContextRef, type MemberRef, type PassId } from './protocol/ids.ts';
import { precondition } from './protocol/pass-failures.ts';
import type { Failure } from './protocol/pass-types.ts';
import {
  forcesRecording,
  getMessageWithAutograd,
  gone,
  requiringGrad,
  unwrapRequest,
  unwrapResponse,
  wrapResponse,
  type Wrapping,
} from './wrap.ts';

const ENDED =
  'it has ended: context() ends it when what its function returned is settled, so await in there whatever uses it';

/** The name peers compare in the handshake. */
export const EXTENSION_NAME = 'dist-autograd';

/** What profiles call a pass as a whole, on the worker that began it. PyTorch's name for it. */
const BACKWARD_EVENT = 'torch::distributed::autograd::backward';

export class AutogradSession implements ExtensionSession, ExtensionInternals, Wrapping {
  readonly host: ExtensionHost;
  readonly contexts: ContextTable<LiveContext>;
  readonly runner: PassRunner;
  plans = true;
  readonly wraps: readonly Type[] = [MessageType.FORWARD_AUTOGRAD_REQ];
  /** Outside of contexts there is nothing to do for a call. */
  readonly requestsWhile = 'contextId' as const;
  readonly messages: ReadonlyMap<Type, (call: Incoming) => Promise<Message>>;
  readonly controls: ReadonlyMap<Type, (from: WorkerInfo, payload: Uint8Array) => void>;

  constructor(host: ExtensionHost, maxContexts?: number) {
    this.host = host;
    const self: MemberRef = { worker: host.self.id, incarnation: host.incarnation };
    this.contexts = new ContextTable(
      self,
      host.incarnationIndex,
      (ref) => new LiveContext(ref, host.now()),
      maxContexts,
    );
    this.runner = new PassRunner(host, this.contexts);
    this.messages = new Map(this.runner.messages);
    this.controls = new Map([
      [
        MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ,
        (from: WorkerInfo, payload: Uint8Array) => this.onCleanup(from, payload),
      ],
      [MessageType.AUTOGRAD_ABORT, (from: WorkerInfo, payload: Uint8Array) => this.runner.onAbort(from, payload)],
      [MessageType.AUTOGRAD_ADOPT_REQ, (from: WorkerInfo, payload: Uint8Array) => this.onAdopt(from, payload)],
    ]);
  }

  get logger(): Logger {
    return this.host.logger;
  }

  /** A new context of this worker. @throws RpcError 'resource-exhausted' */
  create(): LiveContext {
    return unlessRefused(() => this.contexts.create());
  }

  /** @throws RpcError 'not-found' "Could not find autograd context with id: N" */
  find(id: bigint): LiveContext {
    if (typeof id !== 'bigint') {
      const got = `it is what context() gives its function, as in context(async (id) => { … }); got ${show(id)}`;
      throw new TypeError(`incompatible function arguments: a context id is a bigint: ${got}`);
    }
    const found = this.contexts.find(id);
    if (found === undefined) {
      const ended = this.contexts.hasEnded(id) ? `; ${ENDED}` : '';
      throw new RpcError('not-found', `Could not find autograd context with id: ${id}${ended}`);
    }
    return found;
  }

  gradients(id: bigint): Gradients {
    return this.find(id).gradients.snapshot();
  }

  /** Runs a pass from `roots`, which are on this worker. Also what `RRef.backward` calls on the owner. */
  backward(id: bigint, roots: readonly Tensor[], options: BackwardOptions = {}): Promise<void> {
    const run = (): Promise<void> => this.runner.backward(() => this.find(id), roots, options);
    return ambient().profile?.during?.(BACKWARD_EVENT, run) ?? run();
  }

  /** Fails the pass in progress in a context, here and everywhere. */
  abort(context: LiveContext): void {
    this.runner.machine.abort(context, released(context));
  }

  heardFailed(context: LiveContext, by: MemberRef, passes: readonly PassId[]): void {
    this.runner.machine.heardFailed(context, by, passes);
  }

  /** Ends a context of this worker everywhere. */
  release(context: LiveContext): void {
    this.abort(context);
    this.contexts.release(context.ref);
    this.spreadCleanup(context, undefined);
    context.dispose();
  }

  // The way of calls.

  request(call: Outgoing): Outgoing {
    const id = ambient().contextId;
    if (id !== undefined && call.message.type === MessageType.RREF_BACKWARD_REQ) return this.followPass(id, call);
    if (id === undefined || forcesRecording(call.message.type) === undefined) return call;
    const context = this.contexts.find(id);
    if (context === undefined) throw gone(id);
    // Nobody waits for a one-way call, so the context may well be left before it runs: only tensors to be recorded put it inside.
    if (call.label?.kind === 'oneway' && !(ambient().gradMode && requiringGrad(call.message.tensors).length > 0)) {
      return call;
    }
    const gradless = call.label?.kind === 'stream';
    if (gradless && ambient().gradMode && call.message.tensors.some(({ requiresGrad }) => requiresGrad))
      throw streamRefused();
    const wrapped = getMessageWithAutograd(this, context, call.to, call.message);
    if (wrapped === undefined) return call;
    const { started, settle } = context.follow();
    const followed: Followed = {
      to: call.to,
      message: wrapped.message,
      options: call.options,
      label: call.label as NonNullable<Outgoing['label']>,
      gradless,
      started,
      settled: ({ error }) => {
        // A call that never ran has no receive function to send gradients back.
        const never = error instanceof RpcError && error.executed === 'no';
        if (wrapped.sendId !== undefined && never) context.sends.delete(wrapped.sendId);
        settle();
      },
    };
    return followed;
  }

  /** A pass that an owner is asked for: until it is over, the gradients of the context are not all there. */
  private followPass(id: bigint, call: Outgoing): Outgoing {
    const context = this.contexts.find(id);
    if (context === undefined || call.label === undefined) return call;
    context.passesAsked++;
    const settled = (): void => {
      context.passesAsked--;
      context.hadPass = true;
    };
    const followed: Followed = { ...call, label: call.label, settled };
    return followed;
  }

  serve(call: Incoming, next: (call: Incoming) => Promise<Message>): Promise<Message> {
    const { from, message } = call;
    const { context, inner, path } = unwrapRequest(this, from, message);
    context.enter(ambient().call, path);
    const served = runWith({ contextId: context.id }, () => next({ from, message: inner }));
    return served.then((reply) => wrapResponse(this, context, from, reply, path));
  }

  response(from: WorkerInfo, reply: Message): Message {
    return unwrapResponse(this, from, reply);
  }

  // The group.

  viewChanged(_epoch: number, members: readonly Member[], dead: readonly Member[], left: readonly Member[]): void {
    for (const { worker, incarnation } of dead) this.lost(worker, incarnation, 'died');
    for (const { worker, incarnation } of left) this.lost(worker, incarnation, 'left');
    if (dead.length + left.length === 0) return;
    const refOf = ({ worker, incarnation }: Member): MemberRef => ({ worker: worker.id, incarnation });
    for (const context of this.contexts.bringersDied([...dead, ...left].map(refOf), members.map(refOf))) {
      this.abort(context);
      context.dispose();
    }
  }

  /** Contexts of others are over here: nobody can say so any more. */
  fenced(why: string): void {
    const { self } = this.host;
    const own: Failure = { code: 'fenced', name: 'RpcError', text: why };
    // Who can still hear it is not removed.
    const text = `its group has removed worker '${self.name}'`;
    const theirs: Failure = { code: 'peer-died', name: 'RpcError', text, peer: self };
    for (const context of [...this.contexts]) {
      const isOurs = sameMember(context.ref, this.contexts.self);
      this.runner.machine.abort(context, isOurs ? own : theirs);
      if (!isOurs) this.end(context);
    }
  }

  debugInfo(): Record<'num_current_backward_passes' | 'num_autograd_contexts', number> {
    return { num_current_backward_passes: this.runner.machine.active, num_autograd_contexts: this.contexts.size };
  }

  inspect(): Record<string, unknown> {
    const now = this.host.now();
    const contexts = [...this.contexts].slice(0, MAX_INSPECTED).map((context) => ({
      id: String(context.id),
      ageMs: now - context.since,
      knownWorkers: [...context.known.keys()].map((worker) => this.nameOf(worker)),
      sendFunctions: context.sends.size,
      recvFunctions: context.recvCount,
      gradients: context.gradients.size,
    }));
    return { contexts, total: this.contexts.size, passes: this.runner.machine.active };
  }

  leaks(): string[] {
    return [...this.contexts]
      .filter(({ ref }) => sameMember(ref, this.contexts.self))
      .map(({ id, callsInFlight }) => `autograd context ${id} was not left (${callsInFlight} calls in flight)`);
  }

  close(): void {
    for (const context of [...this.contexts]) {
      this.abort(context);
      this.end(context);
    }
  }

  /** Frees a context here, and tells nobody. */
  private end(context: LiveContext): void {
    this.contexts.release(context.ref);
    context.dispose();
  }

  private lost(worker: WorkerInfo, incarnation: number, how: 'died' | 'left'): void {
    const member: MemberRef = { worker: worker.id, incarnation };
    const text = `worker '${worker.name}' ${how}`;
    const failure: Failure = { code: 'peer-died', name: 'RpcError', text, peer: worker };
    const { machine } = this.runner;
    machine.died(member);
    for (const context of this.contexts.creatorDied(member)) {
      machine.abort(context, failure);
      context.dispose();
    }
    for (const context of [...this.contexts]) {
      const known = context.known.get(member.worker) === member.incarnation;
      const pass = context.pass?.id;
      if (known || (pass !== undefined && sameMember(pass, member))) machine.abort(context, failure);
      if (known) context.known.delete(member.worker);
      // Who brought a context here hands its end on, also where no gradients go between the two.
      if (known || this.contexts.broughtBy(context, member)) this.askAdoption(context);
    }
  }

  /** Who brought this worker into the context may have died with that knowledge: the creator has to know of it too. */
  private askAdoption(context: LiveContext): void {
    const { ref } = context;
    if (sameMember(ref, this.contexts.self)) return;
    const payload = encodeContextMessage({ context: ref, oldest: 0 });
    tell(this.host, ref.worker, MessageType.AUTOGRAD_ADOPT_REQ, payload);
    this.runner.machine.meet(context, ref);
  }

  private onAdopt(from: WorkerInfo, payload: Uint8Array): void {
    const { context: ref } = decodeContextMessage(payload);
    const context = this.contexts.lookup(ref);
    if (context === undefined) this.tellEnd(from.id, ref);
    else this.runner.machine.meet(context, memberOf(this.host, from));
  }

  private onCleanup(from: WorkerInfo, payload: Uint8Array): void {
    const { context: ref, oldest } = decodeContextMessage(payload);
    // Only the creator ends a context; who brought this worker into it hands that on.
    if (sameMember(ref, this.contexts.self)) return;
    const by = memberOf(this.host, from);
    const context = this.contexts.release(ref, oldest, by);
    if (context === undefined) return;
    this.abort(context);
    this.spreadCleanup(context, from.id);
    context.dispose();
  }

  private spreadCleanup({ ref, known }: LiveContext, from: number | undefined): void {
    for (const worker of known.keys()) if (worker !== from && worker !== ref.worker) this.tellEnd(worker, ref);
  }

  private tellEnd(worker: number, ref: ContextRef): void {
    const payload = encodeContextMessage({ context: ref, oldest: this.contexts.oldestOf(ref) });
    tell(this.host, worker, MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ, payload);
  }

  private nameOf(id: number): string {
    try {
      return this.host.resolve(id).name;
    } catch {
      return `worker${id}`;
    }
  }
}

function streamRefused(): RpcError {
  const text = 'streams carry no gradients: give rpcStream() arguments that need none (detach() them), or make calls';
  return new RpcError('failed-precondition', text, { executed: 'no' });
}

function released(context: LiveContext): Failure {
  return precondition(
    `autograd context ${context.id} was released during the backward pass: await backward() before the function of context() ends`,
  );
}
