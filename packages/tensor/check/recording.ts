/**
 * @file Programs with what PyTorch answered, small enough to keep: large tensors as samples, and by how much each element may be off
 * as a power of two, so that they can be compared where PyTorch is not.
 */
import { gunzipSync, gzipSync } from 'node:zlib';
import { pack, unpack } from '@backwire/testing';
import { compareRefusals, roomOf, type Difference } from './compare.ts';
import { elements, isDifferentiable } from './dtypes.ts';
import {
  isTensor,
  lineOf,
  type Conditioning,
  type Outcome,
  type Refusal,
  type Seen,
  type SeenTensor,
} from './outcome.ts';
import { isInput, type Program } from './program.ts';
import { quickRoom } from './tolerance.ts';

/** A tensor as kept: every `step`th element. */
interface KeptTensor extends SeenTensor {
  readonly step: number;
  /** The power of two each element may be off by, Int16; absent where a few units in the last place will do. */
  readonly room?: Uint8Array | undefined;
}

export interface Recorded {
  readonly program: Program;
  readonly refusal?: Refusal | undefined;
  readonly seen: Readonly<Record<string, Seen | KeptTensor>>;
}

export interface Recording {
  readonly torch: string;
  readonly cases: readonly Recorded[];
}

/** Tensors of more elements are sampled. */
const WHOLE = 96;

export function pressed(recording: Recording): Uint8Array {
  return gzipSync(pack(recording), { level: 9 });
}

export function unpressed(bytes: Uint8Array): Recording {
  return unpack(gunzipSync(bytes)) as Recording;
}

/** What is kept of an outcome. */
export function keep(program: Program, { refusal, seen }: Outcome, { exact }: Conditioning): Recorded {
  const kept = Object.entries(seen).flatMap(([path, one]): [string, Seen | KeptTensor][] => {
    if (!isTensor(one)) return [[path, one]];
    // Inputs that nobody wrote to are in the program.
    if (isUnchanged(program, path, one)) return [];
    return [[path, keepTensor(one, exact[path])]];
  });
  return { program, refusal, seen: Object.fromEntries(kept) };
}

function isUnchanged({ lines }: Program, path: string, seen: SeenTensor): boolean {
  const line = lines[Number(path)];
  if (line === undefined || !isInput(line) || line.requiresGrad !== seen.requiresGrad) return false;
  return line.data === undefined || Buffer.compare(new Uint8Array(line.data), new Uint8Array(seen.data)) === 0;
}

function widthOf({ data, shape }: SeenTensor): number {
  return (
    data.length /
    Math.max(
      1,
      shape.reduce((a, b) => a * b, 1),
    )
  );
}

/** Every `step`th item of `width` bytes. */
function every(bytes: Uint8Array, step: number, width: number): Uint8Array {
  if (step === 1) return bytes;
  const out: number[] = [];
  for (let at = 0; at < bytes.length; at += step * width) for (let k = 0; k < width; k++) out.push(bytes[at + k] ?? 0);
  return Uint8Array.from(out);
}

function keepTensor(seen: SeenTensor, judged: Conditioning['exact'][string] | undefined): KeptTensor {
  const size = seen.shape.reduce((a, b) => a * b, 1);
  const step = size > WHOLE ? Math.ceil(size / WHOLE) : 1;
  const width = widthOf(seen);
  const data = every(seen.data, step, width);
  if (judged === undefined || !isDifferentiable(seen.dtype)) return { ...seen, data, step };
  const values = elements(seen.data, seen.dtype);
  const room = roomOf(values, seen.dtype, judged);
  const powers = Int16Array.from({ length: values.length }, (_, i) => {
    const { exact, allowed } = room(i);
    const off = allowed + Math.abs(exact - Number(values[i]));
    return off <= quickRoom(seen.dtype, Number(values[i])) || !Number.isFinite(off)
      ? -32_768
      : Math.ceil(Math.log2(off));
  });
  if (powers.every((power) => power === -32_768)) return { ...seen, data, step };
  const lanes = seen.dtype === 'complex64' ? 2 : 1;
  return { ...seen, data, step, room: every(new Uint8Array(powers.buffer), step, 2 * lanes) };
}

/** Where an outcome differs from a recorded one. */
export function compareRecorded(ours: Outcome, recorded: Recorded): Difference | undefined {
  const torchs: Outcome = { refusal: recorded.refusal, seen: {} };
  const refusal = compareRefusals(ours, torchs);
  if (refusal !== undefined) return refusal;
  for (const [path, wanted] of Object.entries(recorded.seen)) {
    const found = ours.seen[path];
    const line = lineOf(path);
    const is = (a = 'nothing of that name', b = 'nothing of that name'): Difference => ({
      kind: 'value',
      path,
      line,
      ours: a,
      torchs: b,
    });
    if (!isTensor(wanted)) {
      if (JSON.stringify(found) !== JSON.stringify(wanted)) return is(JSON.stringify(found), JSON.stringify(wanted));
      continue;
    }
    if (!isTensor(found)) return is('no tensor', 'a tensor');
    const heads = [found, wanted].map(
      ({ dtype, shape, requiresGrad, sparse }) => `${dtype} [${shape.join(', ')}] ${requiresGrad} ${sparse}`,
    );
    if (heads[0] !== heads[1]) return is(heads[0], heads[1]);
    const wrong = wrongElement(found, wanted as KeptTensor);
    if (wrong !== undefined) return is(wrong[0], wrong[1]);
  }
  return undefined;
}

function wrongElement(found: SeenTensor, { dtype, data, step, room }: KeptTensor): [string, string] | undefined {
  const a = elements(every(found.data, step, widthOf(found)), dtype);
  const b = elements(data, dtype);
  const powers = room === undefined ? undefined : new Int16Array(new Uint8Array(room).buffer);
  for (let i = 0; i < b.length; i++) {
    const [x, y] = [Number(a[i]), Number(b[i])];
    if (a[i] === b[i] || (x !== x && y !== y)) continue;
    const power = powers?.[i] ?? -32_768;
    const off = power === -32_768 ? quickRoom(dtype, y) : 2 ** power;
    if (!isDifferentiable(dtype) || !(Math.abs(x - y) <= off))
      return [`element ${i * step}: ${String(a[i])}`, String(b[i])];
  }
  return undefined;
}
