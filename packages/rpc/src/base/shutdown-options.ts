/** @file How an agent is to end: the options, checked and filled in. */
import { optionNames } from '@backwire/tensor/internal';
import { invalidArgument } from './errors.ts';
import { checkTimeoutMs, refuseUnknown, show } from './options.ts';
import type { ShutdownOptions } from './rpc-agent.ts';

const SHUTDOWN_OPTIONS = optionNames<ShutdownOptions>()('graceful timeoutMs onLeak');

/** @throws RpcError 'invalid-argument', RangeError or TypeError for what is no such option. */
export function checkShutdown(options: ShutdownOptions): Required<ShutdownOptions> {
  refuseUnknown(options, SHUTDOWN_OPTIONS, 'shutdown()');
  const { graceful = true, timeoutMs = 0, onLeak = 'warn' } = options;
  if (typeof graceful !== 'boolean') throw new TypeError(`graceful is true or false, got ${show(graceful)}`);
  if (!['warn', 'throw'].includes(onLeak)) throw invalidArgument(`onLeak is 'warn' or 'throw', got ${show(onLeak)}`);
  return { graceful, timeoutMs: checkTimeoutMs(timeoutMs), onLeak };
}
