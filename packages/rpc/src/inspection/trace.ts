/** @file The trace context that travels with a call, in the header table of its frame. What is in it is the tracer's affair. */
import { ambient } from '@backwire/tensor/internal';
import type { RpcMessage } from '../extensions/extension.ts';
import { InboundCall } from '../server/inbound-call.ts';
import { TRACE_ENTRY } from '../session/header-entries.ts';

/** The message with a trace context for whoever handles it. */
export function withTrace({ type, id, payload, tensors, header }: RpcMessage, context: Uint8Array): RpcMessage {
  return { type, id, payload, tensors, header: [...(header ?? []), { extension: TRACE_ENTRY, data: context }] };
}

/** The name of what is called by the call being handled here, once it is known. */
export function handledMethod(): string | undefined {
  const { call } = ambient();
  return call instanceof InboundCall ? call.definition?.name : undefined;
}

/** What says the name of what is called by the call being handled here, later and elsewhere, too. */
export function methodHandledHere(): () => string | undefined {
  const { call } = ambient();
  return () => (call instanceof InboundCall ? call.definition?.name : undefined);
}

/** The trace context that came with the call being handled here; undefined outside of a handler, and without one. */
export function incomingTrace(): Uint8Array | undefined {
  const { call } = ambient();
  return call instanceof InboundCall ? call.trace : undefined;
}
