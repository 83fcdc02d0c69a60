/** @file Makes a failing scenario small: delta debugging of its lists, then its fault rates switched off one by one. */

/** Says whether a candidate still fails in the same way. */
export type StillFails<T> = (candidate: T) => boolean | Promise<boolean>;

/** Bounds of a shrink. */
export interface ShrinkOptions {
  /** Candidates tried at most. @default 500 */
  readonly attempts?: number;
}

/**
 * The smallest sublist found that still fails (Zeller's ddmin): order is kept, and no single element can be left out of the
 * result unless the attempts ran out. The whole list must fail.
 */
export async function shrinkList<T>(
  items: readonly T[],
  fails: StillFails<readonly T[]>,
  budget: Budget,
): Promise<T[]> {
  let current = [...items];
  if (current.length > 0 && budget.take() && (await fails([]))) return [];
  let chunks = 2;
  while (current.length > 1) {
    const size = Math.ceil(current.length / chunks);
    let smaller: T[] | undefined;
    for (let start = 0; start < current.length && smaller === undefined; start += size) {
      const rest = [...current.slice(0, start), ...current.slice(start + size)];
      if (!budget.take()) return current;
      if (await fails(rest)) smaller = rest;
    }
    if (smaller !== undefined) {
      current = smaller;
      chunks = Math.max(chunks - 1, 2);
    } else if (size === 1) break;
    else chunks = Math.min(chunks * 2, current.length);
  }
  return current;
}

/** Counts attempts, so that several shrinks share one bound. */
export class Budget {
  #left: number;

  constructor(attempts: number) {
    this.#left = attempts;
  }

  /** True while another attempt is allowed. */
  take(): boolean {
    return this.#left-- > 0;
  }
}

/**
 * Shrinks a scenario made of plain data: every field that is a list is delta-debugged, every field that is a table of numbers
 * has its entries set to zero one by one. Repeats until nothing changes.
 *
 * @param scenario a scenario that fails
 */
export async function shrinkScenario<S extends object>(
  scenario: S,
  fails: StillFails<S>,
  options: ShrinkOptions = {},
): Promise<S> {
  const budget = new Budget(options.attempts ?? 500);
  let current = scenario;
  for (let before = ''; before !== JSON.stringify(current);) {
    before = JSON.stringify(current);
    for (const key of Object.keys(current) as (keyof S)[]) {
      const value: unknown = current[key];
      if (Array.isArray(value)) {
        const base = current;
        const list = await shrinkList(value, (candidate) => fails({ ...base, [key]: candidate }), budget);
        current = { ...base, [key]: list };
      } else if (typeof value === 'object' && value !== null) {
        current = await silence(current, key, value as Record<string, unknown>, fails, budget);
      }
    }
  }
  return current;
}

async function silence<S extends object>(
  scenario: S,
  key: keyof S,
  table: Record<string, unknown>,
  fails: StillFails<S>,
  budget: Budget,
): Promise<S> {
  let current = scenario;
  let kept = table;
  for (const [name, value] of Object.entries(table)) {
    if (typeof value !== 'number' || value === 0) continue;
    const candidate = { ...current, [key]: { ...kept, [name]: 0 } };
    if (!budget.take()) return current;
    if (await fails(candidate)) {
      current = candidate;
      kept = { ...kept, [name]: 0 };
    }
  }
  return current;
}
