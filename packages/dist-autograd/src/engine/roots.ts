/** @file What may be a root of a distributed backward pass, in PyTorch's words, and which options it has. */
import { CALL_OPTIONS, checkSignal, checkSwitch, invalidArgument, refuseUnknown } from '@backwire/rpc/internal';
import { DisposedError, Tensor } from '@backwire/tensor';
import { kindOf } from '@backwire/tensor/internal';

/**
 * @throws TypeError when `roots` is not a list of tensors; DisposedError when one was disposed.
 * @throws RpcError 'invalid-argument' when it is empty, or a root does not require grad, is not a scalar, or is a leaf.
 */
export function checkRoots(roots: unknown): asserts roots is readonly Tensor[] {
  if (!Array.isArray(roots))
    throw new TypeError(
      `backward(): incompatible function arguments: roots must be a list of tensors, as in backward(id, [loss]); got ${kindOf(roots)}`,
    );
  const list = roots as readonly unknown[];
  if (list.length === 0) throw invalidArgument('No tensors provided for gradient computation.');
  for (const [i, root] of list.entries()) {
    if (!(root instanceof Tensor))
      throw new TypeError(
        `backward(): incompatible function arguments: root ${i} is not a tensor, got ${kindOf(root)}`,
      );
    if (root.disposed) throw new DisposedError(`root ${i} was disposed`);
    if (!root.requiresGrad) throw invalidArgument(`requires_grad not set on root ${i}`);
    if (root.size !== 1) throw invalidArgument(`root ${i} is not a scalar, all roots need to be scalar`);
    if (root.gradFn === null) throw invalidArgument(`root ${i} does not have a valid gradient function.`);
  }
}

const BACKWARD_OPTIONS: ReadonlySet<string> = new Set([...CALL_OPTIONS, 'retainGraph', 'mode']);

/**
 * Programs without types may have misspelt them.
 * @throws RpcError 'invalid-argument' for an option or a mode that there is not; TypeError when they are no object, or one of another kind.
 */
export function checkOptions(options: {
  readonly mode?: unknown;
  readonly retainGraph?: unknown;
  readonly signal?: unknown;
}): void {
  refuseUnknown(options, BACKWARD_OPTIONS, 'backward()');
  const { mode, retainGraph, signal } = options;
  checkSwitch(retainGraph, 'retainGraph');
  checkSignal(signal);
  if (mode === undefined || mode === 'smart' || mode === 'fast') return;
  throw invalidArgument(
    `the mode of a backward pass is 'smart' or 'fast', got ${typeof mode === 'string' ? mode : typeof mode}`,
  );
}
