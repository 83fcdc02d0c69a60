/**
 * @file The bytes of wraps and pass messages of distributed autograd: varints, read with every length checked. They are on the path of every
 * call in a context, so they are no protobuf: no field has a tag, and a version stands before them.
 */
import { ByteReader } from '../bytes/byte-reader.ts';
import { ByteWriter } from '../bytes/byte-writer.ts';
import { decodeError } from '../errors.ts';
import {
  MAX_DEVICE_MAP,
  MAX_DISCOVERED,
  MAX_FAILED_NAMED,
  MAX_FAILURE_TEXT,
  MAX_GRADIENTS,
  MAX_PATH,
  MAX_PLAN,
  MAX_REACH,
  MAX_RETURNED,
} from '../limits.ts';

/** A context by its creator, in one of its lives, and the creator's 48-bit number. */
export interface ContextRef {
  readonly worker: number;
  readonly incarnation: number;
  readonly local: number;
}

/** One backward pass: the member that started it, and that member's counter. */
export interface PassRef {
  readonly worker: number;
  readonly incarnation: number;
  readonly n: number;
}

/** A receive function: where its gradients go. */
export interface FunctionRef {
  readonly to: number;
  readonly message: number;
}

/** How a pass failed. */
export interface PassFailure {
  /** The code of an RpcError, or empty when a function of the graph threw. */
  readonly code: string;
  /** The class that was thrown. */
  readonly name: string;
  readonly text: string;
  /** The worker it is about. */
  readonly peer?: { readonly id: number; readonly name: string } | undefined;
}

/** What a pass is told at its start. */
interface PassFlags {
  readonly retainGraph: boolean;
  readonly fast: boolean;
  /** All send functions that the roots reach, where they are known at the start. */
  readonly plan?: readonly FunctionRef[] | undefined;
  /** Earlier passes of the origin in this context that failed. */
  readonly failed: readonly number[];
}

/** What a wrapped message carries besides the message inside. */
export interface WrapMetadata {
  /** The type of the message inside. */
  readonly type: number;
  readonly context: ContextRef;
  /** The creator's oldest context alive, as far as the sender has heard. */
  readonly oldest: number;
  /** The sender's message id: its send function's, if it has one. */
  readonly message: number;
  /** The call that the wrap belongs to. */
  readonly path: readonly number[];
  /** Whether there is a send function: the message's tensors that require grad are its inputs, in order. */
  readonly graph: boolean;
  /** The send functions that its gradients come to beyond its own, if that is known. */
  readonly reach?: readonly FunctionRef[] | undefined;
  /** Passes of the context that the sender knows to have failed. */
  readonly failed?: readonly PassRef[] | undefined;
  /** What PyTorch's metadata says of the sender. Agents leave it out: the connection says who sends, and the view has the device maps. */
  readonly sender?: SenderMetadata | undefined;
}

export interface SenderMetadata {
  /** The worker in the upper bits of the message id. */
  readonly messageWorker: number;
  readonly worker: number;
  readonly deviceMap: readonly (readonly [from: string, to: string])[];
}

export interface DiscoverMessage {
  readonly context: ContextRef;
  readonly pass: PassRef;
  readonly options: PassFlags;
  readonly messages: readonly number[];
}

/** Gradients for one send function. */
export interface Returned {
  readonly message: number;
  /** For each gradient whether it is there; those that are travel as the message's tensors, in order. */
  readonly present: readonly boolean[];
}

export interface BackwardMessage extends Returned {
  readonly context: ContextRef;
  readonly pass: PassRef;
  readonly options: PassFlags;
  /** The worker in the upper bits of the message id. Agents leave it out: it is who gets the message. */
  readonly messageWorker?: number | undefined;
}

export interface OutcomeMessage {
  readonly failure: PassFailure | undefined;
  readonly back: readonly Returned[];
}

export interface AbortMessage {
  readonly context: ContextRef;
  readonly pass: PassRef;
  readonly failure: PassFailure;
}

