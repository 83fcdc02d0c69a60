/** @file Every message of a live group, through the request and response unions and back to the same bytes; and each of them failing on purpose. */
import {
  deserializeRequest,
  deserializeResponse,
  serializeRequest,
  serializeResponse,
  type Command,
} from '@backwire/wire';
import {
  ByteWriter,
  bufferPool,
  FrameKind,
  FrameReader,
  frameName,
  frameTensors,
  isResponse,
  MessageType,
  messageTypeName,
  valueEnd,
  type FrameHeader,
  type FrameSink,
} from '@backwire/wire/internal';
import type { Message } from '@backwire/wire';
import { afterEach, expect, it } from 'vitest';
import type { Logger, RpcAgent } from '../src/index.ts';
import { startGroup, STEPS, until } from './live-group.ts';

/** What nobody sends: see the names that fault injection refuses. */
const NEVER = ['UNKNOWN', 'SCRIPT_RREF_FETCH_CALL', 'SCRIPT_RREF_FETCH_RET', 'CLEANUP_AUTOGRAD_CONTEXT_RESP'];

interface Seen {
  readonly message: Message;
  readonly bytes: Uint8Array;
}

/** Looks at all frames that arrive anywhere in the process. */
class Tap {
  readonly seen: Seen[] = [];
  readonly failures: unknown[] = [];
  private readonly original = FrameReader.prototype.received;
  private readonly tapped = new WeakSet<FrameReader>();

  constructor() {
    const { original, tapped } = this;
    const look = (sink: FrameSink): FrameSink => this.around(sink);
    FrameReader.prototype.received = function (this: FrameReader, count: number): void {
      if (!tapped.has(this)) {
        tapped.add(this);
        const reader = this as unknown as { sink: FrameSink };
        reader.sink = look(reader.sink);
      }
      original.call(this, count);
    };
  }

  end(): void {
    FrameReader.prototype.received = this.original;
  }

  private around(sink: FrameSink): FrameSink {
    const names = new Map<number, string>();
    return {
      frame: (header, bytes, start, end) => {
        try {
          const message = messageOf(header, bytes, start, end, names);
          if (message !== undefined) this.seen.push({ message, bytes: message.payload });
        } catch (error) {
          this.failures.push(error);
        }
        sink.frame(header, bytes, start, end);
      },
      body: (header) => sink.body(header),
      bodyEnd: (header, landed) => sink.bodyEnd(header, landed),
    };
  }
}

const MESSAGES: ReadonlySet<number> = new Set([
  FrameKind.CALL,
  FrameKind.RESULT,
  FrameKind.ERROR,
  FrameKind.STREAM_ITEM,
  FrameKind.STREAM_END,
]);

function messageOf(
  header: FrameHeader,
  bytes: Uint8Array,
  start: number,
  end: number,
  names: Map<number, string>,
): Message | undefined {
  const type = header.messageType;
  if (header.kind === FrameKind.CONTROL) return { type, id: 0n, payload: bytes.slice(start, end), tensors: [] };
  if (!MESSAGES.has(header.kind)) return undefined;
  const value = bytes.slice(start, valueEnd(header, end));
  const name = frameName(header, bytes, end);
  if (name !== undefined) names.set(header.fn, name);
  const incoming = frameTensors(header, bytes, end);
  if (incoming !== undefined && incoming.outOfBand().length > 0) throw new Error('a tensor of this test is too large');
  const tensors = incoming?.tensors() ?? [];
  // By its name in the frame, the arguments alone travel: the name and they are the message.
  const payload = header.kind === FrameKind.CALL && header.fn !== 0 ? callOf(names.get(header.fn) ?? '', value) : value;
  return { type: header.kind === FrameKind.ERROR ? MessageType.EXCEPTION : type, id: 0n, payload, tensors };
}

function callOf(name: string, args: Uint8Array): Uint8Array {
  const out = new ByteWriter();
  out.u8((1 << 3) | 2);
  out.string(name);
  out.u8((2 << 3) | 2);
  const mark = out.beginLength();
  out.raw(args);
  out.endLength(mark);
  return out.finish();
}

let agents: RpcAgent[] = [];
afterEach(async () => {
  await Promise.allSettled(agents.map((agent) => agent.shutdown({ graceful: false })));
  agents = [];
});

