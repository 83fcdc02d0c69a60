/** @file The two functions of a remote call in the graph: gradients leave through one and come back through the other. */
import type { Tensor } from '@backwire/tensor';
import { FunctionNode, gradEdge, type Edge } from '@backwire/tensor/internal';
import { InvariantError } from '@backwire/rpc/internal';
import type { Target } from '../protocol/pass-types.ts';
import type { OrderKey } from '../protocol/order-key.ts';

/** Gradients of one message's tensors, none where undefined. */
export type Grads = readonly (Tensor | null)[];

/**
 * Stands for the tensors that were sent: its next edges lead to where they came from. It has no gradients of its own to compute; the
 * engine gives it those that arrive from the peer.
 */
export class SendRpcBackward extends FunctionNode {
  /** The id this worker gave to the message. */
  readonly messageId: number;
  /** Orders this function among others of the context. */
  readonly key: OrderKey;

  /** @param tensors those of the message that require grad, in order. */
  constructor(messageId: number, key: OrderKey, tensors: readonly Tensor[]) {
    super('SendRpcBackward', tensors.map(edgeOf), tensors.length);
    this.messageId = messageId;
    this.key = key;
    this.outputs = tensors.map(({ shape, dtype }) => ({ shape, dtype }));
  }

  protected override backward(grads: Grads): Grads {
    return grads;
  }
}

/** Made the tensors that were received: gradients for them go to the peer that sent them. */
export class RecvRpcBackward extends FunctionNode {
  /** The worker that sent the message. */
  readonly from: number;
  /** The id that worker gave to it. */
  readonly messageId: number;
  /** The context's public id. */
  readonly contextId: bigint;

  /** The send functions that gradients come to beyond that of the message; undefined where its sender did not say. */
  readonly reach: readonly Target[] | undefined;

  constructor(contextId: bigint, from: number, messageId: number, outputs: number, reach?: readonly Target[]) {
    super('RecvRpcBackward', [], outputs);
    this.reach = reach;
    this.contextId = contextId;
    this.from = from;
    this.messageId = messageId;
  }

  /** Runs in no engine but this package's, which sends instead. */
  protected override backward(): Grads {
    throw new InvariantError(
      'RecvRpcBackward runs only in a distributed backward pass: call backward(contextId, roots)',
    );
  }
}

function edgeOf(tensor: Tensor): Edge | null {
  return gradEdge(tensor);
}
