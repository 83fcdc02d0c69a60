/** @file The safetensors format: named tensors in one file, shared with PyTorch (https://github.com/huggingface/safetensors). */
import { dtypes, type DType } from './dtype.ts';
import { DTypeError, ShapeError, TensorError } from './errors.ts';
import { over, readBytes, zerosAndOnes } from './host.ts';
import { limits } from './limits.ts';
import { checkGivenOptions, kindOf } from './given.ts';
import { checkShape, sizeOf } from './shape.ts';
import { storageFromBytes } from './storage.ts';
import { Tensor } from './tensor.ts';

const NAMES: Readonly<Record<DType, string>> = {
  float64: 'F64',
  float32: 'F32',
  float16: 'F16',
  bfloat16: 'BF16',
  int64: 'I64',
  int32: 'I32',
  int16: 'I16',
  int8: 'I8',
  uint8: 'U8',
  bool: 'BOOL',
  complex64: 'C64',
};
const DTYPES = new Map(Object.entries(NAMES).map(([dtype, name]) => [name, dtype as DType]));
/** What the format has beside them. */
const OTHERS: ReadonlySet<string> = new Set(
  'U16 U32 U64 F4 F6_E2M3 F6_E3M2 F8_E4M3 F8_E4M3FNUZ F8_E5M2 F8_E5M2FNUZ F8_E8M0'.split(' '),
);

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/**
 * The bytes of a safetensors file with the given tensors, in the order of their alignment as the reference writer lays them out.
 * @param tensors by name
 * @param metadata strings by name
 * @throws TypeError for what is no tensor, and for metadata that are no texts.
 * @example
 * ```ts
 * const model = new nn.Linear(2, 1);
 * const bytes = saveSafetensors(model.stateDict(), { epoch: '3' });
 *
 * const { tensors, metadata } = loadSafetensors(bytes);
 * model.loadStateDict(tensors);
 * console.log(tensors.get('weight')?.shape, metadata.epoch); // [ 1, 2 ] 3
 * ```
 */
export function saveSafetensors(
  tensors: ReadonlyMap<string, Tensor>,
  metadata?: Readonly<Record<string, string>>,
): Uint8Array {
  const given: unknown = tensors;
  if (!(given instanceof Map))
    throw new TypeError(
      `saveSafetensors() takes a Map of tensors, as stateDict() gives, and returns bytes; got ${kindOf(given)}`,
    );
  for (const [name, t] of tensors as ReadonlyMap<string, unknown>)
    if (!(t instanceof Tensor)) throw new TypeError(`saveSafetensors(): '${name}' is ${kindOf(t)} instead of a tensor`);
  if (metadata !== undefined) checkGivenOptions('saveSafetensors(), metadata', metadata);
  for (const [name, text] of Object.entries<unknown>(metadata ?? {}))
    if (typeof text !== 'string')
      throw new TypeError(`saveSafetensors(): metadata are texts, but '${name}' is ${kindOf(text)}: write String(…)`);
  const width = (t: Tensor): number => dtypes[t.dtype].bytes;
  const order = [...tensors].sort(([a, t], [b, u]) => width(u) - width(t) || (a < b ? -1 : 1));
  const header: [string, unknown][] = metadata === undefined ? [] : [['__metadata__', metadata]];
  let at = 0;
  for (const [name, t] of order) {
    const dtype = NAMES[t.dtype];
    if (name === '__metadata__') throw new TensorError("a tensor may not be named '__metadata__'");
    const size = t.size * width(t);
    header.push([name, { dtype, shape: t.shape, data_offsets: [at, at + size] }]);
    at += size;
  }
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(header)));
  // Spaces pad the header so that the data start at a multiple of eight.
  const start = 8 + Math.ceil(json.length / 8) * 8;
  const out = new Uint8Array(start + at).fill(0x20, 8, start);
  new DataView(out.buffer).setBigUint64(0, BigInt(start - 8), true);
  out.set(json, 8);
  let to = start;
  for (const [, t] of order) {
    const bytes = readBytes(t.sparse === undefined ? t : t.toDense());
    out.set(bytes, to);
    to += bytes.length;
  }
  return out;
}

/**
 * The tensors in a safetensors file, as views of `bytes` where alignment allows, and its metadata. Everything is checked before it is
 * used.
 * @param bytes the whole file
 * @throws TensorError for a file that is not well formed; DTypeError for tensors of a dtype that there is none of here, such as F8_E4M3.
 * @example
 * ```ts
 * const bytes = saveSafetensors(new Map([['w', tensor([1, 2])]])); // or await readFile('model.safetensors')
 * console.log(loadSafetensors(bytes).tensors.get('w')?.toArray()); // [ 1, 2 ]
 * ```
 */
