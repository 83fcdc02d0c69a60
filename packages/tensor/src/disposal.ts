/** @file The keys of the methods that `using` and `await using` call. */

// Compilers that lower `using` look for these where the engine has none: Safari, and the contexts that Node 20 and 22 make.
const known: { readonly dispose?: symbol; readonly asyncDispose?: symbol } = Symbol;

export const DISPOSE: typeof Symbol.dispose = (known.dispose ?? Symbol.for('Symbol.dispose')) as never;
export const ASYNC_DISPOSE: typeof Symbol.asyncDispose = (known.asyncDispose ??
  Symbol.for('Symbol.asyncDispose')) as never;
