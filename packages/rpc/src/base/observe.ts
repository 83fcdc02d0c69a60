/** @file Telling a program's listener, whatever kind of function it is. */

/**
 * Calls a listener whose result nobody waits for. What it throws goes to `failed`, and what it rejects with, too: the type of a listener
 * gives nothing, which asynchronous functions may be given for, and a rejection that nobody hears ends the process.
 */
export function observe(listener: () => unknown, failed: (error: unknown) => void): void {
  let result: unknown;
  try {
    result = listener();
  } catch (error) {
    failed(error);
    return;
  }
  // `Promise.resolve` also hears a thenable that is no promise. Nothing is made for what is neither.
  if (typeof result === 'object' && result !== null && 'then' in result) Promise.resolve(result).catch(failed);
}
