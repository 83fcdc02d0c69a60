/** @file Damaged bytes on the port of a running agent: from strangers, and from a member that has proved itself. */
import { rand, tensor, zeros } from '@backwire/tensor';
import {
  encodeProto,
  FrameFlag,
  FrameKind,
  type FrameWriter,
  handshakeProto,
  MessageType,
  planTensors,
  type FrameHeader,
} from '@backwire/wire/internal';
import { encodeValue } from '@backwire/wire';
import { Random } from '@backwire/testing';
import type { Agent } from '../src/agent/agent.ts';
import { callContext, createAgent, rpcFunction, rpcSync } from '../src/index.ts';
import { Group } from '../src/membership/group.ts';
import { inLoop } from '../src/liveness/keep-alive.ts';
import { authenticate } from '../src/connect/authenticate.ts';
import { findKeys, type Keys } from '../src/security/secret.ts';
import { openStore } from '../src/stores/open.ts';
import { prefixStore } from '../src/stores/prefix.ts';
import type { Store } from '../src/stores/store.ts';
import { tcpTransport } from '../src/transports/tcp.ts';
import { bytesOf, Talk } from './talk.ts';

const echo = rpcFunction('fuzz/echo', (x: unknown) => x);
rpcFunction('fuzz/count', function* (): Generator<number, void, void> {
  for (let i = 0; ; i++) yield i;
});
rpcFunction('fuzz/idle', async () => {
  const { signal } = callContext();
  // Its time may have been over before it began.
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
});
/** The attacker's numbers for what it calls. */
const NUMBERS = { 'fuzz/echo': 1, 'fuzz/count': 2, 'fuzz/idle': 3 } as const;
let letGo = (): void => undefined;
/** A call of the agent's own, which lasts while others do their worst. */
const held = rpcFunction('fuzz/held', async (x: unknown) => {
  await new Promise<void>((resolve) => (letGo = resolve));
  return x;
});
const SECRET = 'the secret of the fuzzed agent';
const GROUP = 'default';
/** Frames of one connection; the first that breaks the protocol ends it. */
const FRAMES_PER_CONNECTION = 100;
/** One connection in so many is a stranger's, whose handshake is damaged. */
const STRANGERS = 10;
const MIB = 1024 * 1024;
const { RESULT, ERROR, STREAM_ITEM, STREAM_END } = FrameKind;
const ANSWERS: ReadonlySet<FrameKind> = new Set<FrameKind>([RESULT, ERROR, STREAM_ITEM, STREAM_END]);
/** The number of the first call of an agent; its slot's next one is as much more. */
const FIRST_CALL = 2 ** 20;
/** What one message may make the agent hold: far less than what a damaged length may ask for. */
const LIMITS = {
  maxMessageBytes: 8 * MIB,
  maxFrameBytes: MIB,
  maxBufferedBytesPerPeer: 32 * MIB,
  maxInboundCalls: 1_000,
  maxResultBytes: 32 * MIB,
};
/** Nobody answers in this time: the agent hangs. */
const PATIENCE_MS = 30_000;
const QUIET = {
  debug: (): void => undefined,
  info: (): void => undefined,
  warn: (): void => undefined,
  error: (): void => undefined,
};

/** What a run saw. */
export interface LiveReport {
  readonly frames: number;
  readonly connections: number;
  /** Connections that the agent broke off. */
  readonly broken: number;
  readonly strangers: number;
  /** Frames that the agent sent back: results, errors, acknowledgements. */
  readonly answers: number;
  /** Lives that the member needed: the group removed it when a session could not go on. */
  readonly lives: number;
  /** How much larger the process was at its largest than at the start. */
  readonly grownBytes: number;
  /** What the member asked it to hold. */
  readonly askedBytes: number;
}

/**
 * Sends `frames` damaged frames. Rejects when the agent stops to answer its other callers, or to hang up on this one, or when something of it
 * still runs once the attacker is gone.
 */
