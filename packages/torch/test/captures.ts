/** @file The captured messages of a stock torch group, for tests. */
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { MessageType } from '@backwire/wire/internal';

/** One message: bytes as they were on the wire. */
export interface CapturedMessage {
  /** 'udf.json / udf / 0' */
  readonly title: string;
  readonly from: string;
  readonly to: string;
  readonly type: number;
  readonly id: number;
  readonly body: Uint8Array;
  readonly table: Uint8Array;
  readonly storages: readonly Uint8Array[];
  readonly descriptor: Uint8Array;
}

export interface Capture {
  readonly file: string;
  readonly name: string;
  readonly program: string;
  readonly error?: string;
  readonly messages: readonly CapturedMessage[];
}

type Long = { readonly length: number; readonly first: string; readonly sha256: string };
type Row = readonly [
  string,
  string,
  keyof typeof MessageType,
  number,
  string,
  string | null,
  readonly (string | Long)[],
  string,
];

interface Document {
  readonly captures: readonly (Omit<Capture, 'file' | 'messages'> & { readonly messages?: readonly Row[] })[];
}

const folder = new URL('../golden/captures/', import.meta.url);

/** The table of a message without tensors. */
const EMPTY_TABLE = Uint8Array.from(
  Buffer.from('\x80\x02ctorch.jit._pickle\nbuild_tensorlist\nq\x00(](etR.', 'latin1'),
);

/** One document of captures, as it is. */
export function document(file: string): unknown {
  return JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as unknown;
}

/** All captured messages, by program. */
export function captures(): Capture[] {
  return readdirSync(folder)
    .sort()
    .flatMap((file) => {
      const { captures } = document(file) as Document;
      return captures.map(({ messages = [], ...capture }) => ({
        ...capture,
        file,
        messages: messages.map((row, i) => messageOf(`${file} / ${capture.name} / ${i}`, row)),
      }));
    });
}

function messageOf(title: string, row: Row): CapturedMessage {
  const [from, to, type, id, body, table, storages, descriptor] = row;
  return {
    title,
    from,
    to,
    type: MessageType[type],
    id,
    body: bytesOf(body),
    table: table === null ? EMPTY_TABLE : bytesOf(table),
    storages: storages.map((storage) => (typeof storage === 'string' ? bytesOf(storage) : long(storage))),
    descriptor: bytesOf(descriptor),
  };
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.from(text, 'base64'));
}

/** Long storages are float32 that count up. */
function long({ length, first, sha256 }: Long): Uint8Array {
  const start = new Float32Array(bytesOf(first).buffer)[0] as number;
  const content = new Uint8Array(Float32Array.from({ length: length / 4 }, (_, i) => start + i).buffer);
  if (createHash('sha256').update(content).digest('hex') !== sha256)
    throw new Error('a long storage that does not count up');
  return content;
}

interface Handshake {
  readonly captures: readonly { readonly frames: readonly { readonly direction: string; readonly hex: string }[] }[];
}

/** The records of two handshakes: one where torch was told to use uv and basic, and one as it is by itself. */
export const handshakes = (document('handshake.json') as Handshake).captures.map(({ frames }) =>
  frames.map(({ hex }) => Uint8Array.from(Buffer.from(hex, 'hex'))),
) as [Uint8Array[], Uint8Array[]];
