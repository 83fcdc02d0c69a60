/** @file The protobuf wire format of `TensorTable`, written and read by hand: it is on the path of every call with a tensor. */
import { type Device } from '@backwire/tensor';
import { isDeviceName } from '@backwire/tensor/internal';
import { ByteReader } from '../bytes/byte-reader.ts';
import { type ByteWriter } from '../bytes/byte-writer.ts';
import { checkLimit, decodeError } from '../errors.ts';
import { DEFAULT_WIRE_LIMITS, type WireLimits } from '../limits.ts';
import {
  DTYPES,
  type SparseDescriptor,
  type StorageDescriptor,
  type TensorDescriptor,
  type TensorTable,
  contiguousStrides,
  dtypeNumbers,
} from './descriptor.ts';

/** Placements by their number. */
const PLACEMENTS = ['', 'inline', 'body', 'channel'] as const;

/** The type of device that travels as a number. */
const GPU = 'gpu:';
/** UTF-8 bytes of the name of one of another type. */
const MAX_DEVICE_NAME = 32;

/** Protobuf tags of the table's messages. */
const T = {
  STORAGE: (1 << 3) | 2,
  TENSOR: (2 << 3) | 2,
  S_BYTES: (1 << 3) | 0,
  S_PLACEMENT: (2 << 3) | 0,
  S_CHANNEL: (3 << 3) | 2,
  S_LOCATOR: (4 << 3) | 2,
  DTYPE: (1 << 3) | 0,
  SHAPE: (2 << 3) | 2,
  STRIDES: (3 << 3) | 2,
  OFFSET: (4 << 3) | 0,
  INDEX: (5 << 3) | 0,
  GRAD: (6 << 3) | 0,
  PARAMETER: (7 << 3) | 0,
  DEVICE: (8 << 3) | 0,
  DEVICE_NAME: (10 << 3) | 2,
  SPARSE: (9 << 3) | 2,
  P_INDICES: (1 << 3) | 2,
  P_VALUES: (2 << 3) | 2,
  P_COALESCED: (3 << 3) | 0,
} as const;

/** Writes one storage entry of the table. */
export function writeStorage(out: ByteWriter, storage: StorageDescriptor): void {
  out.u8(T.STORAGE);
  const mark = out.beginLength();
  out.u8(T.S_BYTES);
  out.varint53(storage.nbytes);
  out.u8(T.S_PLACEMENT);
  out.u8(PLACEMENTS.indexOf(storage.placement));
  if (storage.channel !== undefined) {
    out.u8(T.S_CHANNEL);
    out.string(storage.channel);
  }
  if (storage.locator !== undefined) {
    out.u8(T.S_LOCATOR);
    out.varint32(storage.locator.length);
    out.raw(storage.locator);
  }
  out.endLength(mark);
}

/** Writes one tensor entry of the table, or a nested tensor under another tag. */
export function writeTensor(out: ByteWriter, tensor: TensorDescriptor, tag: number = T.TENSOR): void {
  out.u8(tag);
  const mark = out.beginLength();
  out.u8(T.DTYPE);
  out.u8(dtypeNumbers.get(tensor.dtype) ?? 0);
  writePacked(out, T.SHAPE, tensor.shape);
  if (!isContiguous(tensor)) writePacked(out, T.STRIDES, tensor.strides);
  if (tensor.offset !== 0) {
    out.u8(T.OFFSET);
    out.varint53(tensor.offset);
  }
  if (tensor.storage > 0) {
    out.u8(T.INDEX);
    out.varint32(tensor.storage);
  }
  if (tensor.requiresGrad) out.pair(T.GRAD, 1);
  if (tensor.parameter === true) out.pair(T.PARAMETER, 1);
  if (tensor.device !== 'cpu') {
    const gpu = tensor.device.startsWith(GPU);
    out.u8(gpu ? T.DEVICE : T.DEVICE_NAME);
    if (gpu) out.varint32(Number(tensor.device.slice(GPU.length)) + 1);
    else out.string(tensor.device);
  }
  if (tensor.sparse !== undefined) {
    out.u8(T.SPARSE);
    const inner = out.beginLength();
    writeTensor(out, tensor.sparse.indices, T.P_INDICES);
    writeTensor(out, tensor.sparse.values, T.P_VALUES);
    if (tensor.sparse.coalesced) out.pair(T.P_COALESCED, 1);
    out.endLength(inner);
  }
  out.endLength(mark);
}

function writePacked(out: ByteWriter, tag: number, values: readonly number[]): void {
  if (values.length === 0) return;
  out.u8(tag);
  const mark = out.beginLength();
  for (let i = 0; i < values.length; i++) out.varint53(values[i] as number);
  out.endLength(mark);
}

/** Whether the strides are the row-major ones of the shape, which need not travel. */
function isContiguous(tensor: TensorDescriptor): boolean {
  let expected = 1;
  for (let i = tensor.shape.length - 1; i >= 0; i--) {
    if (tensor.strides[i] !== expected) return tensor.strides.length === 0;
    expected *= tensor.shape[i] as number;
  }
  return true;
}