/** The end of a context, or a request to be told of it. */
export interface ContextMessage {
  readonly context: ContextRef;
  readonly oldest: number;
}

const VERSION = 3;
/** What grew beyond is not kept. */
const MAX_SCRATCH_BYTES = 4_096;
const RETAIN = 1;
const FAST = 2;
const NAMES_WORKER = 4;
const GRAPH = 1;
const NAMES_SENDER = 2;
const NAMES_FAILED = 4;

export function encodeWrap(wrap: WrapMetadata): Uint8Array {
  const writer = begin();
  writer.varint32(wrap.type);
  writeContext(writer, wrap.context);
  writer.varint53(wrap.oldest);
  writer.varint53(wrap.message);
  const { graph, sender, failed } = wrap;
  writer.u8(
    (graph ? GRAPH : 0) | (sender === undefined ? 0 : NAMES_SENDER) | (failed === undefined ? 0 : NAMES_FAILED),
  );
  writer.varint32(wrap.path.length);
  for (const ordinal of wrap.path) writer.varint53(ordinal);
  writeTargets(writer, wrap.reach);
  if (sender !== undefined) writeSender(writer, sender);
  if (failed !== undefined) {
    writer.varint32(failed.length);
    for (const pass of failed) writePassId(writer, pass);
  }
  return writer.finish();
}

export function decodeWrap(bytes: Uint8Array): WrapMetadata {
  return whole(bytes, (reader) => {
    const type = reader.varint32();
    const context = readContext(reader);
    const oldest = reader.varint53();
    const message = reader.varint53();
    const flags = reader.varint32();
    const graph = (flags & GRAPH) !== 0;
    const path = readList(reader, MAX_PATH, 'a causal path');
    const reach = readTargets(reader, MAX_REACH);
    const sender = (flags & NAMES_SENDER) === 0 ? undefined : readSender(reader);
    const failed = (flags & NAMES_FAILED) === 0 ? undefined : readFailed(reader);
    return { type, context, oldest, message, graph, path, reach, sender, failed };
  });
}

function readFailed(reader: ByteReader): PassRef[] {
  const count = reader.varint32();
  if (count > MAX_FAILED_NAMED || 3 * count > reader.end - reader.pos)
    throw decodeError(`failed passes of ${count} entries`);
  return Array.from({ length: count }, () => readPassId(reader));
}

function writeSender(writer: ByteWriter, { messageWorker, worker, deviceMap }: SenderMetadata): void {
  writer.varint32(messageWorker);
  writer.varint32(worker);
  writer.varint32(deviceMap.length);
  for (const [from, to] of deviceMap) {
    writer.string(from);
    writer.string(to);
  }
}

function readSender(reader: ByteReader): SenderMetadata {
  const messageWorker = reader.varint32();
  const worker = reader.varint32();
  const count = reader.varint32();
  if (count > MAX_DEVICE_MAP || 2 * count > reader.end - reader.pos)
    throw decodeError(`a device map of ${count} entries`);
  const deviceMap: [string, string][] = [];
  for (let i = 0; i < count; i++) deviceMap.push([reader.utf8(reader.length()), reader.utf8(reader.length())]);
  return { messageWorker, worker, deviceMap };
}

export function encodeDiscover(message: DiscoverMessage): Uint8Array {
  const writer = begin();
  writePass(writer, message);
  writer.varint32(message.messages.length);
  for (const id of message.messages) writer.varint53(id);
  return writer.finish();
}

export function decodeDiscover(bytes: Uint8Array): DiscoverMessage {
  return whole(bytes, (reader) => {
    const { context, pass, options } = readPass(reader);
    return { context, pass, options, messages: readList(reader, MAX_DISCOVERED, 'a discovery') };
  });
}

export function encodeBackward(message: BackwardMessage): Uint8Array {
  const writer = begin();
  const { messageWorker } = message;
  writePass(writer, message, messageWorker === undefined ? 0 : NAMES_WORKER);
  writeReturned(writer, message);
  if (messageWorker !== undefined) writer.varint32(messageWorker);
  return writer.finish();
}