export async function fuzzLive(frames: number, seed: number): Promise<LiveReport> {
  const address = `memory://fuzz-${seed}-${frames}`;
  const { store } = await openStore(address);
  const security = { mode: 'hmac', secret: SECRET } as const;
  const agent = await createAgent({
    name: 'victim',
    membership: 'dynamic',
    store: address,
    transports: ['tcp'],
    security,
    limits: LIMITS,
    logger: QUIET,
  });
  const attacker = new Attacker(agent as Agent, store, new Random(seed));
  const before = process.memoryUsage().rss;
  let most = before;
  let own = agent.run(() => rpcSync('victim', held, [0], { timeoutMs: 0 }));
  try {
    for (let turn = 0; attacker.frames < frames; turn++) {
      if (turn % STRANGERS === 0) await attacker.asStranger();
      else await attacker.asMember(Math.min(FRAMES_PER_CONNECTION, frames - attacker.frames));
      if (turn % 50 !== 0) continue;
      most = Math.max(most, process.memoryUsage().rss);
      const answer = await agent.run(() => rpcSync('victim', echo, [turn], { timeoutMs: PATIENCE_MS }));
      if (answer !== turn) throw new Error(`the agent answered ${String(answer)} instead of ${turn}`);
      letGo();
      if ((await own) !== 0) throw new Error('a call of the agent to itself was answered by another');
      own = agent.run(() => rpcSync('victim', held, [0], { timeoutMs: 0 }));
    }
    letGo();
    await own;
    await attacker.close();
    await inTime(idle(agent as Agent), 'handlers of the attacker outlived it');
  } finally {
    await attacker.close();
    await agent.shutdown({ graceful: false });
    await store.close();
  }
  const { connections, broken, strangers, answers, lives } = attacker;
  return {
    frames: attacker.frames,
    connections,
    broken,
    strangers,
    answers,
    lives,
    askedBytes: attacker.asked,
    grownBytes: most - before,
  };
}

class Attacker {
  frames = 0;
  connections = 0;
  broken = 0;
  strangers = 0;
  answers = 0;
  lives = 0;
  /** Bytes that it asked the agent to hold. */
  asked = 0;
  private readonly agent: Agent;
  private readonly store: Store;
  private readonly random: Random;
  private readonly keys = findKeys({ secret: SECRET }) as Keys;
  private readonly transport = tcpTransport();
  private readonly endpoint: string;
  private group: Group | undefined;
  private session = new Uint8Array(16);
  private dials = 0;
  /** The number of the last call that does not end by itself. */
  private last = 0;
  /** Numbered frames of the agent that came in this session. */
  private received = 0;

  constructor(agent: Agent, store: Store, random: Random) {
    this.agent = agent;
    this.store = store;
    this.random = random;
    this.endpoint = agent.listeners[0]?.endpoint ?? '';
  }

  /** Bytes that look like a handshake, more or less. */
  async asStranger(): Promise<void> {
    const connection = await this.transport.dial(this.endpoint);
    this.connections++;
    this.strangers++;
    const hello = Uint8Array.from([
      0x42,
      0x4b,
      0x57,
      0x52,
      2,
      1,
      41 + 7,
      0,
      1,
      ...Array.from({ length: 47 }, () => this.random.int(0, 256)),
    ]);
    const closed = new Promise<void>((resolve) => {
      connection.attach({
        nextBuffer: () => new Uint8Array(1_024),
        received: () => undefined,
        closed: () => resolve(),
      });
    });
    connection.write([this.damage(hello), this.damage(hello)]);
    connection.close();
    await inTime(closed, 'a stranger was not hung up on');
  }

  /** A member's connection: handshake in order, then damaged frames, then a ping that shows whether the link has lived. */
  async asMember(count: number): Promise<void> {
    const group = (this.group ??= await this.join());
    const connection = await this.transport.dial(this.endpoint);
    this.connections++;
    const claim = new TextEncoder().encode(
      `attacker#${group.incarnation} ${this.agent.name}#${this.agent.incarnation} ${this.endpoint}`,
    );
    await authenticate(connection, { role: 'dialer', group: GROUP, keys: this.keys, claim });
    const link = new Talk(connection, (header) => this.note(header));
    const identity = this.identity(group);
    link.send((writer) =>
      writer.frame(
        FrameKind.HANDSHAKE,
        0,
        encodeProto(handshakeProto.Handshake, { step: { $case: 'hello', value: { identity } } }),
        0,
        0,
      ),
    );
    const welcomed = await inTime(link.welcomed, 'no WELCOME came');
    if (welcomed === undefined) {
      // Removed from the group: the next life.
      await group.close();
      this.group = undefined;
      return;
    }
    link.send((writer) =>
      writer.frame(
        FrameKind.RESUME,
        0,
        encodeProto(handshakeProto.Resume, { received: this.received, bodies: [] }),
        0,
        0,
      ),
    );
    let seq = welcomed;
    for (let i = 0; i < count; i++) link.sendBytes(this.damagedFrame(++seq));
    this.frames += count;
    link.send((writer) => writer.idFrame(FrameKind.PING, { id: 1 }, 0, 0));
    // A damaged length makes the agent wait for more: there is none.
    connection.close();
    if ((await inTime(link.ended, 'neither a PONG came nor the end')) === 'broken') this.broken++;
    connection.destroy();
  }

  async close(): Promise<void> {
    await this.group?.close();
  }

