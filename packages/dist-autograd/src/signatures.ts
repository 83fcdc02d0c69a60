/** @file Functions with several signatures, of which TypeScript's `Parameters` and `ReturnType` see the last only. */

/** What a function takes by any of its last four signatures. */
export type ArgumentsOf<F> = 0 extends 1 & F
  ? // What is not known may be anything.
    // eslint-disable-next-line @typescript-eslint/no-explicit-any
    any[]
  : F extends {
        (...args: infer A): unknown;
        (...args: infer B): unknown;
        (...args: infer C): unknown;
        (...args: infer D): unknown;
      }
    ? A | B | C | D
    : never;

/** What it gives for these arguments: by the first of its signatures that takes them. */
export type ResultFor<F, P> = 0 extends 1 & F
  ? // eslint-disable-next-line @typescript-eslint/no-explicit-any
    any
  : F extends {
        (...args: infer A): infer R;
        (...args: infer B): infer S;
        (...args: infer C): infer U;
        (...args: infer _D): infer V;
      }
    ? P extends A
      ? R
      : P extends B
        ? S
        : P extends C
          ? U
          : V
    : never;
