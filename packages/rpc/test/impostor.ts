/** @file A real agent and, as its peer, a member that is in the group and writes frames by hand. */
import { afterEach } from 'vitest';
import {
  decodeProto,
  encodeProto,
  errorProto,
  FrameKind,
  FrameReader,
  FrameWriter,
  handshakeProto,
  MessageType,
  type CallFields,
  type FrameHeader,
} from '@backwire/wire/internal';
import { createAgent, rpcFunction, rpcSync, type RpcAgent, type RpcOptions } from '../src/index.ts';
import { Group } from '../src/membership/group.ts';
import { keepAlive } from '../src/liveness/thread.ts';
import { authenticate } from '../src/connect/authenticate.ts';
import { proveMember } from '../src/security/member-proof.ts';
import { findKeys } from '../src/security/secret.ts';
import { openStore } from '../src/stores/open.ts';
import { prefixStore } from '../src/stores/prefix.ts';
import type { Connection, Listener } from '../src/transports/transport.ts';
import type { Agent } from '../src/agent/agent.ts';
import type { Peer } from '../src/session/peer.ts';
import { unixTransport } from '../src/transports/unix.ts';
import { until } from './cluster.ts';
import { SECRET } from './crew.ts';

/** What the agent serves. */
export const echo = rpcFunction('hostile/echo', (x: unknown) => x);

let stores = 0;
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** One connection of the agent to the impostor, after authentication. */
export interface Talk {
  readonly connection: Connection;
  readonly hello: handshakeProto.Identity;
  /** Kinds of frames that came after the handshake. */
  readonly kinds: number[];
  /** What came as the answer of each call: the code of an error, 'result' for anything else. */
  readonly answers: Map<number, string>;
  /** The id of the last CALL. */
  call: number;
  write(fn: (writer: FrameWriter) => void): void;
  welcome(change?: Partial<handshakeProto.Identity>, resumed?: boolean): void;
  resume(received?: number): void;
}

export interface Impostor {
  readonly agent: RpcAgent;
  /** One for each connection. */
  readonly talks: readonly Talk[];
  /** Calls the impostor: the answer, or the error. */
  readonly call: (timeoutMs?: number) => Promise<unknown>;
}

/** A link to the impostor that is up, and a call on it that has arrived. */
export interface OpenLink extends Impostor {
  readonly talk: Talk;
  /** The impostor as the agent sees it. */
  readonly peer: Peer;
  /** How the call ends. */
  readonly outcome: Promise<unknown>;
}

