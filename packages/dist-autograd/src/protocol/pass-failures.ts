/** @file How a pass fails, in the words of those who see it. */
import type { PassId } from './ids.ts';
import type { Failure } from './pass-types.ts';

/** Carries a failure out of the code of a pass. */
export class PassError extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.text);
    this.failure = failure;
  }
}

export function thrown(error: unknown): Failure {
  const isError = error instanceof Error;
  return {
    code: '',
    name: classOf(error),
    text: isError ? error.message : String(error),
    cause: error,
  };
}

/** The class of what was thrown. `error.name` is inherited unless a class sets it; the class's own name says more. */
export function classOf(error: unknown): string {
  if (!(error instanceof Error)) return 'Error';
  const ctor: unknown = error.constructor;
  return typeof ctor === 'function' && ctor.name !== '' ? ctor.name : error.name;
}

export function precondition(text: string): Failure {
  return { code: 'failed-precondition', name: 'RpcError', text };
}

export function protocolFailure(text: string): Failure {
  return { code: 'protocol-error', name: 'RpcError', text };
}

export function unknownSend(message: number): Failure {
  return precondition(`Could not find send function for autograd message id: ${message}`);
}

/** What PyTorch says of a context that is gone. */
const NO_LONGER_VALID =
  'Autograd context no longer valid! This usually means the autograd context was cleaned up by a different thread due to an error before RecvRpcBackward had a chance to run';

export function noContext(): Failure {
  return precondition(NO_LONGER_VALID);
}

/** A backward pass came to a tensor that was received in another context, which may have ended. */
export function strayTensor(theirs: bigint, ours: bigint, ended: boolean): Failure {
  const received = `a tensor received in autograd context ${theirs}`;
  const refused = `cannot take part in a backward pass of context ${ours}`;
  const instead = 'make the call that gave it inside this context(), or detach() it to take it as a constant';
  return precondition(
    ended
      ? `${NO_LONGER_VALID}: ${received}, which has ended, ${refused}; ${instead}`
      : `${received} ${refused}; ${instead}`,
  );
}

/** A member has a say in the passes of contexts in which tensors went between it and this worker. */
export function noPart(worker: { readonly name: string }, context: { readonly id: bigint }): Failure {
  return precondition(`worker '${worker.name}' has no part in the passes of autograd context ${context.id} here`);
}

export function stale(): Failure {
  return precondition('this backward pass has ended already');
}

export function inProgress(context: { readonly id: bigint }): PassError {
  return new PassError(precondition(`a backward pass is in progress in autograd context ${context.id}`));
}

export function overtaken(context: { readonly id: bigint }): Failure {
  return precondition(`another backward pass is in progress in autograd context ${context.id}`);
}

export function originDied(pass: PassId): Failure {
  return { code: 'peer-died', name: 'RpcError', text: `worker ${pass.worker}, which started this backward pass, died` };
}

/** Told to who may not have heard that a pass failed, by one that does not remember why. */
export function failedBefore(): Failure {
  return precondition('this backward pass failed on another worker');
}
