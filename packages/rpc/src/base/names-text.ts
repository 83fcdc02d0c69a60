/** @file Lists of names in messages. */
import { MAX_WAITS_SHOWN } from './limits.ts';

/** "'a', 'b' and 3 more". */
export function namesText(names: readonly string[]): string {
  const more = names.length - MAX_WAITS_SHOWN;
  const shown = names.slice(0, MAX_WAITS_SHOWN).map((name) => `'${name}'`);
  return shown.join(', ') + (more > 0 ? ` and ${more} more` : '');
}
