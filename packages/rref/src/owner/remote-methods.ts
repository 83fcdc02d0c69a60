/** @file The library's own definitions that every worker with this extension serves: methods of remote values, their streams, their types. */
import { callContext, currentAgent, RpcError, type RpcAgent } from '@backwire/rpc';
import { isStream, systemError, systemFunction, withoutSlot, type Kind } from '@backwire/rpc/internal';
import { ambient, tensorsIn, thenHere } from '@backwire/tensor/internal';
import { waitFor } from '../deadline.ts';
import type { OwnedValue } from './owned-value.ts';
import type { OwnedValues } from './owned-values.ts';
import type { ParkedStreams } from './parked-streams.ts';
import { callMethod, typeNameOf } from './referent.ts';
import { StandIn, elsewhere, isMaker } from './stand-in.ts';

/** What these definitions need of the worker that they run on. */
export interface MethodHost {
  readonly owned: OwnedValues;
  readonly streams: ParkedStreams;
}

/** How an RRef is named in these calls: by its id (worker, incarnation, local) elsewhere, by itself on its owner. */
export type Reference = readonly [number, number, number] | object;

/** The answer of a method: its result; or nothing and the ticket of the stream it returned. */
export type MethodResult = readonly [result: unknown] | readonly [nothing: undefined, ticket: number];

const hosts = new WeakMap<RpcAgent, MethodHost>();

/** Lets an agent serve these definitions. */
export function serveMethods(agent: RpcAgent, host: MethodHost): void {
  hosts.set(agent, host);
}

/** What serves them on an agent. @throws RpcError 'failed-precondition' when the agent was made without the extension. */
export function methodHostOf(agent: RpcAgent): MethodHost {
  if (typeof agent.name !== 'string') throw new TypeError('the agent in the options is no agent');
  const host = hosts.get(agent);
  if (host === undefined) throw new RpcError('failed-precondition', `worker '${agent.name}' has no extension 'rref'`);
  return host;
}

/** What has published methods, or makes what stands for such things. */
const CLASSES: Kind = { text: 'class', includes: ({ kind, body }) => kind === 'class' || isMaker(body) };

/** Calls a method of the value; a generator is parked and answered with a ticket. */
export const invokeMethod = systemFunction(
  'backwire.rref/invoke',
  async (reference: Reference, method: string, args: readonly unknown[]): Promise<MethodResult> => {
    const host = methodHostOf(currentAgent());
    const { contextId } = ambient();
    const { caller } = callContext();
    const result = await invoke(host, reference, method, args, false);
    if (isStream(result) && contextId !== undefined && [...tensorsIn(args)].some(({ requiresGrad }) => requiresGrad)) {
      await result.return(undefined);
      const text = `streams carry no gradients: give '${method}' arguments that need none (detach() them), or make calls`;
      throw systemError(new RpcError('failed-precondition', text));
    }
    return isStream(result) ? [undefined, host.streams.park(caller.id, result)] : [result];
  },
  CLASSES,
);

/** The same for `rref.remote()`: whatever it returns stays here. */
export const invokeAndKeep = systemFunction(
  'backwire.rref/invoke-and-keep',
  async (reference: Reference, method: string, args: readonly unknown[]): Promise<unknown> =>
    invoke(methodHostOf(currentAgent()), reference, method, args, true),
  CLASSES,
);

/** The items of a parked stream. */
export const openStream = systemFunction('backwire.rref/stream', async function* (ticket: number): AsyncGenerator<
  unknown,
  void,
  void
> {
  const stream = methodHostOf(currentAgent()).streams.take(ticket, callContext().caller.id);
  yield* stream;
});

export const askTypeName = systemFunction('backwire.rref/type', async (reference: Reference): Promise<string> => {
  const found = valueOf(methodHostOf(currentAgent()).owned.meant(reference));
  return thenHere(found, (value) =>
    value instanceof StandIn ? elsewhere((within) => value.typeName(within)) : typeNameOf(value),
  );
});

async function invoke(
  host: MethodHost,
  reference: Reference,
  method: string,
  args: readonly unknown[],
  keep: boolean,
): Promise<unknown> {
  if (typeof method !== 'string' || !Array.isArray(args))
    throw systemError(new RpcError('decode-error', 'malformed method call'));
  const owned = host.owned.meant(reference);
  const use = (value: unknown): unknown => {
    if (!(value instanceof StandIn)) return callMethod(value, method, args, keep ? 'stays' : 'answers');
    return elsewhere((within) => (keep ? value.callAndKeep(method, args, within) : value.call(method, args, within)));
  };
  // A value that is there is used in this very turn: methods start in the order in which they were called.
  if (owned.settled) return use(owned.now());
  return thenHere(valueOf(owned), use);
}

/** Waits for a value no longer than the call that needs it lasts, and leaves its place to other handlers: one may have to make the value. */
export function valueOf(owned: OwnedValue): Promise<unknown> {
  if (owned.settled) return owned.wait();
  const call = callContext();
  return withoutSlot(
    new Promise((resolve, reject) => {
      owned.wait().then(resolve, reject);
      // Most values come in the turn in which they are asked for. Only for others a signal is worth making.
      setTimeout(() => {
        if (!owned.settled) waitFor(owned.wait(), 0, call.signal).then(resolve, reject);
      }, 0);
    }),
  );
}
