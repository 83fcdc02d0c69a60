/** @file What a gateway and those who call through it both know: the names of its two functions, and how names of Python are shown. */
import { ASYNC_PREFIX, PY_PREFIX, SCRIPT_PREFIX } from '../calls/targets.ts';

/** Calls a function of the torch group: (worker, name, arguments). */
export const CALL = 'backwire.torch/gateway.call';
/** The same; the result stays there, behind an RRef. */
export const REMOTE = 'backwire.torch/gateway.remote';

/** A name as programs of Python write it. */
export function shownName(name: string): string {
  for (const prefix of [ASYNC_PREFIX, PY_PREFIX, SCRIPT_PREFIX])
    if (name.startsWith(prefix)) return name.slice(prefix.length);
  return name;
}
