/**
 * @file The flat form: payload and tensors in one buffer of named sections, for places without out-of-band bytes.
 *
 *     name SP size LF   (one line a section, sizes decimal)
 *     LF
 *     sections, in the order of the lines
 *
 * Sections: `payload`, `meta` (a protobuf `TensorTable`), and the storages `0`, `1`, … as the table numbers them.
 */
import { type Tensor } from '@backwire/tensor';
import { buildTensors } from '../tensor/build.ts';
import { ByteWriter } from '../bytes/byte-writer.ts';
import { decodeError } from '../errors.ts';
import { DEFAULT_WIRE_LIMITS } from '../limits.ts';
import { checkTensorTable } from '../tensor/checks.ts';
import { readTensorTable, writeStorage, writeTensor } from '../tensor/table-codec.ts';
import { planTensors, wantsCopy } from '../tensor/plan.ts';

/** Characters of one line: a name and a size. */
const MAX_LINE = 256;
const LF = 0x0a;

/**
 * The payload and the tensors in one buffer. Small views of large storages are copied first (the re-copy rule); storages that tensors
 * share are written once.
 */
export function wireSerialize(payload: Uint8Array, tensors: readonly Tensor[]): Uint8Array {
  const plan = planTensors(tensors);
  try {
    const meta = new ByteWriter();
    for (const { bytes } of plan.storages) writeStorage(meta, { nbytes: bytes.length, placement: 'inline' });
    for (const tensor of plan.tensors) writeTensor(meta, tensor);
    const sections: [string, Uint8Array][] = [['payload', payload]];
    if (tensors.length > 0) sections.push(['meta', meta.written()]);
    plan.storages.forEach(({ bytes }, i) => sections.push([String(i), bytes]));
    return joinSections(sections);
  } finally {
    plan.release();
  }
}

function joinSections(sections: readonly (readonly [string, Uint8Array])[]): Uint8Array {
  const head = new TextEncoder().encode(`${sections.map(([name, bytes]) => `${name} ${bytes.length}\n`).join('')}\n`);
  const out = new Uint8Array(sections.reduce((total, [, bytes]) => total + bytes.length, head.length));
  out.set(head);
  let at = head.length;
  for (const [, bytes] of sections) {
    out.set(bytes, at);
    at += bytes.length;
  }
  return out;
}

/**
 * The sections of a flat message, as views of `bytes`.
 * @throws WireError 'decode-error' saying "failed parse" for a broken head, "failed bounds" for a section that is not all there.
 */
export function parseWireSections(bytes: Uint8Array): Map<string, Uint8Array> {
  const sizes: [string, number][] = [];
  let at = 0;
  for (;;) {
    const end = bytes.indexOf(LF, at);
    if (end < 0 || end - at > MAX_LINE) throw decodeError('failed parse: no end of line');
    if (end === at) break;
    sizes.push(parseLine(String.fromCharCode(...bytes.subarray(at, end))));
    at = end + 1;
    if (sizes.length > DEFAULT_WIRE_LIMITS.maxTensors + 2) throw decodeError('failed parse: too many sections');
  }
  at++;
  const sections = new Map<string, Uint8Array>();
  for (const [name, size] of sizes) {
    if (size > bytes.length - at) throw decodeError(`failed bounds: section '${name}' of ${size} bytes`);
    if (sections.has(name)) throw decodeError(`failed parse: two sections '${name}'`);
    sections.set(name, bytes.subarray(at, at + size));
    at += size;
  }
  if (at !== bytes.length) throw decodeError(`failed bounds: ${bytes.length - at} bytes after the last section`);
  return sections;
}

function parseLine(line: string): [string, number] {
  const match = /^([!-~]+) (\d{1,16})$/.exec(line);
  const size = Number(match?.[2]);
  if (match === null || !Number.isSafeInteger(size)) throw decodeError('failed parse: a line is no name and size');
  return [match[1] as string, size];
}

/**
 * Reads what `wireSerialize` wrote. The payload is a view of `bytes`; the tensors have memory of their own and are the caller's.
 * @throws WireError 'decode-error' ("failed parse", "failed bounds", or what is wrong with a tensor) or 'limit'.
 */
export function wireDeserialize(bytes: Uint8Array): { payload: Uint8Array; tensors: Tensor[] } {
  const sections = parseWireSections(bytes);
  const payload = sections.get('payload') ?? new Uint8Array(0);
  const meta = sections.get('meta');
  if (meta === undefined) return { payload, tensors: [] };
  const table = readTensorTable(meta, 0, meta.length);
  const views = table.storages.map(({ nbytes }, i) => {
    const section = sections.get(String(i));
    if (section?.length !== nbytes) throw decodeError(`failed bounds: storage ${i} of ${nbytes} bytes`);
    return section;
  });
  checkTensorTable(table);
  const memory = views.map((view) => new Uint8Array(view));
  return { payload, tensors: buildTensors(table.tensors, memory, () => ({})) };
}

/**
 * The re-copy rule on its own: tensors that view at most half of a storage of 8 KiB or more come back as copies (the caller's to
 * dispose), the others, sparse ones too, as the same handles.
 */
export function cloneSparseTensors(tensors: readonly Tensor[]): Tensor[] {
  return tensors.map((tensor) => {
    if (tensor.layout !== 'strided' || !wantsCopy(tensor)) return tensor;
    const handle = tensor.detach();
    const clone = handle.clone();
    handle.dispose();
    clone.requiresGrad = tensor.requiresGrad;
    return clone;
  });
}