  private note(header: FrameHeader): void {
    this.answers++;
    if (header.seq === this.received + 1) this.received++;
  }

  private async join(): Promise<Group> {
    const group = new Group({
      store: prefixStore(this.store, `backwire/${GROUP}/`, { owned: false }),
      root: this.store,
      leaseMs: 60_000,
      busyDeadMs: 60_000,
      isGone: () => false,
      isProved: () => true,
      onStore: () => undefined,
      logger: QUIET,
      onView: () => undefined,
      onLeaseLost: () => undefined,
      keepAlive: (store, lease, { ageKey }) => inLoop(store, lease, ageKey),
      now: () => performance.now(),
      prove: undefined,
    });
    this.lives++;
    await group.join(
      { name: 'attacker', id: undefined, size: undefined, endpoints: [], host: 'elsewhere', extensions: [] },
      performance.now() + PATIENCE_MS,
    );
    this.session = Uint8Array.from({ length: 16 }, () => this.random.int(0, 256));
    this.received = 0;
    this.dials = 0;
    return group;
  }

  private identity(group: Group): handshakeProto.Identity {
    return {
      group: GROUP,
      name: 'attacker',
      id: 1,
      incarnation: group.incarnation,
      peerIncarnation: this.agent.incarnation,
      session: this.session,
      dial: ++this.dials,
      epoch: this.agent.epoch,
      extensions: [],
      limits: { maxInboundCalls: 1_000, maxInboundBytes: 32 * MIB, maxFrameBytes: MIB, maxMessageBytes: 8 * MIB },
      host: 'elsewhere',
      minVersion: 1,
      maxVersion: 1,
      nonce: new Uint8Array(0),
    };
  }

  /** A frame whose value may be damaged already; few are damaged themselves, for that mostly ends the connection. */
  private damagedFrame(seq: number): Uint8Array {
    const whole = this.frame(seq);
    // An answer that cannot be read costs its call alone.
    const mayBeDamaged = ANSWERS.has(whole[0] as FrameKind) ? 0.1 : 0.01;
    if (!this.random.chance(mayBeDamaged)) return whole;
    const keep = this.random.chance(0.6) ? Math.min(56, whole.length) : 0;
    const damaged = this.damage(whole.subarray(keep));
    // Behind an intact header the length has to stay what the header says, or the next frame is damaged as well.
    const body = keep > 0 && this.random.chance(0.8) ? fit(damaged, whole.length - keep) : damaged;
    return Uint8Array.from([...whole.subarray(0, keep), ...body]);
  }

  private frame(seq: number): Uint8Array {
    const { random } = this;
    return bytesOf((writer) => {
      const kind = random.weighted({ call: 6, answer: 2, control: 1, id: 2, loose: 1, greedy: 1, lasting: 1 });
      if (kind === 'control')
        writer.frame(FrameKind.CONTROL, random.int(0, 0x250), new Uint8Array(random.int(0, 40)), seq, 0);
      else if (kind === 'id') {
        const which = random.pick([FrameKind.CANCEL, FrameKind.CREDIT, FrameKind.BODY_ACK, FrameKind.BODY_LOST]);
        writer.idFrame(which, { id: random.int(0, seq + 1), a: random.int(0, 3), c: random.int(0, 100) }, seq, 0);
      } else if (kind === 'loose') {
        // It has no number: another frame takes the one that is due.
        writer.idFrame(FrameKind.CREDIT, { id: 0, a: random.int(0, 1_000), c: random.int(0, 1_000_000) }, 0, 0);
        writer.idFrame(FrameKind.CANCEL, { id: random.int(0, seq + 1) }, seq, 0);
      } else if (kind === 'greedy') this.greedy(writer, seq);
      else if (kind === 'lasting') this.lasting(writer, seq);
      else this.message(writer, kind, seq);
    });
  }

  private message(writer: FrameWriter, kind: 'call' | 'answer', seq: number): void {
    const { random } = this;
    const args = [
      random.pick<unknown>([
        1,
        'text',
        { a: [1n, null] },
        rand([3, 4]),
        tensor([1, 2], { dtype: 'int64' }),
        new Map([['k', new Date(0)]]),
      ]),
    ];
    const { bytes, tensors } = encodeValue(args);
    writer.begin();
    writer.out.raw(random.chance(0.8) ? this.damage(bytes) : bytes);
    const plan = tensors.length === 0 ? undefined : planTensors(tensors);
    const fields = { flags: random.int(0, 8), seq, ack: 0, callId: seq, remainingMs: random.pick([-1, 1, 1_000]) };
    if (kind === 'call') {
      const call = { ...fields, kind: FrameKind.CALL, messageType: MessageType.PYTHON_CALL, fn: NUMBERS['fuzz/echo'] };
      // What breaks the protocol ends the connection: not every other frame may.
      if ((call.flags & FrameFlag.STREAM) !== 0 && random.chance(0.99)) call.flags &= ~FrameFlag.ONEWAY;
      writer.endCall(call, 'fuzz/echo', undefined, plan);
    } else {
      // Half of the answers are to calls that there may be, none of which this peer was asked.
      if (random.chance(0.5)) fields.callId = FIRST_CALL * random.int(1, 20) + random.int(0, 3);
      const of = random.pick([...ANSWERS]);
      writer.endCall({ ...fields, kind: of, messageType: MessageType.PYTHON_RET, fn: 0 }, undefined, undefined, plan);
    }
    plan?.release();
  }

