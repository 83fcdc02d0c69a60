/** @file Failures on their way out of a torch group: what Python raised goes on as an error of Python's class. */
import { RemoteError, rpcInfo } from '@backwire/rpc';
import { bareText } from '@backwire/rpc/internal';

/**
 * What a call through a gateway fails with, so that the caller gets it as it would from a worker of its own group: of the class, text and
 * stack that it has in Python. Failures of the system keep their code.
 */
export function outgoing(error: unknown): unknown {
  const info = rpcInfo(error);
  if (!(info instanceof RemoteError)) return error;
  const { remoteName, remoteStack } = info;
  const text = error === info ? textOf(info) : (error as Error).message;
  // Errors travel by the name of their class, which may be known to the caller and not here.
  const Raised = { [remoteName]: class extends Error {} }[remoteName] as new (text: string) => Error;
  const raised = new Raised(text);
  const stack = remoteStack ?? `${remoteName}: ${text}`;
  return Object.defineProperty(raised, 'stack', { value: stack, writable: true, configurable: true });
}

/** The text alone: without the worker and the class that stand before it, and the code behind it. */
function textOf({ code, message, peer, remoteName }: RemoteError): string {
  const bare = bareText(code, message);
  const head = `On ${String(peer)}:\n${remoteName}: `;
  return bare.startsWith(head) ? bare.slice(head.length) : bare;
}