/** @param tensors how many tensors came with it. */
export function decodeBackward(bytes: Uint8Array, tensors: number): BackwardMessage {
  return whole(bytes, (reader) => {
    const { flags, context, pass, options } = readPass(reader);
    const { message, present } = readReturned(reader);
    if (countOf(present) !== tensors) throw unmatched();
    if ((flags & NAMES_WORKER) === 0) return { context, pass, options, message, present };
    return { context, pass, options, message, present, messageWorker: reader.varint32() };
  });
}

export function encodeAbort(message: AbortMessage): Uint8Array {
  const writer = begin();
  writeContext(writer, message.context);
  writePassId(writer, message.pass);
  writeFailure(writer, message.failure);
  return writer.finish();
}

export function decodeAbort(bytes: Uint8Array): AbortMessage {
  return whole(bytes, (reader) => ({
    context: readContext(reader),
    pass: readPassId(reader),
    failure: readFailure(reader),
  }));
}

/** The answer to a pass message: a failure, or gradients for whoever sent it, if any. */
export function encodeOutcome(failure: PassFailure | undefined, back: readonly Returned[] = []): Uint8Array {
  const writer = begin();
  writer.u8(failure === undefined ? 0 : 1);
  if (failure !== undefined) writeFailure(writer, failure);
  else {
    writer.varint32(back.length);
    for (const one of back) writeReturned(writer, one);
  }
  return writer.finish();
}

/** @param tensors how many tensors came with it. */
export function decodeOutcome(bytes: Uint8Array, tensors: number): OutcomeMessage {
  return whole(bytes, (reader) => {
    if (reader.varint32() !== 0) return { failure: readFailure(reader), back: [] };
    const count = reader.varint32();
    if (count > MAX_RETURNED) throw decodeError(`gradients of ${count} messages in one answer`);
    const back: Returned[] = [];
    for (let i = 0; i < count; i++) back.push(readReturned(reader));
    matches(back, tensors);
    return { failure: undefined, back };
  });
}

export function encodeContextMessage(message: ContextMessage): Uint8Array {
  const writer = begin();
  writeContext(writer, message.context);
  writer.varint53(message.oldest);
  return writer.finish();
}

export function decodeContextMessage(bytes: Uint8Array): ContextMessage {
  return whole(bytes, (reader) => ({ context: readContext(reader), oldest: reader.varint53() }));
}

/** Memory to encode in: every message leaves it as a copy before the next one begins. */
let scratch = new ByteWriter(MAX_SCRATCH_BYTES);

function begin(): ByteWriter {
  if (scratch.bytes.length > MAX_SCRATCH_BYTES) scratch = new ByteWriter(MAX_SCRATCH_BYTES);
  scratch.pos = 0;
  scratch.u8(VERSION);
  return scratch;
}

function whole<T>(bytes: Uint8Array, read: (reader: ByteReader) => T): T {
  const reader = new ByteReader(bytes);
  const version = reader.varint32();
  if (version !== VERSION) throw decodeError(`autograd metadata of version ${version}`);
  const value = read(reader);
  if (reader.pos !== reader.end) throw decodeError('autograd metadata is longer than it says');
  return value;
}

function writeContext(writer: ByteWriter, ref: ContextRef): void {
  writer.varint32(ref.worker);
  writer.varint53(ref.incarnation);
  writer.varint53(ref.local);
}

function readContext(reader: ByteReader): ContextRef {
  return { worker: reader.varint32(), incarnation: reader.varint53(), local: reader.varint53() };
}

function writePassId(writer: ByteWriter, pass: PassRef): void {
  writer.varint32(pass.worker);
  writer.varint53(pass.incarnation);
  writer.varint53(pass.n);
}

function readPassId(reader: ByteReader): PassRef {
  return { worker: reader.varint32(), incarnation: reader.varint53(), n: reader.varint53() };
}

