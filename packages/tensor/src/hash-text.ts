/** @file One hash of texts, for what has to be the same number in every process. */

/** A number of 32 bits by which texts are told apart. FNV-1a over code points (Fowler, Noll and Vo): no protection against anybody who looks for equal ones. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (const char of text) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193);
  return hash >>> 0;
}
