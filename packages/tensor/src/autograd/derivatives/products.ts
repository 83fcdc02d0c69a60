/** @file What the derivatives of products of all kinds have in common. */

/** Saves the operand that the other one's gradient is made of. */
export const crossed = (needs: readonly boolean[]): number[] => [
  ...(needs[1] === true ? [0] : []),
  ...(needs[0] === true ? [1] : []),
];
