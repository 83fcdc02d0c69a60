/** @file An extension that does nothing, on the way of every call. */
import type { Extension } from '@backwire/rpc';

/** An extension with one synchronous hook on each way. */
export const hooks: Extension = {
  name: 'bench-hooks',
  attach: () => ({ request: (call) => call, response: (_, message) => message }),
};
