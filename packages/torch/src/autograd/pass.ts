/** @file A backward pass on one worker of a torch group, as torch's FAST mode has it: all send functions of a context take part. */
import {
  GraphTask,
  type Fired,
  type Grads,
  type LiveContext,
  type RecvRpcBackward,
} from '@backwire/dist-autograd/internal';
import { RpcError } from '@backwire/rpc';
import type { Tensor } from '@backwire/tensor';
import { noGrad, zeros } from '@backwire/tensor';

export interface PassHost {
  readonly agent: object;
  readonly self: number;
  isReleased(contextId: bigint): boolean;
  /** Sends gradients, which it frees; `done` is called once, with what it failed with. */
  send(
    to: number,
    contextId: bigint,
    message: number,
    grads: readonly Tensor[],
    retain: boolean,
    done: (error?: unknown) => void,
  ): void;
  /** The pass is over, in whatever way. */
  ended(context: LiveContext, pass: Pass): void;
}

/** What hears of the end of a pass. */
export interface Waiter {
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * States: *running* until every send function has had its gradients and every message of this worker is answered, then *done*, with the
 * gradients in the context; or *failed*, with nothing added.
 */
export class Pass {
  private readonly host: PassHost;
  private readonly context: LiveContext;
  private readonly task: GraphTask;
  private readonly retain: boolean;
  private readonly waiter: Waiter;
  /** Send functions whose gradients have not come. */
  private readonly left: Set<number>;
  private readonly reached: ReadonlySet<string>;
  private unanswered = 0;
  private over = false;

  /** @throws what cannot be walked. */
  constructor(
    host: PassHost,
    context: LiveContext,
    n: number,
    roots: readonly Tensor[],
    retain: boolean,
    waiter: Waiter,
  ) {
    this.host = host;
    this.context = context;
    this.retain = retain;
    this.waiter = waiter;
    const pass = { worker: host.self, incarnation: 0, n };
    // torch takes nothing back once it is there: earlier passes count.
    context.gradients.confirm(pass, []);
    this.task = new GraphTask(context, pass, roots, retain, (id) => host.isReleased(id), host.agent);
    this.left = new Set(context.sends.keys());
    const reached = [...(roots.length > 0 ? this.task.walk('roots') : []), ...this.task.walk([...this.left])];
    this.reached = new Set(reached.map(({ to, message }) => keyOf(to, message)));
    this.task.seal();
  }

  /** Begins at its roots, or at what never had a way to them. */
  start(roots: boolean): void {
    if (roots) this.run('roots');
    this.sendZeros();
    this.settle();
  }

  /** Gradients for a send function came. @throws for one that has had them, or is none. */
  take(message: number, grads: Grads): void {
    if (this.over) throw new RpcError('failed-precondition', 'the backward pass is over');
    if (!this.left.delete(message))
      throw new RpcError('failed-precondition', `gradients for autograd message ${message} came twice, or for none`);
    this.run({ message, grads });
    this.settle();
  }

  /** Fails the pass here; others are not told: torch has no words for it. */
  fail(error: unknown): void {
    if (this.over) return;
    this.over = true;
    this.task.discard();
    this.host.ended(this.context, this);
    this.waiter.reject(error);
  }

  private run(start: { readonly message: number; readonly grads: Grads } | 'roots'): void {
    let fired: readonly Fired<Grads>[];
    try {
      fired = this.task.run(start);
    } catch (error) {
      this.fail(error);
      throw error;
    }
    for (const { to, message, grads } of fired) this.send(to, message, this.whole(to, message, grads));
  }

  /**
   * A worker that gets gradients of this pass waits for those of every message that it sent, also of those that nothing came of: these
   * get zeros.
   */
  private sendZeros(): void {
    const engaged = new Set([...this.reached].map((key) => Number(key.split(' ')[0])));
    for (const [from, messages] of this.context.recvs) {
      if (!engaged.has(from)) continue;
      for (const [message, recv] of messages)
        if (!this.reached.has(keyOf(from, message)))
          this.send(
            from,
            message,
            recv.outputs.map((_, i) => zerosFor(recv, i)),
          );
    }
  }

  private send(to: number, message: number, grads: readonly Tensor[]): void {
    this.unanswered++;
    this.host.send(to, this.context.id, message, grads, this.retain, (error) => {
      this.unanswered--;
      if (error !== undefined) this.fail(error);
      else this.settle();
    });
  }

  /** torch wants a gradient for every tensor. */
  private whole(to: number, message: number, grads: Grads): Tensor[] {
    const recv = this.context.recvs.get(to)?.get(message);
    return grads.map((grad, i) => grad ?? zerosFor(recv, i));
  }

  private settle(): void {
    if (this.over || this.left.size > 0 || this.unanswered > 0) return;
    this.over = true;
    try {
      this.task.commit();
    } catch (error) {
      this.host.ended(this.context, this);
      this.waiter.reject(error);
      return;
    }
    this.host.ended(this.context, this);
    this.waiter.resolve();
  }
}

function zerosFor(recv: RecvRpcBackward | undefined, i: number): Tensor {
  const output = recv?.outputs[i];
  if (output === undefined) throw new Error('invariant: a receive function without outputs');
  return noGrad(() => zeros(output.shape, { dtype: output.dtype }));
}

function keyOf(worker: number, message: number): string {
  return `${worker} ${message}`;
}
