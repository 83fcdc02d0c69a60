/** @file A context as this package runs it: its functions in the graph, its gradients, and the calls made in it. */
import type { Tensor } from '@backwire/tensor';
import { type RecvRpcBackward, type SendRpcBackward } from './engine/functions.ts';
import { GradientStore } from './engine/gradients.ts';
import { Replicas } from './engine/replicas.ts';
import { Context } from './protocol/context.ts';
import type { ContextRef } from './protocol/ids.ts';
import { Invocation, type Path } from './protocol/order-key.ts';
import type { Failure } from './protocol/pass-types.ts';

/** A call made in a context that has not settled. */
export interface CallInFlight {
  cancel: ((reason: unknown) => void) | undefined;
}

/** Told of the end of a pass that began here. */
export type PassEnd = (failure: Failure | undefined) => void;

export class LiveContext extends Context<SendRpcBackward, RecvRpcBackward> {
  readonly gradients = new GradientStore();
  /** Who waits for the pass in progress; at its origin. */
  waiting: PassEnd | undefined;
  /** What the pass in progress here waits for, in words, by its tokens. */
  readonly waitsFor = new Map<number, string>();
  /** Gradients that went with answers: freed when those have certainly been written. */
  private parting: Tensor[] = [];
  /** Replicated modules that ran in this context here. */
  readonly replicas = new Replicas();
  private readonly calls = new Set<CallInFlight>();
  /** Most contexts see one call on a worker other than their creator's: it needs no table. */
  private entered: object | undefined;
  private first: Invocation | undefined;
  private invocations: WeakMap<object, Invocation> | undefined;
  private readonly outermost = new Invocation([]);
  private idle: (() => void)[] = [];
  private cancelled: { reason: unknown } | undefined;
  /** Passes that this worker has asked the owner of an RRef for, and that are not over. */
  passesAsked = 0;
  /** Whether a pass that this worker began, or asked for, has ended. */
  hadPass = false;
  /** Whether the program was told that it steps without one. */
  toldOfNoPass = false;

  /** When this worker heard of it first, on the agent's clock. */
  readonly since: number;

  constructor(ref: ContextRef, since = 0) {
    super(ref);
    this.since = since;
  }

  /** Notes that `call`, being handled here, has this path. */
  enter(call: object | undefined, path: Path): void {
    if (call === undefined) return;
    const invocation = new Invocation(path);
    if (this.entered === undefined || this.entered === call) {
      this.entered = call;
      this.first = invocation;
    } else (this.invocations ??= new WeakMap()).set(call, invocation);
  }

  /** Where calls made now stand: in the handler of `call`, or in the creator's own code. */
  invocation(call: object | undefined): Invocation {
    if (call === undefined) return this.outermost;
    return (call === this.entered ? this.first : this.invocations?.get(call)) ?? this.outermost;
  }

  /** Follows a call until `settle`. */
  follow(): { started: (cancel: (reason: unknown) => void) => void; settle: () => void } {
    const call: CallInFlight = { cancel: undefined };
    this.calls.add(call);
    return {
      started: (cancel) => {
        call.cancel = cancel;
        if (this.cancelled !== undefined && this.calls.has(call)) cancel(this.cancelled.reason);
      },
      settle: () => {
        this.calls.delete(call);
        if (this.calls.size > 0) return;
        const idle = this.idle;
        this.idle = [];
        for (const done of idle) done();
      },
    };
  }

  /** Whether a pass is under way, as far as this worker knows. */
  get inPass(): boolean {
    return this.pass !== undefined || this.waiting !== undefined || this.passesAsked > 0;
  }

  get callsInFlight(): number {
    return this.calls.size;
  }

  /** Resolves when no call made in this context on this worker is in flight. */
  whenIdle(): Promise<void> {
    if (this.calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.idle.push(resolve));
  }

  /** Fails the calls in flight, and those still to come. */
  cancelCalls(reason: unknown): void {
    this.cancelled = { reason };
    for (const call of [...this.calls]) call.cancel?.(reason);
  }

  /** Keeps tensors of an answer until the next pass or the end of the context. */
  part(tensors: readonly Tensor[]): void {
    this.parting.push(...tensors);
  }

  /** Frees what went with answers. */
  forgetParting(): void {
    for (const tensor of this.parting) tensor.release();
    this.parting = [];
  }

  /** Frees gradients and the graph; after the context was taken out of the table. */
  dispose(): void {
    this.gradients.dispose();
    this.forgetParting();
    this.replicas.clear();
    this.sends.clear();
    this.recvs.clear();
  }
}
