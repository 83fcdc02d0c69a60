/** @file Where an outcome differs from PyTorch's. */
import type { DType } from '../src/index.ts';
import { EPSILON, elements, isDifferentiable } from './dtypes.ts';
import { isTensor, lineOf, type Conditioning, type Outcome, type Seen, type SeenTensor } from './outcome.ts';
import { MOVEMENTS, OWN_ERRORS, plainRoom, quickRoom, tiniest, units } from './tolerance.ts';

type Kind =
  | 'value'
  | 'gradient'
  | 'dtype'
  | 'shape'
  | 'requiresGrad'
  | 'layout'
  | 'missing'
  | 'accepts'
  | 'refuses'
  | 'message'
  | 'hang';

export interface Difference {
  readonly kind: Kind;
  /** Where it shows: a path of the outcome, or the line that one side refused. */
  readonly path: string;
  readonly line: number;
  readonly ours: string;
  readonly torchs: string;
}

/** Words of an error that tell its reader nothing, or that come from the language instead of the library. */
const BAD_MESSAGE =
  /undefined|\[, |, ,|\bNaN\b dims|Invalid typed array|Invalid array length|Invalid array buffer|Cannot mix BigInt|Cannot convert|is not a function|is not iterable|Cannot read propert|out of bounds of|offset is out|Maximum call stack|out of memory|memory access|Aborted|setStorage|stack overflow/i;
const ERRORS = /^(TensorError|ShapeError|DTypeError|AutogradError|RangeError|TypeError)$/;

/** All differences, in the order of lines; without a conditioning only what a quick look lets pass is equal. */
export function compare(ours: Outcome, torchs: Outcome, conditioning?: Conditioning): Difference[] {
  const refusal = compareRefusals(ours, torchs);
  const stop = Math.min(ours.refusal?.at ?? Infinity, torchs.refusal?.at ?? Infinity);
  const found: Difference[] = [];
  if (refusal === undefined || refusal.kind === 'message') {
    const paths = new Set([...Object.keys(torchs.seen), ...Object.keys(ours.seen)]);
    for (const path of paths) {
      if (lineOf(path) >= stop) continue;
      // A backward pass that fails has reached some leaves, which ones is open.
      if (stop < Infinity && path.endsWith('.grad')) continue;
      const one = compareSeen(path, ours.seen[path], torchs.seen[path], conditioning);
      if (one !== undefined) found.push(one);
    }
    found.sort((a, b) => a.line - b.line);
  }
  return refusal === undefined ? found : [...found, refusal];
}

export function compareRefusals(ours: Outcome, torchs: Outcome): Difference | undefined {
  const [a, b] = [ours.refusal, torchs.refusal];
  const show = (r: Outcome['refusal']): string => (r === undefined ? 'answers' : `${r.name}: ${r.message}`);
  const at = (line: number, kind: Kind): Difference => ({
    kind,
    path: String(line),
    line,
    ours: show(a),
    torchs: show(b),
  });
  if (a?.name === 'Hang') return at(0, 'hang');
  if (a !== undefined && (b === undefined || a.at < b.at)) return at(a.at, 'refuses');
  if (b !== undefined && (a === undefined || b.at < a.at)) return at(b.at, 'accepts');
  if (a !== undefined && (BAD_MESSAGE.test(a.message) || !ERRORS.test(a.name))) return at(a.at, 'message');
  return undefined;
}

function compareSeen(
  path: string,
  ours: Seen | undefined,
  torchs: Seen | undefined,
  conditioning?: Conditioning,
): Difference | undefined {
  const is = (kind: Kind, a: string, b: string): Difference => ({ kind, path, line: lineOf(path), ours: a, torchs: b });
  if (ours === undefined || torchs === undefined) return is('missing', show(ours), show(torchs));
  if (!isTensor(ours) || !isTensor(torchs)) {
    if (samePlain(ours, torchs)) return undefined;
    return is(path.includes('grad') ? 'gradient' : 'value', show(ours), show(torchs));
  }
  if (ours.dtype !== torchs.dtype) return is('dtype', ours.dtype, torchs.dtype);
  if (String(ours.shape) !== String(torchs.shape))
    return is('shape', `[${ours.shape.join(', ')}]`, `[${torchs.shape.join(', ')}]`);
  const wrong = firstWrong(ours, torchs, conditioning?.exact[path]);
  if (wrong !== undefined) return is(path.includes('grad') ? 'gradient' : 'value', wrong.ours, wrong.torchs);
  if (ours.sparse !== torchs.sparse) return is('layout', String(ours.sparse), String(torchs.sparse));
  if (ours.requiresGrad !== torchs.requiresGrad)
    return is('requiresGrad', String(ours.requiresGrad), String(torchs.requiresGrad));
  return undefined;
}

function samePlain(ours: Seen, torchs: Seen): boolean {
  if ('nothing' in ours || 'nothing' in torchs) return 'nothing' in ours && 'nothing' in torchs;
  if (!('plain' in ours) || !('plain' in torchs)) return false;
  const [a, b] = [ours.plain, torchs.plain];
  if (typeof a === 'string' || typeof b === 'string') return a === b;
  const [x, y] = [Number(a), Number(b)];
  return Object.is(x, y) || x === y || Math.abs(x - y) <= 1e-15 * Math.abs(y);
}

interface Wrong {
  readonly ours: string;
  readonly torchs: string;
}

/** The first element that no rounding explains. */
function firstWrong(
  ours: SeenTensor,
  torchs: SeenTensor,
  judged: { values: Uint8Array; moved: Uint8Array } | undefined,
): Wrong | undefined {
  const { dtype } = torchs;
  const [a, b] = [elements(ours.data, dtype), elements(torchs.data, dtype)];
  const room = judged === undefined ? undefined : roomOf(b, dtype, judged);
  for (let i = 0; i < b.length; i++) {
    if (a[i] === b[i] || (a[i] !== a[i] && b[i] !== b[i])) continue;
    const [x, y] = [Number(a[i]), Number(b[i])];
    if (isDifferentiable(dtype) ? close(x, y, dtype, room?.(i)) : room?.(i).moved === 1) continue;
    const at = `element ${i}${room === undefined || !isDifferentiable(dtype) ? '' : ` (exactly ${room(i).exact}, allowed ${room(i).allowed.toExponential(1)})`}: `;
    return { ours: `${at}${String(a[i])}`, torchs: String(b[i]) };
  }
  return undefined;
}

interface Room {
  readonly exact: number;
  readonly allowed: number;
  readonly moved: number;
}

function close(x: number, y: number, dtype: DType, room: Room | undefined): boolean {
  if (Math.abs(x - y) <= quickRoom(dtype, y)) return true;
  if (room === undefined) return false;
  const { exact, allowed } = room;
  // What has no finite value in this dtype rounds to infinity.
  if (x === nearest(exact, dtype) || (x !== x && exact !== exact)) return true;
  return Number.isFinite(x) && (Math.abs(x - y) <= allowed || Math.abs(x - exact) <= allowed);
}

/** From here on numbers round to infinity. */
const LARGEST: Readonly<Partial<Record<DType, number>>> = {
  float32: 2 ** 128 - 2 ** 103,
  complex64: 2 ** 128 - 2 ** 103,
  float16: 65_520,
  bfloat16: 2 ** 128 - 2 ** 119,
};

function nearest(exact: number, dtype: DType): number {
  const largest = LARGEST[dtype] ?? Infinity;
  return Math.abs(exact) >= largest ? Math.sign(exact) * Infinity : exact;
}

export function roomOf(
  torchs: ArrayLike<number | bigint>,
  dtype: DType,
  judged: { values: Uint8Array; moved: Uint8Array },
): (i: number) => Room {
  const exact = new Float64Array(new Uint8Array(judged.values).buffer);
  const moved = new Float64Array(new Uint8Array(judged.moved).buffer);
  let own = 0;
  let scale = 1;
  for (let i = 0; i < exact.length; i++) {
    if (Number.isFinite(exact[i])) scale = Math.max(scale, Math.abs(exact[i] as number));
    const gap = Math.abs(Number(torchs[i]) - (exact[i] as number));
    if (Number.isFinite(gap)) own = Math.max(own, gap);
  }
  return (i) => {
    const value = exact[i] as number;
    const movement = moved[i] as number;
    const allowed =
      units(dtype) * EPSILON[dtype] * Math.abs(value) +
      MOVEMENTS * movement +
      OWN_ERRORS * own +
      tiniest(dtype) +
      plainRoom(dtype, scale);
    return { exact: value, allowed: Number.isNaN(allowed) ? 0 : allowed, moved: movement > 0 ? 1 : 0 };
  };
}

function show(seen: Seen | undefined): string {
  if (seen === undefined) return 'nothing of that name';
  if ('nothing' in seen) return 'none';
  return 'plain' in seen ? String(seen.plain) : `a ${seen.dtype} tensor [${seen.shape.join(', ')}]`;
}
