/** @file The backward pass of a value that is here. */
import { RpcError, type CallOptions } from '@backwire/rpc';
import type { ExtensionHost } from '@backwire/rpc/internal';
import { Tensor } from '@backwire/tensor';
import { lacksExtension } from '../names.ts';
import { StandIn } from './stand-in.ts';

/** What the autograd extension offers here. */
interface DistAutograd {
  backward(
    contextId: bigint,
    roots: readonly Tensor[],
    options: CallOptions & { retainGraph?: boolean },
  ): Promise<void>;
}

/**
 * Runs the pass: the distributed one in a context, else the local one.
 * @throws RpcError 'failed-precondition' in PyTorch's words when the value is no tensor, or is not in this group.
 */
export async function backwardHere(
  host: ExtensionHost,
  value: unknown,
  contextId: bigint | undefined,
  options: CallOptions & { retainGraph: boolean },
): Promise<void> {
  if (value instanceof StandIn)
    throw new RpcError(
      'failed-precondition',
      'what the RRef refers to is outside of this group: no backward pass goes there',
    );
  if (!(value instanceof Tensor))
    throw new RpcError('failed-precondition', 'RRef should contain a tensor for .backward()');
  if (contextId === undefined) {
    value.backward(undefined, { retainGraph: options.retainGraph });
    return;
  }
  const autograd = host.session('dist-autograd') as Partial<DistAutograd> | undefined;
  if (autograd?.backward === undefined) throw lacksExtension(host.self, 'dist-autograd');
  await autograd.backward(contextId, [value as Tensor], options);
}