function writePass(
  writer: ByteWriter,
  head: { context: ContextRef; pass: PassRef; options: PassFlags },
  more = 0,
): void {
  writeContext(writer, head.context);
  writePassId(writer, head.pass);
  writer.u8((head.options.retainGraph ? RETAIN : 0) | (head.options.fast ? FAST : 0) | more);
  writer.varint32(head.options.failed.length);
  for (const n of head.options.failed) writer.varint53(n);
  writeTargets(writer, head.options.plan);
}

function readPass(reader: ByteReader): { context: ContextRef; pass: PassRef; options: PassFlags; flags: number } {
  const context = readContext(reader);
  const pass = readPassId(reader);
  const flags = reader.varint32();
  const failed = readList(reader, MAX_FAILED_NAMED, 'failed passes');
  const plan = readTargets(reader, MAX_PLAN);
  const options = { retainGraph: (flags & RETAIN) !== 0, fast: (flags & FAST) !== 0, failed, plan };
  return { context, pass, options, flags };
}

/** Their number and one more, or zero for none known; then worker and message of each. */
function writeTargets(writer: ByteWriter, targets: readonly FunctionRef[] | undefined): void {
  writer.varint32(targets === undefined ? 0 : targets.length + 1);
  for (const { to, message } of targets ?? []) {
    writer.varint32(to);
    writer.varint53(message);
  }
}

function readTargets(reader: ByteReader, limit: number): FunctionRef[] | undefined {
  const count = reader.varint32() - 1;
  if (count < 0) return undefined;
  if (count > limit || 2 * count > reader.end - reader.pos) throw decodeError(`send functions, ${count} of them`);
  const targets: FunctionRef[] = [];
  for (let i = 0; i < count; i++) targets.push({ to: reader.varint32(), message: reader.varint53() });
  return targets;
}

function writeReturned(writer: ByteWriter, { message, present }: Returned): void {
  writer.varint53(message);
  writer.varint32(present.length);
  for (const there of present) writer.u8(there ? 1 : 0);
}

function readReturned(reader: ByteReader): Returned {
  const message = reader.varint53();
  const flags = readList(reader, MAX_GRADIENTS, 'gradients');
  const present: boolean[] = [];
  for (const flag of flags) present.push(flag === 1);
  return { message, present };
}

function matches(gradients: readonly Returned[], tensors: number): void {
  let there = 0;
  for (const { present } of gradients) there += countOf(present);
  if (there !== tensors) throw unmatched();
}

function countOf(present: readonly boolean[]): number {
  let there = 0;
  for (const flag of present) if (flag) there++;
  return there;
}

function unmatched(): Error {
  return decodeError('gradients do not match their tensors');
}

function writeFailure(writer: ByteWriter, failure: PassFailure): void {
  writer.string(failure.code.slice(0, 64));
  writer.string(failure.name.slice(0, 256));
  writer.string(failure.text.slice(0, MAX_FAILURE_TEXT));
  writer.varint32(failure.peer === undefined ? 0 : failure.peer.id + 1);
  writer.string((failure.peer?.name ?? '').slice(0, 256));
}

function readFailure(reader: ByteReader): PassFailure {
  const code = reader.utf8(reader.length());
  const name = reader.utf8(reader.length());
  const text = reader.utf8(reader.length());
  const peer = reader.varint32();
  const peerName = reader.utf8(reader.length());
  return { code, name, text, peer: peer === 0 ? undefined : { id: peer - 1, name: peerName } };
}

/** Numbers of one byte or more each, so the length is checked against what is there before anything is allocated. */
function readList(reader: ByteReader, limit: number, what: string): number[] {
  const count = reader.varint32();
  if (count > limit || count > reader.end - reader.pos) throw decodeError(`${what} of ${count} entries`);
  const list: number[] = [];
  for (let i = 0; i < count; i++) list.push(reader.varint53());
  return list;
}
