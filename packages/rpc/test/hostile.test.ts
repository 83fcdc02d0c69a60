/** @file A member that does not keep to the protocol: at every state of a link it costs one connection, never the agent. */
import { describe, expect, it } from 'vitest';
import {
  encodeProto,
  FrameFlag,
  FrameKind,
  FrameWriter,
  handshakeProto,
  MessageType,
  planTensors,
} from '@backwire/wire/internal';
import { zeros } from '@backwire/tensor';
import { encodeValue } from '@backwire/wire';
import { rpcFunction, rpcInfo, rpcSync } from '../src/index.ts';
import type { Agent } from '../src/agent/agent.ts';
import { until } from './cluster.ts';
import { behaves, echo, impostor, openLink, writeMessage, type Talk } from './impostor.ts';

const MIB = 2 ** 20;

rpcFunction('hostile/count', function* (): Generator<number, void, void> {
  for (let i = 0; ; i++) yield i;
});

describe('a peer that breaks the protocol', () => {
  it('costs a connection each time before the WELCOME', async () => {
    const ways: ((talk: Talk) => void)[] = [
      (talk) => talk.connection.destroy(),
      (talk) => talk.connection.write([Uint8Array.from({ length: 500 }, (_, i) => i * 7)]),
      (talk) => talk.write((writer) => writer.frame(FrameKind.ACK, 0, undefined, 0, 0)),
      (talk) => talk.welcome({ session: new Uint8Array(16) }),
      (talk) => talk.welcome({ name: 'w2' }),
      (talk) => talk.welcome({ incarnation: 1 }),
    ];
    let turn = 0;
    const { talks, call } = await impostor((talk) => {
      const way = ways[turn++];
      if (way !== undefined) {
        way(talk);
        return;
      }
      behaves(talk);
    });
    const outcome = call(4_000);
    await until(() => talks.some(({ kinds }) => kinds.includes(FrameKind.CALL)), 'the call came through at last');
    expect(talks.length).toBe(ways.length + 1);
    const last = talks.at(-1)!;
    last.write((writer) =>
      writeMessage(writer, Uint8Array.of(0x10, 1), { kind: FrameKind.RESULT, seq: 1, callId: last.call }),
    );
    expect(await outcome).toBe(true);
  });

  it('is not waited for beyond the time of a call', async () => {
    const { call } = await impostor(() => undefined);
    const info = rpcInfo(await call(150));
    expect([info?.code, info?.executed]).toEqual(['deadline-exceeded', 'no']);
  });

  it('is evicted when it claims to have what was never sent', async () => {
    const { agent, call } = await impostor((talk) => {
      talk.welcome();
      talk.resume(99);
    });
    const down = new Promise<string>((resolve) => void agent.on('peer-down', ({ name }) => resolve(name)));
    expect(rpcInfo(await call())?.code).toBe('peer-died');
    expect(await down).toBe('w1');
  });

  it('cannot put a worker out by saying that it was removed: the store says that it was not', async () => {
    const { agent, call } = await impostor((talk) => {
      const step = { $case: 'reject', value: { code: 'fenced', message: 'not a member', retryAfterMs: 0 } } as const;
      talk.write((writer) =>
        writer.frame(FrameKind.HANDSHAKE, 0, encodeProto(handshakeProto.Handshake, { step }), 0, 0),
      );
    });
    let fenced = false;
    agent.on('fenced', () => (fenced = true));
    for (let attempt = 0; attempt < 2; attempt++) {
      const info = rpcInfo(await call(1_000));
      expect([info?.code, info?.executed, info?.peer?.name]).toEqual(['deadline-exceeded', 'no', 'w1']);
    }
    expect(fenced).toBe(false);
    // It goes on serving: calls to itself are calls like any other.
    expect(await agent.run(() => rpcSync('w0', echo, [7]))).toBe(7);
  });

  it('sends pings and reads no answers: they take no memory', async () => {
    const pings = 400_000;
    const { talk, peer } = await openLink();
    (talk.connection as unknown as { socket: { pause(): void } }).socket.pause();
    const before = peer.bytesReceived;
    for (let sent = 0; sent < pings; sent += 1_000) {
      talk.write((writer) => {
        for (let i = 0; i < 1_000; i++) writer.idFrame(FrameKind.PING, { id: sent + i }, 0, 0);
      });
      await new Promise((resolve) => setImmediate(resolve));
    }
    await until(() => peer.bytesReceived - before >= pings * 48, 'the agent has read them all');
    // What the system holds between the two, and a megabyte.
    expect(peer.link!.connection.bufferedBytes).toBeLessThan(2 * 2 ** 20);
  });

  it('sends pings and reads the answers: so many of them are answered in a second', async () => {
    const { talk, peer } = await openLink();
    const [before, began] = [peer.bytesReceived, performance.now()];
    for (let sent = 0; sent < 100_000; sent += 1_000) {
      talk.write((writer) => {
        for (let i = 0; i < 1_000; i++) writer.idFrame(FrameKind.PING, { id: sent + i }, 0, 0);
      });
      await new Promise((resolve) => setImmediate(resolve));
    }
    await until(() => peer.bytesReceived - before >= 100_000 * 48, 'the agent has read them all');
    const pongs = (): number => talk.kinds.filter((kind) => kind === FrameKind.PONG).length;
    await until(() => pongs() >= 100, 'the first hundred are answered');
    const seconds = Math.floor((performance.now() - began) / 1_000) + 2;
    expect(pongs()).toBeLessThanOrEqual(100 * seconds);
  });

  it('asks how far storages are that nobody knows, and reads no answers: it loses its link', async () => {
    const { talk, peer } = await openLink();
    (talk.connection as unknown as { socket: { pause(): void } }).socket.pause();
    const [piece, { connection }] = [new Uint8Array(1), peer.link!];
    for (let sent = 0; sent < 200_000 && !connection.closed; sent += 1_000) {
      talk.write((writer) => {
        for (let i = 0; i < 1_000; i++) writer.body(77, 0, i, piece, 0, FrameFlag.ASK);
      });
      await new Promise((resolve) => setImmediate(resolve));
      expect(connection.bufferedBytes).toBeLessThan(4 * MIB);
    }
    await until(() => connection.closed, 'the link is broken off');
  });

  it('gives a stream credit over and over and takes no items: they wait as one', async () => {
    const { talk, peer } = await openLink();
    talk.write((writer) => {
      const fields = { kind: FrameKind.CALL, seq: 1, callId: 7, fn: 1, flags: FrameFlag.STREAM };
      writeMessage(writer, encodeValue([]).bytes, fields, 'hostile/count');
    });
    talk.write((writer) => writer.idFrame(FrameKind.CREDIT, { id: 7, a: 1 }, 2, 0));
    await until(() => talk.kinds.includes(FrameKind.STREAM_ITEM), 'an item came');
    Object.defineProperty(peer.sender, 'congested', { get: () => true });
    const before = peer.bytesReceived;
    for (let seq = 3; seq < 20_003; seq += 100) {
      talk.write((writer) => {
        for (let i = 0; i < 100; i++) writer.idFrame(FrameKind.CREDIT, { id: 7, a: 1 }, seq + i, 0);
      });
      await new Promise((resolve) => setImmediate(resolve));
    }
    await until(() => peer.bytesReceived - before >= 20_000 * 48, 'all credit has come');
    expect((peer.sender as unknown as { clearWaiters: unknown[] }).clearWaiters.length).toBeLessThan(3);
  });

  it('calls past its credit while its answers pile up: it loses its link', async () => {
    const { talk, peer } = await openLink({ limits: { maxInboundCalls: 10 } });
    let seq = 0;
    const flood = (count: number): void => {
      talk.write((writer) => {
        for (let i = 0; i < count; i++) {
          const fields = { kind: FrameKind.CALL, seq: ++seq, callId: seq, fn: 1 };
          writeMessage(writer, encodeValue([]).bytes, fields, seq === 1 ? 'hostile/none' : undefined);
        }
      });
    };
    // Who reads its answers is told, and keeps its link.
    flood(40);
    await until(() => talk.answers.size === 40, 'all are answered');
    expect(talk.connection.closed).toBe(false);
    Object.defineProperty(peer.sender, 'congested', { get: () => true });
    flood(40);
    await until(() => talk.connection.closed, 'the link is broken off');
  });

  it.each<[string, { callId: number; flags: number }[]]>([
    [
      'two streams under one number',
      [
        { callId: 7, flags: FrameFlag.STREAM },
        { callId: 7, flags: FrameFlag.STREAM },
      ],
    ],
    ['a stream without a number', [{ callId: 0, flags: FrameFlag.STREAM }]],
    ['a stream whose items it does not want', [{ callId: 7, flags: FrameFlag.STREAM | FrameFlag.ONEWAY }]],
    ['an answer to a call without a number', [{ callId: 0, flags: 0 }]],
  ])('asks for %s: it loses its link, and nothing of it stays', async (_, calls) => {
    const { talk, peer, agent } = await openLink();
    const { handlers } = (agent as Agent).dispatcher;
    talk.write((writer) =>
      calls.forEach(({ callId, flags }, i) =>
        writeMessage(
          writer,
          encodeValue([]).bytes,
          { kind: FrameKind.CALL, seq: i + 1, callId, fn: 1, flags },
          i === 0 ? 'hostile/count' : undefined,
        ),
      ),
    );
    await until(() => talk.connection.closed, 'the link is broken off');
    peer.close();
    await until(() => handlers.active === 0, 'no handler runs');
  });

  it('announces 900 MiB: they are taken as they come, and given back with its link', async () => {
    const { talk, peer } = await openLink();
    const memory = (): number => process.memoryUsage().arrayBuffers;
    // It lies here until the end: what the agent takes comes on top of it.
    const large = zeros([225 * MIB]);
    const before = memory();
    const plan = planTensors([large]);
    const head = new FrameWriter();
    head.begin();
    head.out.raw(encodeValue(['x']).bytes);
    const fields = { kind: FrameKind.CALL, flags: 0, messageType: MessageType.PYTHON_CALL, seq: 1, ack: 1, callId: 7 };
    const { bodies } = head.endCall({ ...fields, fn: 1, remainingMs: -1 }, 'hostile/echo', undefined, plan);
    expect(bodies[0]!.bytes.length).toBe(900 * MIB);
    for (const body of bodies) body.release();
    talk.connection.write(head.flush()?.chunks ?? []);
    await until(() => peer.receiver.assembling === 1, 'the call is here');
    expect(memory() - before).toBeLessThan(MIB);
    talk.write((writer) => writer.body(1, 0, 0, new Uint8Array(1_000), 1));
    await until(
      () => peer.receiver.assembling === 1 && peer.sender.session.bodies.positions()[0]?.bytes === 1_000,
      'a piece is here',
    );
    expect(memory() - before).toBeLessThan(9 * MIB);
    for (let at = 1_000; at < 40 * MIB; at += MIB)
      talk.write((writer) => writer.body(1, 0, at, new Uint8Array(MIB), 1));
    await until(() => (peer.sender.session.bodies.positions()[0]?.bytes ?? 0) > 39 * MIB, '40 MiB are here');
    expect(memory() - before).toBeLessThan(300 * MIB);
    peer.close();
    expect(peer.receiver.assembling).toBe(0);
    large.dispose();
  });

  it.each<[string, (talk: Talk) => void]>([
    ['skips a number', (talk) => talk.write((writer) => writer.idFrame(FrameKind.CANCEL, { id: 1 }, 5, 0))],
    ['acknowledges the future', (talk) => talk.write((writer) => writer.frame(FrameKind.ACK, 0, undefined, 0, 77))],
    [
      'sends a storage of nothing',
      (talk) => talk.write((writer) => writer.frame(FrameKind.HANDSHAKE, 0, undefined, 0, 0)),
    ],
    ['writes nonsense', (talk) => talk.connection.write([new Uint8Array(100).fill(0xee)])],
  ])('loses its link when it %s, and may come back', async (_, breaks) => {
    let turn = 0;
    const { talks, call } = await impostor((talk) => {
      talk.welcome({}, turn > 0);
      talk.resume();
      if (turn++ === 0) setTimeout(() => breaks(talk), 20);
    });
    const outcome = call();
    await until(
      () => talks.length === 2 && talks[1]!.kinds.includes(FrameKind.CALL),
      'it was dialled again and the call replayed',
    );
    expect(talks[0]!.connection.closed || talks[0]!.kinds.length > 0).toBe(true);
    const answer = { kind: FrameKind.RESULT, seq: 1, callId: talks[1]!.call };
    talks[1]!.write((writer) => writeMessage(writer, Uint8Array.of(0xff, 0xff, 0xff), answer));
    // And an answer that cannot be read fails its call alone.
    const info = rpcInfo(await outcome);
    expect([info?.code, info?.executed]).toEqual(['decode-error', 'yes']);
  });

  it('may answer what nobody asked', async () => {
    const { talk, talks, peer, outcome } = await openLink({}, 300);
    talk.write((writer) => {
      const nothing = new Uint8Array(0);
      writeMessage(writer, nothing, { kind: FrameKind.RESULT, seq: 1, callId: 123_456_789 });
      writer.idFrame(FrameKind.CANCEL, { id: 987 }, 2, 1);
      writer.idFrame(FrameKind.BODY_ACK, { id: 5, a: 3 }, 3, 1);
      writer.idFrame(FrameKind.BODY_LOST, { id: 5, a: 3 }, 4, 1);
      writer.idFrame(FrameKind.CREDIT, { id: 44, a: 3 }, 5, 1);
      writer.frame(FrameKind.CONTROL, 0x1ff, new Uint8Array(10), 6, 1);
      writeMessage(writer, nothing, { kind: FrameKind.CALL, seq: 7, callId: 1, fn: 9 });
    });
    expect(rpcInfo(await outcome)?.code).toBe('deadline-exceeded');
    await until(() => talk.kinds.includes(FrameKind.ERROR), 'the call of an unnamed function was refused');
    expect(peer.up).toBe(true);
    expect(talks.length).toBe(1);
  });
});