/** Everything is done; `sent` says when what the last departure brings about is on its way. */
async function everything(sent: () => boolean): Promise<void> {
  agents = await startGroup();
  const first = agents[0] as RpcAgent;
  await until(() => agents.every((agent) => agent.debugInfo()['agent.peers'] === 2));
  for (const [, step] of STEPS) await first.run(() => step(agents));
  await until(sent);
  await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000 })));
}

it(
  'every message of a live group is read by the unions and written to the same bytes',
  { timeout: 60_000 },
  async () => {
    const tap = new Tap();
    try {
      await everything(() => tap.seen.some(({ message: { type } }) => type === MessageType.FENCE_DONE));
    } finally {
      tap.end();
    }
    expect(tap.failures).toEqual([]);
    const kinds = new Map<string, number>();
    for (const { message, bytes } of tap.seen) {
      const again = throughUnions(message, kinds);
      const name = messageTypeName(message.type);
      expect(again.type, name).toBe(message.type);
      expect(Buffer.from(again.payload).equals(bytes), `${name}: ${Buffer.from(bytes).toString('hex')}`).toBe(true);
      expect(again.tensors, name).toHaveLength(message.tensors.length);
      again.tensors.forEach((tensor, i) => expect(tensor, name).toBe(message.tensors[i]));
    }
    const all = Object.keys(MessageType).map((name) => name.toLowerCase().replaceAll('_', '-'));
    const missing = all.filter((kind) => !kinds.has(kind)).map((kind) => kind.toUpperCase().replaceAll('-', '_'));
    // The view may say first that a worker has left: its goodbye comes to nobody then. Reports are told in doubt alone.
    expect(missing.filter((name) => name !== 'BYE' && name !== 'REPORT').sort()).toEqual(NEVER.sort());
    bufferPool.trim(0);
  },
);

/** Read as a command, whose kinds are counted, those inside too, and written again. */
function throughUnions(message: Message, kinds: Map<string, number>): Message {
  const count = (kind: string): void => void kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  if (!isResponse(message.type)) {
    const command = deserializeRequest(message);
    for (let inner: Command | undefined = command; inner !== undefined; inner = inner['wrapped'] as Command | undefined)
      count(inner.kind);
    return serializeRequest(command);
  }
  const { command, wraps } = deserializeResponse(message);
  for (const { kind } of [command, ...wraps]) count(kind);
  return serializeResponse(wraps[0] ?? command);
}

/** What faults may be told of. */
const types = Object.keys(MessageType).filter((name) => ![...NEVER, 'BYE', 'DRAIN', 'REPORT'].includes(name));
/** The types of which an agent notes this. */
function noting(what: string): { readonly fired: Set<string>; readonly logger: Logger } {
  const fired = new Set<string>();
  const quiet = (): void => undefined;
  const debug: Logger['debug'] = (fields, text) => {
    if (text === what) fired.add(String((fields as { type: unknown }).type));
  };
  return { fired, logger: { debug, info: quiet, warn: quiet, error: quiet } };
}

it(
  'every type that faults accept is held back when it is told to, and all goes well',
  { timeout: 120_000 },
  async () => {
    const { fired, logger } = noting('a send is held back on purpose');
    agents = await startGroup({ logger, faults: { delayMs: Object.fromEntries(types.map((type) => [type, 3])) } });
    const first = agents[0] as RpcAgent;
    await until(() => agents.every((agent) => agent.debugInfo()['agent.peers'] === 2));
    for (const [, step] of STEPS) await first.run(() => step(agents));
    await until(() => fired.has('FENCE_DONE'));
    await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000 })));
    expect([...fired].sort()).toEqual(types.toSorted());
  },
);

it(
  'every type that faults accept is sent by somebody, and fails when it is told to',
  { timeout: 120_000 },
  async () => {
    const { fired, logger } = noting('a send fails on purpose');
    agents = await startGroup({ logger, faults: { failFirst: Object.fromEntries(types.map((type) => [type, 1])) } });
    const first = agents[0] as RpcAgent;
    await until(() => agents.every((agent) => agent.debugInfo()['agent.peers'] === 2));
    for (const [name, step] of STEPS) {
      // Each failure is one of a call: the next try comes further.
      for (let tries = 0; ; tries++) {
        try {
          await first.run(() => step(agents));
          break;
        } catch (error) {
          if (tries > 3 * types.length) throw new Error(`'${name}' never comes to its end`, { cause: error });
        }
      }
    }
    await until(() => fired.has('FENCE_DONE'));
    await Promise.all(agents.map((agent) => agent.shutdown({ timeoutMs: 10_000 })));
    expect([...fired].sort()).toEqual(types.sort());
  },
);
