/** @file What an object still keeps: its own collections that are not empty, whether anybody can ask it for them or not. */

/**
 * The fields of `object` that hold something: maps, sets, lists, and whatever else has a `size`. A class that should have let go of everything keeps
 * none, also where nothing that it tells shows that. Only what the language hides (`#fields`) is not seen.
 * @param but fields that may.
 * @returns name and count, as `forks: 2`, in the order of the fields.
 */
export function kept(object: object, but: readonly string[] = []): string[] {
  return Object.entries(object).flatMap(([name, value]: [string, unknown]) => {
    if (but.includes(name) || typeof value !== 'object' || value === null) return [];
    const count = Array.isArray(value) ? value.length : 'size' in value ? value.size : undefined;
    if (typeof count !== 'number') return [];
    if (count > 0) return [`${name}: ${count}`];
    // A collection made of others may have left one of those behind.
    return kept(value).map((inner) => `${name}.${inner}`);
  });
}
