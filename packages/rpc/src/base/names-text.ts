/** @file Lists of names in messages. */
import { MAX_WAITS_SHOWN } from './limits.ts';

/** 'a, b and 3 more'. */
export function listText(items: readonly string[]): string {
  const more = items.length - MAX_WAITS_SHOWN;
  return items.slice(0, MAX_WAITS_SHOWN).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** "'a', 'b' and 3 more". */
export function namesText(names: readonly string[]): string {
  return listText(names.map((name) => `'${name}'`));
}
