/** @file What a distributed program came to, and whether it is what one process of PyTorch comes to. */

/** One tensor's numbers; null where there is none. */
export type Numbers = readonly number[] | null;

/** By name: `leaf 0`, `table 1`, `layer 0 weight`. */
export type Named = Readonly<Record<string, Numbers>>;

export interface Iteration {
  /** The values of the roots, by backward pass. */
  readonly roots: readonly (readonly number[])[];
  /** What the passes have added up. */
  readonly gradients: Named;
  /** After the optimiser's step. */
  readonly parameters: Named;
  /** PyTorch's only: the largest finite number that was seen until then. A later one has no part in how exact this iteration is. */
  readonly scale?: number | undefined;
}

export interface Outcome {
  readonly iterations: readonly Iteration[];
  /** What the program failed with. */
  readonly failure?: string | undefined;
}

/**
 * How far apart numbers may be. Both sides do the same operations in another order of sums: a few hundred roundings, each relative to
 * the largest number on the way. Parameters after a step are as far apart, and a function of them may be as steep as that number is large.
 */
function roomOf(dtype: 'float32' | 'float64', scale: number, iteration: number): number {
  return 256 * (dtype === 'float32' ? 2 ** -23 : 2 ** -52) * Math.max(1, scale) ** (iteration === 0 ? 1 : 2);
}

/** The first difference, in words; undefined where there is none. */
export function differenceOf(ours: Outcome, torchs: Outcome, dtype: 'float32' | 'float64'): string | undefined {
  if (ours.failure !== undefined || torchs.failure !== undefined) {
    return ours.failure === undefined ? `only PyTorch fails: ${torchs.failure}` : `it fails: ${ours.failure}`;
  }
  for (const [i, wanted] of torchs.iterations.entries()) {
    const room = roomOf(dtype, wanted.scale ?? 1, i);
    const found = ours.iterations[i];
    if (found === undefined) return `iteration ${i} is missing`;
    const roots = wanted.roots.map((pass, k) => differ(pass, found.roots[k] ?? null, room));
    const root = roots.findIndex((one) => one !== undefined);
    if (root >= 0) return `iteration ${i}, roots of pass ${root}: ${roots[root]}`;
    for (const kind of ['gradients', 'parameters'] as const) {
      for (const [name, numbers] of Object.entries(wanted[kind])) {
        const one = differ(numbers, found[kind][name] ?? null, room);
        if (one !== undefined) return `iteration ${i}, ${kind} of ${name}: ${one}`;
      }
    }
  }
  return undefined;
}

function differ(wanted: Numbers, found: Numbers, room: number): string | undefined {
  // What travelled from Python has undefined for none.
  if ((wanted ?? null) === null && (found ?? null) === null) return undefined;
  const words = `${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`;
  const near = (a: number, b: number): boolean =>
    // Whether what overflows is infinite or NaN follows from the order of sums.
    Number.isFinite(a) ? Math.abs(a - b) <= room : !Number.isFinite(b);
  const close = wanted?.length === found?.length && wanted?.every((v, i) => near(v, found?.[i] as number));
  return close === true ? undefined : words;
}