/** A group of a real agent 'w0' and an impostor 'w1' that does what `behave` says with each connection. */
export async function impostor(behave: (talk: Talk) => void, options: Partial<RpcOptions> = {}): Promise<Impostor> {
  const name = `memory://hostile-${stores++}`;
  const talks: Talk[] = [];
  const { store } = await openStore(name);
  const quiet = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
  const real = findKeys({ secret: SECRET })!;
  const group = new Group({
    store: prefixStore(store, 'backwire/default/', { owned: false }),
    root: store,
    leaseMs: 10_000,
    busyDeadMs: 60_000,
    isGone: () => false,
    isProved: () => true,
    onStore: () => undefined,
    logger: quiet,
    onView: () => undefined,
    onLeaseLost: () => undefined,
    keepAlive,
    now: () => performance.now(),
    prove: (member) => proveMember(real, 'default', member),
  });
  closing.push(() => group.close());
  const transport = unixTransport();
  const listener: Listener = await transport.listen({}, (connection) => {
    const claim = new TextEncoder().encode(`w1#${group.incarnation}`);
    authenticate(connection, { role: 'acceptor', group: 'default', keys: real, claim }).then(
      () => attach(connection),
      () => undefined,
    );
  });
  closing.push(() => listener.close());
  const attach = (connection: Connection): void => {
    let talk: Talk | undefined;
    const reader = new FrameReader({
      frame(header: FrameHeader, bytes, start, end) {
        if (talk === undefined) {
          const { step } = handshakeProto.Handshake.decode(bytes.slice(start, end));
          if (step?.$case !== 'hello' || step.value.identity === undefined) throw new Error('no HELLO');
          reader.phase = 'open';
          talk = talkOf(connection, step.value.identity, group.incarnation);
          talks.push(talk);
          behave(talk);
          return;
        }
        talk.kinds.push(header.kind);
        if (header.kind === FrameKind.CALL) talk.call = header.id;
        if (header.kind === FrameKind.RESULT || header.kind === FrameKind.STREAM_END)
          talk.answers.set(header.id, 'result');
        if (header.kind === FrameKind.ERROR)
          talk.answers.set(header.id, decodeProto(errorProto.Error, bytes.slice(start, end), 'error').code);
      },
      body: () => undefined,
      bodyEnd: () => undefined,
    });
    connection.attach({
      nextBuffer: () => reader.nextBuffer(),
      received: (count) => reader.received(count),
      closed: () => reader.close(),
    });
  };
  const endpoints = [{ transport: 'unix', domain: transport.domain, address: listener.endpoint }];
  const fake = group.join({ name: 'w1', id: 1, size: 2, endpoints, host: 'elsewhere', extensions: [] }, Infinity);
  const agent = await createAgent({
    name: 'w0',
    rank: 0,
    worldSize: 2,
    store: name,
    transports: ['unix'],
    security: { mode: 'hmac', secret: SECRET },
    logger: quiet,
    ...options,
  });
  closing.push(() => agent.shutdown({ graceful: false }));
  await fake;
  const call = (timeoutMs = 5_000): Promise<unknown> =>
    agent.run(() => rpcSync('w1', echo, ['x'], { timeoutMs })).catch((error: unknown) => error);
  return { agent, talks, call };
}

/** What keeps to the protocol so far. */
export function behaves(talk: Talk): void {
  talk.welcome();
  talk.resume();
}

/** An impostor that has kept to the protocol until the call that came first. */
export async function openLink(options: Partial<RpcOptions> = {}, timeoutMs = 20_000): Promise<OpenLink> {
  const { agent, talks, call } = await impostor(behaves, options);
  const outcome = call(timeoutMs);
  await until(() => talks[0]?.kinds.includes(FrameKind.CALL) === true, 'the link is open, and the call came');
  return { agent, talks, call, outcome, talk: talks[0]!, peer: (agent as Agent).members.find('w1') };
}

/** A CALL or an answer, whose value is `bytes`; `name` is that of the function, the first time. */
export function writeMessage(
  writer: FrameWriter,
  bytes: Uint8Array,
  fields: Pick<CallFields, 'kind' | 'seq' | 'callId'> & Partial<CallFields>,
  name?: string,
): void {
  const messageType = fields.kind === FrameKind.CALL ? MessageType.PYTHON_CALL : MessageType.PYTHON_RET;
  writer.begin();
  writer.out.raw(bytes);
  writer.endCall({ flags: 0, messageType, ack: 1, fn: 0, remainingMs: -1, ...fields }, name);
}

function talkOf(connection: Connection, hello: handshakeProto.Identity, incarnation: number): Talk {
  const talk: Talk = {
    connection,
    hello,
    kinds: [],
    answers: new Map(),
    call: 0,
    write(fn) {
      const writer = new FrameWriter();
      fn(writer);
      connection.write(writer.flush()?.chunks ?? []);
    },
    welcome(change = {}, resumed = false) {
      const identity: handshakeProto.Identity = {
        ...hello,
        name: 'w1',
        id: 1,
        incarnation,
        peerIncarnation: hello.incarnation,
        dial: 0,
        ...change,
      };
      const step = { $case: 'welcome', value: { identity, resumed, version: 1 } } as const;
      talk.write((writer) =>
        writer.frame(FrameKind.HANDSHAKE, 0, encodeProto(handshakeProto.Handshake, { step }), 0, 0),
      );
    },
    resume(received = 0) {
      talk.write((writer) =>
        writer.frame(FrameKind.RESUME, 0, encodeProto(handshakeProto.Resume, { received, bodies: [] }), 0, 0),
      );
    },
  };
  return talk;
}