  /** A call that does not end by itself; now and then under the number of the one before, or under none. */
  private lasting(writer: FrameWriter, seq: number): void {
    const { random } = this;
    const [name, flags] = random.pick([
      ['fuzz/count', FrameFlag.STREAM],
      ['fuzz/idle', 0],
      ['fuzz/idle', FrameFlag.ONEWAY],
    ] as const);
    writer.begin();
    writer.out.raw(encodeValue([]).bytes);
    const callId = random.chance(0.9) ? seq : random.pick([0, this.last]);
    const call = { kind: FrameKind.CALL, messageType: MessageType.PYTHON_CALL, seq, ack: 0, callId, flags };
    writer.endCall({ ...call, fn: NUMBERS[name], remainingMs: -1 }, name);
    this.last = callId;
  }

  /** Nothing is wrong with these but what they ask for: pings, storages that never come, results far larger than their arguments. */
  private greedy(writer: FrameWriter, seq: number): void {
    const { random } = this;
    const kind = random.pick(['pings', 'storage', 'outer', 'tile', 'add'] as const);
    if (kind === 'pings') {
      for (let i = random.int(1, 500); i > 0; i--) writer.idFrame(FrameKind.PING, { id: i }, 0, 0);
      writer.idFrame(FrameKind.CANCEL, { id: seq }, seq, 0);
      return;
    }
    const size = random.int(10_000, 40_000);
    const [fn, name, args] = {
      storage: [1, 'fuzz/echo', [zeros([random.int(20_000, 2_000_000)])]],
      outer: [2, 'aten::outer', [zeros([size]), zeros([size])]],
      tile: [3, 'aten::tile', [zeros([10]), [size * 1_000]]],
      add: [4, 'aten::add', [zeros([size, 1]), zeros([1, size])]],
    }[kind] as [number, string, unknown[]];
    const { bytes, tensors } = encodeValue(args);
    const plan = planTensors(tensors);
    writer.begin();
    writer.out.raw(bytes);
    const fields = { kind: FrameKind.CALL, messageType: MessageType.PYTHON_CALL, flags: 0, seq, ack: 0, callId: seq };
    const { bodies } = writer.endCall({ ...fields, fn, remainingMs: 1_000 }, name, undefined, plan);
    this.asked += kind === 'storage' ? (bodies[0]?.bytes.length ?? 0) : 4 * size * (kind === 'tile' ? 10_000 : size);
    for (const body of bodies) body.release();
  }

  /** One to three mistakes: bits, bytes, a piece cut out, repeated or overwritten. */
  private damage(bytes: Uint8Array): Uint8Array {
    const { random } = this;
    let out = [...bytes];
    for (let i = random.int(1, 4); i > 0 && out.length > 0; i--) {
      const at = random.int(0, out.length);
      const to = Math.min(out.length, at + random.int(1, 17));
      const kind = random.weighted({ bit: 4, byte: 3, cut: 1, repeat: 1, high: 2 });
      if (kind === 'bit') out[at] = (out[at] as number) ^ (1 << random.int(0, 8));
      else if (kind === 'byte') out[at] = random.pick([0, 1, 0x7f, 0x80, 0xff, random.int(0, 256)]);
      else if (kind === 'cut') out = [...out.slice(0, at), ...out.slice(to)];
      else if (kind === 'repeat') out = [...out.slice(0, to), ...out.slice(at, to), ...out.slice(to)];
      else for (let j = at; j < to; j++) out[j] = 0xff;
    }
    return Uint8Array.from(out);
  }
}

function fit(bytes: Uint8Array, length: number): Uint8Array {
  const out = new Uint8Array(length);
  out.set(bytes.subarray(0, length));
  return out;
}

/** Ends the attacker's session; resolves once nothing runs for it any more. */
async function idle({ members, dispatcher }: Agent): Promise<void> {
  members.peerMet('attacker')?.close();
  while (dispatcher.handlers.active > 0) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function inTime<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(what)), PATIENCE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