export function loadSafetensors(bytes: Uint8Array): { tensors: Map<string, Tensor>; metadata: Record<string, string> } {
  if (!(bytes instanceof Uint8Array))
    throw new TypeError(`loadSafetensors() takes the bytes of a file, as readFile() gives; got ${kindOf(bytes)}`);
  const { header, data } = readHeader(bytes);
  const tensors = new Map<string, Tensor>();
  let metadata: Record<string, string> = {};
  const spans: (readonly [number, number])[] = [];
  for (const [name, value] of Object.entries(header)) {
    if (name === '__metadata__') {
      metadata = readMetadata(value);
      continue;
    }
    const { dtype, shape, span } = readEntry(name, value, data.length);
    spans.push(span);
    const part = data.subarray(...span);
    const aligned = part.byteOffset % Math.min(8, dtypes[dtype].bytes) === 0 ? part : new Uint8Array(part);
    const storage = storageFromBytes(dtype === 'bool' ? zerosAndOnes(aligned) : aligned);
    storage.escaped = true;
    tensors.set(name, over(storage, dtype, shape));
  }
  checkSpans(spans, data.length);
  return { tensors, metadata };
}

/** Of what a file says, in a message. */
const MAX_SHOWN = 40;

const malformed = (what: string): TensorError => new TensorError(`not a safetensors file: ${what}`);

function readHeader(bytes: Uint8Array): { header: Record<string, unknown>; data: Uint8Array } {
  if (bytes.length < 8) throw malformed('shorter than its length field');
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
  if (length > BigInt(limits.safetensorsHeaderBytes) || length > BigInt(bytes.length - 8))
    throw malformed(`a header of ${length} bytes`);
  const end = 8 + Number(length);
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(8, end)));
  } catch (cause) {
    throw new TensorError('not a safetensors file: the header is not JSON', { cause });
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header))
    throw malformed('the header is not an object');
  return { header: header as Record<string, unknown>, data: bytes.subarray(end) };
}

function readMetadata(value: unknown): Record<string, string> {
  if (value === null) return {};
  const entries: [string, unknown][] | undefined =
    typeof value === 'object' && !Array.isArray(value) ? Object.entries(value) : undefined;
  if (entries === undefined) throw malformed('the metadata are not an object');
  if (entries.some(([, v]) => typeof v !== 'string')) throw malformed('metadata are not strings');
  return Object.fromEntries(entries) as Record<string, string>;
}

function readEntry(
  name: string,
  value: unknown,
  available: number,
): { dtype: DType; shape: number[]; span: [number, number] } {
  const { dtype: tag, shape, data_offsets: span } = (value ?? {}) as Partial<Entry>;
  const dtype = typeof tag === 'string' ? DTYPES.get(tag) : undefined;
  // What is neither number nor text may have no text of its own, or a very deep one: it is not asked for it.
  if (typeof tag === 'string' && OTHERS.has(tag))
    throw new DTypeError(`tensor '${name}' is ${tag} in the safetensors file, a dtype that there is none of here`);
  if (dtype === undefined)
    throw malformed(`tensor '${name}' has dtype ${typeof tag === 'string' ? tag.slice(0, MAX_SHOWN) : typeof tag}`);
  if (!isNumbers(shape) || !isNumbers(span) || span.length !== 2)
    throw malformed(`tensor '${name}' has no shape or offsets`);
  try {
    checkShape(shape);
  } catch (cause) {
    throw cause instanceof ShapeError ? malformed(`tensor '${name}': ${cause.message}`) : cause;
  }
  const [from, to] = span;
  const sound = Number.isSafeInteger(from) && Number.isSafeInteger(to) && from >= 0 && to <= available;
  if (!sound || to - from !== sizeOf(shape) * dtypes[dtype].bytes)
    throw malformed(`tensor '${name}' has offsets [${from}, ${to}]`);
  return { dtype, shape: [...shape], span: [from, to] };
}

function isNumbers(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'number');
}

/** The format wants every byte to belong to exactly one tensor. */
function checkSpans(spans: (readonly [number, number])[], length: number): void {
  let at = 0;
  for (const [from, to] of spans.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    if (from !== at) throw malformed(`a gap or an overlap at byte ${at}`);
    at = to;
  }
  if (at !== length) throw malformed(`${length - at} bytes belong to no tensor`);
}
