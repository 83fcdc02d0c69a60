/** @file The producing end of a stream: items one after the other, no further ahead than the consumer allows. */
import { runClean } from '@backwire/tensor/internal';
import { FrameKind, MessageType } from '@backwire/wire/internal';
import type { RpcAgent } from '../base/rpc-agent.ts';
import { RpcError } from '../base/errors.ts';
import type { FaultInjector } from '../session/fault-injection.ts';
import type { InboundCall, SlotLender } from './inbound-call.ts';
import { sourceOf } from './stream-source.ts';

/** What a stream needs of the agent that it comes from. */
export interface StreamHost extends SlotLender {
  readonly agent: RpcAgent;
  readonly faults: FaultInjector;
  /** Writes an item. @throws what cannot travel; nothing was sent then. */
  sendValue(call: InboundCall, kind: FrameKind, type: number, value: unknown): void;
}

/**
 * Sends what `value` yields, then the end. Resolves when it is over, cancelled or not; rejects with what the generator threw. The generator
 * runs in the context of its call, and its `finally` blocks run when the consumer leaves.
 */
export function pumpStream(host: StreamHost, call: InboundCall, value: unknown): Promise<void> {
  call.streamed = true;
  return runClean({ agent: host.agent, call }, async () => {
    const source = sourceOf(value);
    if (source === undefined)
      throw new RpcError('failed-precondition', 'rpcStream() wants a function that returns an iterable', {
        executed: 'yes',
      });
    try {
      while (await mayGo(host, call)) {
        const next = await untilCancelled(call, source.next());
        if (call.aborted) break;
        const delayMs = host.faults.answer(MessageType.PYTHON_RET);
        if (delayMs > 0) await new Promise<void>((resolve) => host.faults.after(delayMs, resolve));
        if (call.aborted) break;
        if (next.done === true) {
          send(call, undefined, host, true);
          return;
        }
        call.itemCredit--;
        send(call, next.value, host, false);
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
async function mayGo(host: StreamHost, call: InboundCall): Promise<boolean> {
  const { sender } = call.peer;
  if ((call.itemCredit > 0 && !sender.congested) || call.aborted) return !call.aborted;
  host.callOut(call);
  try {
    // Its consumer may wake it as often as it likes: it stands in the line of those who wait for the way once.
    let inLine = false;
    const clear = (): void => {
      inLine = false;
      call.wake?.();
    };
    while ((call.itemCredit <= 0 || sender.congested) && !call.aborted) {
      await new Promise<void>((resolve) => {
        call.wake = resolve;
        if (inLine || !sender.congested) return;
        inLine = true;
        sender.whenClear(clear);
      });
    }
  } finally {
    call.wake = undefined;
    host.callBack(call);
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

function send(call: InboundCall, item: unknown, host: StreamHost, last: boolean): void {
  host.sendValue(
    call,
    last ? FrameKind.STREAM_END : FrameKind.STREAM_ITEM,
    MessageType.PYTHON_RET,
    last ? undefined : item,
  );
}
