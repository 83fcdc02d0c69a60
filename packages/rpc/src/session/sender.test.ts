import { expect, it, vi } from 'vitest';
import { DEFAULT_WIRE_LIMITS, FrameKind, MessageType, SlabPool } from '@backwire/wire/internal';
import { MAX_CONTROL_BACKLOG_FRAMES } from '../base/limits.ts';
import type { Connection } from '../transports/transport.ts';
import { Sender } from './sender.ts';

const WINDOW_FRAMES = 8;

function senderOf(overflowed: () => void = () => undefined): Sender {
  return new Sender({
    slabs: new SlabPool(),
    wireLimits: DEFAULT_WIRE_LIMITS,
    maxBufferedBytes: 1e9,
    session: { windowBytes: 1e9, windowFrames: WINDOW_FRAMES, ackFrames: 64, ackBytes: 1e6, ackMs: 10 },
    now: () => 0,
    wanted: () => undefined,
    overflowed,
  });
}

/** Notes what is written, a list of the bytes of each write. */
function connectionTo(writes: Uint8Array[]): Connection {
  const write = (chunks: readonly Uint8Array[]): void => void writes.push(Buffer.concat(chunks));
  return { write, bufferedBytes: 0, sentBytes: 0, closed: false, paced: false } as unknown as Connection;
}

/** A sender whose link is up, and what it writes from now on. */
async function linked(): Promise<{ sender: Sender; writes: Uint8Array[] }> {
  const sender = senderOf();
  const writes: Uint8Array[] = [];
  sender.open(connectionTo(writes), []);
  expect(sender.resume({ received: 0, bodies: [] })).toBe(true);
  await new Promise((resolve) => setImmediate(resolve));
  writes.length = 0;
  return { sender, writes };
}

it('gives the session up when more control waits than may be kept, whatever it takes of bytes', () => {
  const overflowed = vi.fn();
  const sender = senderOf(overflowed);
  const payload = Uint8Array.of(1);
  for (let i = 0; i < WINDOW_FRAMES + MAX_CONTROL_BACKLOG_FRAMES; i++)
    sender.sendControl(MessageType.RREF_ACK, payload);
  expect(overflowed).not.toHaveBeenCalled();
  sender.sendControl(MessageType.RREF_ACK, payload);
  expect(overflowed).toHaveBeenCalledOnce();
});

it('writes control that nobody waits for with the frame that follows it in the same turn', async () => {
  const { sender, writes } = await linked();
  sender.sendControl(MessageType.RREF_ACK, Uint8Array.of(1), true);
  await Promise.resolve().then(() => new Promise<void>((resolve) => process.nextTick(resolve)));
  expect(writes).toEqual([]);
  sender.sendId(FrameKind.CANCEL, 5);
  await new Promise((resolve) => process.nextTick(resolve));
  expect(writes.map((bytes) => bytes[0])).toEqual([FrameKind.CONTROL]);
  expect(writes[0]?.[(writes[0]?.length ?? 0) - 48]).toBe(FrameKind.CANCEL);
});

it('writes it when the turn ends without one', async () => {
  const { sender, writes } = await linked();
  sender.sendControl(MessageType.RREF_ACK, Uint8Array.of(1), true);
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  expect(writes.map((bytes) => bytes[0])).toEqual([FrameKind.CONTROL]);
});
