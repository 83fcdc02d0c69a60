/** @file A member that answers what it was not asked, or more often than it was asked: others' calls, and memory, are out of its reach. */
import { describe, expect, it } from 'vitest';
import { FrameKind, FrameWriter, MessageType, planTensors, type FrameKind as Kind } from '@backwire/wire/internal';
import { zeros, type Tensor } from '@backwire/tensor';
import { encodeValue } from '@backwire/wire';
import { rpcFunction, rpcInfo, rpcSync } from '../src/index.ts';
import type { Agent } from '../src/agent/agent.ts';
import { until } from './cluster.ts';
import { openLink, type Talk } from './impostor.ts';

const MIB = 2 ** 20;
/** Where the number of tensors stands in the header of a call frame. */
const COUNTS_AT = 52;

let finish = (): void => undefined;
const slow = rpcFunction('hostile-answers/slow', async () => {
  await new Promise<void>((resolve) => (finish = resolve));
  return 'right';
});

/** Writes an answer that announces the storage of `tensor`, none of which comes. */
function announce(talk: Talk, seq: number, callId: number, tensor: Tensor, kind: Kind = FrameKind.RESULT): void {
  const writer = new FrameWriter();
  writer.begin();
  writer.out.raw(encodeValue(1).bytes);
  const fields = { kind, flags: 0, messageType: MessageType.PYTHON_RET, seq, ack: 1, callId, fn: 0, remainingMs: -1 };
  const { bodies } = writer.endCall(fields, undefined, undefined, planTensors([tensor]));
  for (const body of bodies) body.release();
  talk.connection.write(writer.flush()?.chunks ?? []);
}

/** An answer that says it has a tensor, and has no table of them. */
function malformed(talk: Talk, seq: number, callId: number): void {
  const writer = new FrameWriter();
  writer.begin();
  const fields = { flags: 0, messageType: MessageType.PYTHON_RET, seq, ack: 1, callId, fn: 0, remainingMs: -1 };
  writer.endCall({ kind: FrameKind.RESULT, ...fields });
  const [chunk] = writer.flush()?.chunks ?? [];
  new DataView(chunk!.buffer, chunk!.byteOffset).setUint32(COUNTS_AT, 1, true);
  talk.connection.write([chunk!]);
}

describe('a peer that answers', () => {
  it('a call of which it is not the callee, with what cannot be read: that call goes on', async () => {
    const { talk, agent, peer, outcome } = await openLink();
    const own = agent.run(() => rpcSync('w0', slow, []));
    await until(() => (agent as Agent).dispatcher.handlers.active === 1, 'the handler runs');
    // Numbers of calls are easy to guess.
    for (let seq = 1; seq <= 8; seq++) malformed(talk, seq, talk.call + seq);
    malformed(talk, 9, talk.call);
    const info = rpcInfo(await outcome);
    expect([info?.code, info?.peer?.name]).toEqual(['decode-error', 'w1']);
    expect(peer.up).toBe(true);
    finish();
    expect(await own).toBe('right');
  });

  it('a call twice, with storages: it loses its link, and what came goes with the call', async () => {
    const large = zeros([MIB]);
    const { talk, peer, outcome } = await openLink();
    announce(talk, 1, talk.call, large);
    talk.write((writer) => writer.body(1, 0, 0, new Uint8Array(MIB), 1));
    await until(() => peer.receiver.assembling === 1, 'the first is on its way');
    announce(talk, 2, talk.call, large);
    await until(() => talk.connection.closed, 'the link is broken off');
    expect(peer.receiver.assembling).toBeLessThan(2);
    // It begins another session on the next link: this one is over.
    expect(rpcInfo(await outcome)?.code).toBe('peer-died');
    expect(peer.receiver.assembling).toBe(0);
    large.dispose();
  });

  it('a call of no stream with items: it loses its link', async () => {
    const large = zeros([MIB]);
    const { talk, peer } = await openLink();
    announce(talk, 1, talk.call, large, FrameKind.STREAM_ITEM);
    await until(() => talk.connection.closed, 'the link is broken off');
    expect(peer.receiver.assembling).toBe(0);
    large.dispose();
  });

  it('with storages that never come: they are given up with the call, and it is told so', async () => {
    const large = zeros([MIB]);
    const { talk, peer, outcome } = await openLink({}, 300);
    announce(talk, 1, talk.call, large);
    await until(() => peer.receiver.assembling === 1, 'the answer is on its way');
    expect(rpcInfo(await outcome)?.code).toBe('deadline-exceeded');
    expect(peer.receiver.assembling).toBe(0);
    await until(() => talk.kinds.includes(FrameKind.BODY_ACK), 'it need not send them');
    // What was on its way is let pass.
    talk.write((writer) => writer.body(1, 0, 0, new Uint8Array(MIB), 1));
    await until(() => peer.bytesReceived > MIB, 'a piece came');
    expect(peer.up).toBe(true);
    large.dispose();
  });
});
