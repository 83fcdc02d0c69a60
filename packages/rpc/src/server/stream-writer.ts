/** @file The producing end of a stream: items one after the other, no further ahead than the consumer allows. */
import { runClean } from '@backwire/tensor/internal';
import { FrameKind, MessageType } from '@backwire/wire/internal';
import type { Core } from '../base/environment.ts';
import { RpcError } from '../base/errors.ts';
import type { InboundCall } from './inbound-call.ts';

type Source = Iterator<unknown> | AsyncIterator<unknown>;

/**
 * Sends what `value` yields, then the end. Resolves when it is over, cancelled or not; rejects with what the generator threw. The generator
 * runs in the context of its call, and its `finally` blocks run when the consumer leaves.
 */
export function pumpStream(environment: Core, call: InboundCall, value: unknown): Promise<void> {
  call.streamed = true;
  return runClean({ agent: environment.agent, call }, async () => {
    const source = sourceOf(value);
    if (source === undefined)
      throw new RpcError('failed-precondition', 'rpcStream() wants a function that returns an iterable', {
        executed: 'yes',
      });
    try {
      while (await mayGo(environment, call)) {
        const next = await untilCancelled(call, source.next());
        if (call.aborted) break;
        const delayMs = environment.faults.answer(MessageType.PYTHON_RET);
        if (delayMs > 0) await new Promise<void>((resolve) => environment.faults.after(delayMs, resolve));
        if (call.aborted) break;
        if (next.done === true) {
          send(call, undefined, environment, true);
          return;
        }
        call.itemCredit--;
        send(call, next.value, environment, false);
      }
    } catch (error) {
      if (!call.aborted) {
        // Where it did not throw itself, it has to hear that nobody wants more.
        await Promise.resolve(source.return?.()).catch(() => undefined);
        throw error;
      }
    }
    await source.return?.();
  });
}

/** Waits for the consumer and for the way to it, without holding a slot; false once the call is cancelled. */
async function mayGo(environment: Core, call: InboundCall): Promise<boolean> {
  const { sender } = call.peer;
  if ((call.itemCredit > 0 && !sender.congested) || call.aborted) return !call.aborted;
  environment.dispatcher.callOut(call);
  try {
    while ((call.itemCredit <= 0 || sender.congested) && !call.aborted) {
      await new Promise<void>((resolve) => {
        call.wake = resolve;
        if (sender.congested) sender.whenClear(resolve);
      });
    }
  } finally {
    call.wake = undefined;
    environment.dispatcher.callBack(call);
  }
  return !call.aborted;
}

/** The next item, unless the call is cancelled before it comes; the generator is told then, as soon as it can hear. */
function untilCancelled(
  call: InboundCall,
  next: IteratorResult<unknown> | Promise<IteratorResult<unknown>>,
): Promise<IteratorResult<unknown>> {
  return new Promise((resolve, reject) => {
    call.wake = () => {
      if (call.aborted) resolve({ done: true, value: undefined });
    };
    Promise.resolve(next).then(resolve, reject);
  });
}

function send(call: InboundCall, item: unknown, environment: Core, last: boolean): void {
  environment.dispatcher.sendValue(
    call,
    last ? FrameKind.STREAM_END : FrameKind.STREAM_ITEM,
    MessageType.PYTHON_RET,
    last ? undefined : item,
  );
}

function sourceOf(value: unknown): Source | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const both = value as Partial<AsyncIterable<unknown> & Iterable<unknown>>;
  if (typeof both[Symbol.asyncIterator] === 'function') return both[Symbol.asyncIterator]?.();
  return both[Symbol.iterator]?.();
}
