/** @file Writes and reads tensors as a safetensors file, which Python, Rust and the browser read too. */
import type { DType, Tensor } from '@backwire/tensor';
import { fromBytes } from '@backwire/tensor';

const NAMES = {
  float32: 'F32',
  float64: 'F64',
  float16: 'F16',
  bfloat16: 'BF16',
  int64: 'I64',
  int32: 'I32',
  int16: 'I16',
  int8: 'I8',
  uint8: 'U8',
  bool: 'BOOL',
} as const satisfies Partial<Record<DType, string>>;

/** The bytes of a file that holds `tensors` under their names, little-endian. */
export async function toSafetensors(tensors: Iterable<readonly [string, Tensor]>): Promise<Uint8Array> {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  const parts: Uint8Array[] = [];
  let offset = 0;
  for (const [name, tensor] of tensors) {
    const dtype = (NAMES as Partial<Record<DType, string>>)[tensor.dtype];
    if (dtype === undefined) throw new TypeError(`safetensors has no dtype ${tensor.dtype} (tensor '${name}')`);
    const values = await tensor.data();
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    header[name] = { dtype, shape: tensor.shape, data_offsets: [offset, offset + bytes.length] };
    parts.push(bytes);
    offset += bytes.length;
  }
  const text = JSON.stringify(header);
  // The data begins at a multiple of eight.
  const json = new TextEncoder().encode(text.padEnd(Math.ceil(text.length / 8) * 8));
  const file = new Uint8Array(8 + json.length + offset);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.length), true);
  file.set(json, 8);
  let at = 8 + json.length;
  for (const part of parts) {
    file.set(part, at);
    at += part.length;
  }
  return file;
}

/** The tensors of a file by name. @throws SyntaxError or RangeError for bytes that are not such a file. */
export function fromSafetensors(file: Uint8Array): Map<string, Tensor> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const headerBytes = Number(view.getBigUint64(0, true));
  if (headerBytes > file.length - 8) throw new RangeError('the header is longer than the file');
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + headerBytes))) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const dtypes = new Map(Object.entries(NAMES).map(([dtype, name]) => [name as string, dtype as DType]));
  const tensors = new Map<string, Tensor>();
  for (const [
    name,
    {
      dtype,
      shape,
      data_offsets: [start, end],
    },
  ] of Object.entries(header).filter(([key]) => key !== '__metadata__')) {
    const known = dtypes.get(dtype);
    if (known === undefined) throw new SyntaxError(`tensor '${name}' has the unknown dtype ${dtype}`);
    tensors.set(name, fromBytes(file.slice(8 + headerBytes + start, 8 + headerBytes + end), shape, known));
  }
  return tensors;
}