/** Reads a table. Only its form is checked here; `checkTensorTable` checks what it says. Throws 'decode-error' or 'limit'. */
export function readTensorTable(
  bytes: Uint8Array,
  start: number,
  end: number,
  limits: WireLimits = DEFAULT_WIRE_LIMITS,
): TensorTable {
  const reader = tableReader;
  reader.reset(bytes, start, end);
  const storages: StorageDescriptor[] = [];
  const tensors: TensorDescriptor[] = [];
  while (reader.pos < reader.end) {
    const tag = reader.varint32();
    if (tag === T.STORAGE) {
      checkLimit('storages', storages.length + 1, limits.maxTensors);
      storages.push(readStorage(reader, limits));
    } else if (tag === T.TENSOR) {
      checkLimit('tensors', tensors.length + 1, limits.maxTensors);
      tensors.push(readTensor(reader, limits, false));
    } else reader.skip(tag & 7);
  }
  return { storages, tensors };
}

/** Reading a table is synchronous and calls nobody: one reader serves all. */
const tableReader = new ByteReader(new Uint8Array(0));

/** Narrows the reader to the nested message that begins here; returns where the outer one ends. */
function enter(reader: ByteReader): number {
  const outer = reader.end;
  const length = reader.length();
  reader.end = reader.pos + length;
  return outer;
}

function readStorage(reader: ByteReader, limits: WireLimits): StorageDescriptor {
  const outer = enter(reader);
  let nbytes = 0;
  let placement: StorageDescriptor['placement'] | undefined;
  let channel: string | undefined;
  let locator: Uint8Array | undefined;
  while (reader.pos < reader.end) {
    const tag = reader.varint32();
    if (tag === T.S_BYTES) nbytes = reader.varint53();
    else if (tag === T.S_PLACEMENT) placement = (PLACEMENTS[reader.varint32()] ?? '') || undefined;
    else if (tag === T.S_CHANNEL) {
      const length = reader.length();
      checkLimit('channel name', length, limits.maxNameBytes);
      channel = reader.utf8(length);
    } else if (tag === T.S_LOCATOR) {
      const view = reader.view8();
      checkLimit('locator', view.length, limits.maxNameBytes);
      locator = new Uint8Array(view);
    } else reader.skip(tag & 7);
  }
  reader.end = outer;
  if (placement === undefined) throw decodeError('a storage without a placement');
  if (placement === 'channel' && (channel === undefined || locator === undefined))
    throw decodeError('a channel storage without its locator');
  return {
    nbytes,
    placement,
    ...(channel === undefined ? {} : { channel }),
    ...(locator === undefined ? {} : { locator }),
  };
}

function readTensor(reader: ByteReader, limits: WireLimits, part: boolean): TensorDescriptor {
  const outer = enter(reader);
  let dtype = '';
  let shape: number[] = [];
  let strides: number[] | undefined;
  let offset = 0;
  let storage = 0;
  let requiresGrad = false;
  let parameter = false;
  let device: Device = 'cpu';
  let sparse: SparseDescriptor | undefined;
  while (reader.pos < reader.end) {
    const tag = reader.varint32();
    if (tag === T.DTYPE) dtype = DTYPES[reader.varint32()]?.[0] ?? '';
    else if (tag === T.SHAPE) shape = readPacked(reader, limits);
    else if (tag === T.STRIDES) strides = readPacked(reader, limits);
    else if (tag === T.OFFSET) offset = reader.varint53();
    else if (tag === T.INDEX) storage = reader.varint32();
    else if (tag === T.GRAD) requiresGrad = reader.varint32() !== 0;
    else if (tag === T.PARAMETER) parameter = reader.varint32() !== 0;
    else if (tag === T.DEVICE) device = deviceOf(reader.varint32());
    else if (tag === T.DEVICE_NAME) device = namedDevice(reader);
    else if (tag === T.SPARSE) {
      if (part) throw decodeError('a sparse tensor inside a sparse tensor');
      sparse = readSparse(reader, limits);
    } else reader.skip(tag & 7);
  }
  reader.end = outer;
  if (dtype === '') throw decodeError('a tensor of an unknown dtype');
  if (sparse !== undefined) {
    strides = [];
    offset = 0;
    storage = -1;
  }
  strides ??= contiguousStrides(shape);
  return { dtype, shape, strides, offset, storage, requiresGrad, device, parameter, sparse };
}

function readSparse(reader: ByteReader, limits: WireLimits): SparseDescriptor {
  const outer = enter(reader);
  let indices: TensorDescriptor | undefined;
  let values: TensorDescriptor | undefined;
  let coalesced = false;
  while (reader.pos < reader.end) {
    const tag = reader.varint32();
    if (tag === T.P_INDICES) indices = readTensor(reader, limits, true);
    else if (tag === T.P_VALUES) values = readTensor(reader, limits, true);
    else if (tag === T.P_COALESCED) coalesced = reader.varint32() !== 0;
    else reader.skip(tag & 7);
  }
  reader.end = outer;
  if (indices === undefined || values === undefined) throw decodeError('a sparse tensor without indices or values');
  return { indices, values, coalesced };
}

function readPacked(reader: ByteReader, limits: WireLimits): number[] {
  const end = reader.length() + reader.pos;
  const values: number[] = [];
  while (reader.pos < end) {
    checkLimit('rank', values.length + 1, limits.maxRank);
    values.push(reader.varint53());
  }
  if (reader.pos !== end) throw decodeError('packed numbers of a broken length');
  return values;
}

function deviceOf(number: number): Device {
  return number === 0 ? 'cpu' : `${GPU}${number - 1}`;
}

function namedDevice(reader: ByteReader): Device {
  const length = reader.length();
  checkLimit('device name', length, MAX_DEVICE_NAME);
  const name = reader.utf8(length);
  if (!isDeviceName(name)) throw decodeError(`'${name}' is no device`);
  return name;
}
