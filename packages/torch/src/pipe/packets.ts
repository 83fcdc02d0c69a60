/** @file The objects that TensorPipe's ends tell each other: packets, brochures, and the descriptor of a message. */
import { decodeError } from '@backwire/wire/internal';
import type { TorchLimits } from '../limits.ts';
import { NopReader } from '../nop/reader.ts';
import { NopWriter } from '../nop/writer.ts';

/** Where bytes lie: {type: 'cpu', index: 0}. */
export interface PipeDevice {
  readonly type: string;
  readonly index: number;
}

/** The first object on a connection: a new pipe, or one more connection that a listener asked for. */
export type Packet =
  | { readonly kind: 'spontaneous'; /** The dialler's name. */ readonly name: string }
  | { readonly kind: 'requested'; readonly registration: number };

/** What a dialler offers. */
export interface Brochure {
  /** Domain descriptor by transport: two ends can use a transport where these are equal. */
  readonly transports: ReadonlyMap<string, string>;
  /** Descriptor by device, by channel. */
  readonly channels: ReadonlyMap<string, ReadonlyMap<PipeDevice, string>>;
}

/** What a listener chose. */
export interface BrochureAnswer {
  readonly transport: string;
  /** Where further connections go. */
  readonly address: string;
  /** Registrations by use: 0 the descriptor connection, if the transport is another than that of the first connection; 1 for replies. */
  readonly registrations: ReadonlyMap<number, number>;
  readonly domain: string;
  /** Registrations of each channel's connections. */
  readonly channelRegistrations: ReadonlyMap<string, readonly number[]>;
  readonly channelDescriptors: ReadonlyMap<string, ReadonlyMap<PipeDevice, string>>;
  /** The channel of each pair of devices, the dialler's and the listener's. */
  readonly pairs: ReadonlyMap<readonly [PipeDevice, PipeDevice], string>;
}

/** A message without its bytes. */
export interface PipeDescriptor {
  readonly metadata: string;
  readonly payloads: readonly { readonly nbytes: number; readonly metadata: string }[];
  readonly tensors: readonly {
    readonly nbytes: number;
    readonly source: PipeDevice;
    readonly target: PipeDevice | undefined;
    readonly metadata: string;
  }[];
}

/** How a connection is used, in `registrations`. */
export const ConnectionUse = { DESCRIPTOR: 0, REPLY: 1 } as const;

export const CPU: PipeDevice = Object.freeze({ type: 'cpu', index: 0 });

function handshakeReader(bytes: Uint8Array, limits: TorchLimits): NopReader {
  return new NopReader(bytes, { maxEntries: limits.maxHandshakeEntries, maxStringBytes: limits.maxNameBytes });
}

export function readPacket(bytes: Uint8Array, limits: TorchLimits): Packet {
  const reader = handshakeReader(bytes, limits);
  const kind = reader.variant();
  reader.structure(1);
  const packet = packetOf(reader, kind);
  reader.end();
  return packet;
}

function packetOf(reader: NopReader, kind: number): Packet {
  if (kind === 0) return { kind: 'spontaneous', name: reader.string() };
  if (kind === 1) return { kind: 'requested', registration: reader.uint() };
  throw decodeError(`a packet of kind ${kind}`);
}

export function writePacket(packet: Packet): Uint8Array {
  const writer = new NopWriter();
  if (packet.kind === 'spontaneous') return writer.variant(0).structure(1).string(packet.name).finish();
  return writer.variant(1).structure(1).uint(packet.registration).finish();
}

export function readBrochure(bytes: Uint8Array, limits: TorchLimits): Brochure {
  const reader = handshakeReader(bytes, limits);
  reader.structure(2);
  const transports = reader.map(text(reader), text(reader));
  const channels = reader.map(text(reader), () => reader.map(deviceOf(reader), text(reader)));
  reader.end();
  return { transports, channels };
}

export function writeBrochure(brochure: Brochure): Uint8Array {
  const writer = new NopWriter();
  const string = (value: string): void => void writer.string(value);
  writer.structure(2).map(brochure.transports, string, string);
  writeDescriptors(writer, brochure.channels);
  return writer.finish();
}

export function readBrochureAnswer(bytes: Uint8Array, limits: TorchLimits): BrochureAnswer {
  const reader = handshakeReader(bytes, limits);
  const number = (): number => reader.uint();
  const device = deviceOf(reader);
  reader.structure(7);
  const transport = reader.string();
  const address = reader.string();
  const registrations = reader.map(number, number);
  const domain = reader.string();
  const channelRegistrations = reader.map(text(reader), () => reader.vector());
  const channelDescriptors = reader.map(text(reader), () => reader.map(device, text(reader)));
  const pairs = reader.map(() => reader.pair(device, device), text(reader));
  reader.end();
  return { transport, address, registrations, domain, channelRegistrations, channelDescriptors, pairs };
}

export function writeBrochureAnswer(answer: BrochureAnswer): Uint8Array {
  const writer = new NopWriter();
  const number = (value: number): void => void writer.uint(value);
  const string = (value: string): void => void writer.string(value);
  const vector = (values: readonly number[]): void => void writer.vector(values);
  writer.structure(7).string(answer.transport).string(answer.address).map(answer.registrations, number, number);
  writer.string(answer.domain).map(answer.channelRegistrations, string, vector);
  writeDescriptors(writer, answer.channelDescriptors);
  writer.map(
    answer.pairs,
    ([own, other]) => {
      writer.pair();
      writeDevice(writer, own);
      writeDevice(writer, other);
    },
    string,
  );
  return writer.finish();
}

export function readDescriptor(bytes: Uint8Array, limits: TorchLimits): PipeDescriptor {
  const reader = new NopReader(bytes, { maxEntries: limits.maxTensors, maxStringBytes: limits.maxNameBytes });
  const device = deviceOf(reader);
  reader.structure(3);
  const metadata = reader.string();
  const payloads = reader.array(() => {
    reader.structure(2);
    return { nbytes: reader.uint(), metadata: reader.string() };
  });
  const tensors = reader.array(() => {
    reader.structure(4);
    const nbytes = reader.uint();
    return { nbytes, source: device(), target: reader.optional(device), metadata: reader.string() };
  });
  reader.end();
  return { metadata, payloads, tensors };
}

/** The descriptor of a message with payloads and storages of these sizes, all of them on the cpu of both ends. */
export function writeDescriptor(payloads: readonly number[], storages: readonly number[]): Uint8Array {
  const writer = new NopWriter();
  writer.structure(3).string('');
  writer.array(payloads, (nbytes) => writer.structure(2).uint(nbytes).string(''));
  writer.array(storages, (nbytes) => {
    writer.structure(4).uint(nbytes);
    writeDevice(writer, CPU);
    writeDevice(writer, CPU);
    writer.string('');
  });
  return writer.finish();
}

function text(reader: NopReader): () => string {
  return () => reader.string();
}

function deviceOf(reader: NopReader): () => PipeDevice {
  return () => {
    reader.structure(2);
    return { type: reader.string(), index: reader.uint() };
  };
}

function writeDevice(writer: NopWriter, device: PipeDevice): void {
  writer.structure(2).string(device.type).uint(device.index);
}

function writeDescriptors(writer: NopWriter, channels: Brochure['channels']): void {
  writer.map(
    channels,
    (name) => writer.string(name),
    (devices) =>
      writer.map(
        devices,
        (device) => writeDevice(writer, device),
        (descriptor) => writer.string(descriptor),
      ),
  );
}
