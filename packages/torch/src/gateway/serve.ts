/** @file A worker that is a member of a Backwire group and of a torch group, and lets the one call into the other. */
import {
  RpcError,
  currentAgent,
  rpcFunction,
  rpcSync,
  type AnyFn,
  type CallOptions,
  type RpcAgent,
} from '@backwire/rpc';
import { optionNames, refuseUnknown, systemError } from '@backwire/rpc/internal';
import { remote, type RRef } from '@backwire/rref';
import { elsewhere, makesStandIns, rrefsToSend, standInOf, type StandIn } from '@backwire/rref/internal';
import type { Named } from '@backwire/tensor';
import { adoptIntoScope, tensorsIn } from '@backwire/tensor/internal';
import { Agent } from '../agent.ts';
import { type TorchRRef } from '../rrefs/handle.ts';
import type { TorchAgent } from '../torch-agent.ts';
import { AllowList, type Allowed, type GatewayObjects } from './allow-list.ts';
import { outgoing } from './errors.ts';
import { CALL, REMOTE } from './names.ts';
import { refuseGradients, replaced, rrefsIn } from './passing.ts';
import { PythonObject, type ObjectHost } from './python-object.ts';
import { registerPythonValues } from './values.ts';

/** What a gateway lets through. */
export interface GatewayOptions {
  /**
   * What may be called in the torch group, and nothing else: what `py` names, operators, functions that workers of this kind offer there.
   * With `{ make, methods }` methods of what it makes, too.
   */
  readonly serve: readonly (Named | GatewayObjects)[];
  /** Names of the workers of the torch group that may be called. @default all of them */
  readonly workers?: readonly string[] | undefined;
  /** The member of the Backwire group whose peers call. @default the current agent */
  readonly agent?: RpcAgent | undefined;
}

const OPTIONS = optionNames<GatewayOptions>()('serve workers agent');

/** Within whose limits something is asked. */
type Limits = Pick<CallOptions, 'timeoutMs' | 'signal'>;

/** One torch group behind one agent. */
class GatewayServer implements ObjectHost {
  private readonly torch: Agent;
  private readonly agent: RpcAgent;
  private readonly allow: AllowList;
  private readonly toSend: (value: StandIn) => RRef<unknown>;
  private closed = false;

  constructor(torch: Agent, agent: RpcAgent, allow: AllowList) {
    this.torch = torch;
    this.agent = agent;
    this.allow = allow;
    this.toSend = rrefsToSend(agent);
  }

  close(): void {
    this.closed = true;
  }

  /** Calls a function for a peer. */
  async call(to: unknown, name: unknown, given: unknown): Promise<unknown> {
    const { worker, allowed, args } = this.admit(to, name, given);
    return elsewhere((within) =>
      this.asked(allowed, args, allowed.shown, (passed) =>
        this.torch.run(() => rpcSync(worker, allowed.fn as AnyFn & Named, passed, within)),
      ),
    );
  }

  /** The same, for what is to stay there. */
  async remote(to: unknown, name: unknown, given: unknown): Promise<PythonObject> {
    const { worker, allowed, args } = this.admit(to, name, given);
    return elsewhere((within) =>
      this.made(allowed, args, allowed.shown, (passed) =>
        this.torch.run(() => remoteIn(worker, allowed.fn, passed, within)),
      ),
    );
  }

  async ask(
    { local, allowed }: PythonObject,
    method: string | undefined,
    args: readonly unknown[],
    run: (args: readonly unknown[]) => Promise<unknown>,
  ): Promise<unknown> {
    const what = this.admitUse(local, allowed, method);
    return this.asked(allowed, args, what, (passed) => this.torch.run(() => run(passed)));
  }

  async make(
    { local, allowed }: PythonObject,
    method: string,
    args: readonly unknown[],
    run: (args: readonly unknown[]) => TorchRRef<unknown>,
  ): Promise<PythonObject> {
    const what = this.admitUse(local, allowed, method);
    return this.made(allowed, args, what, (passed) => this.torch.run(() => run(passed)));
  }

  /** What a peer asks for, checked. @throws RpcError 'permission-denied', 'not-found', 'decode-error', 'failed-precondition' */
  private admit(
    to: unknown,
    name: unknown,
    args: unknown,
  ): { readonly worker: string; readonly allowed: Allowed; readonly args: readonly unknown[] } {
    if ((typeof to !== 'string' && typeof to !== 'number') || typeof name !== 'string' || !Array.isArray(args))
      throw systemError(new RpcError('decode-error', 'malformed call through a gateway'));
    return refusing(() => {
      this.throwIfClosed();
      const allowed = this.allow.find(name);
      // Before it is said whether there is such a one.
      if (typeof to === 'string') this.allow.checkWorker(to);
      const { worker } = this.torch.members.find(to);
      this.allow.checkWorker(worker.name);
      return { worker: worker.name, allowed, args };
    });
  }

  /** How a use of an object is called in messages. @throws RpcError 'permission-denied', 'failed-precondition' */
  private admitUse(rref: TorchRRef<unknown>, allowed: Allowed, method: string | undefined): string {
    refusing(() => {
      this.throwIfClosed();
      this.allow.checkWorker(rref.ownerName());
      if (method !== undefined) this.allow.checkMethod(allowed, method);
    });
    return method === undefined ? allowed.shown : `${allowed.shown}().${method}`;
  }

  private async asked(
    allowed: Allowed,
    args: readonly unknown[],
    what: string,
    run: (args: readonly unknown[]) => Promise<unknown>,
  ): Promise<unknown> {
    refuseGradients(args, `an argument of '${what}'`, 'no');
    try {
      const passed = this.toTorch(args);
      const result = await run(passed instanceof Promise ? await passed : passed);
      return this.fromTorch(result, allowed, what);
    } catch (error) {
      throw outgoing(error);
    }
  }

  private async made(
    allowed: Allowed,
    args: readonly unknown[],
    what: string,
    run: (args: readonly unknown[]) => TorchRRef<unknown>,
  ): Promise<PythonObject> {
    refuseGradients(args, `an argument of '${what}'`, 'no');
    let rref: TorchRRef<unknown> | undefined;
    try {
      const passed = this.toTorch(args);
      rref = run(passed instanceof Promise ? await passed : passed);
      await rref.creation;
      rref.throwIfUnusable('make it');
      return new PythonObject(this, rref, allowed);
    } catch (error) {
      rref?.dispose();
      throw outgoing(error);
    }
  }

  /** Arguments with the RRefs of this gateway's objects as those of the torch group. Made in this turn where all of them are there. */
  private toTorch(args: readonly unknown[]): readonly unknown[] | Promise<readonly unknown[]> {
    const rrefs = rrefsIn(args);
    const standIns = rrefs.map((rref) => standInOf(rref));
    const put = (found: readonly (StandIn | undefined)[]): readonly unknown[] => {
      const others = rrefs.map((rref, i) => [rref, this.torchOf(rref, found[i])] as const);
      return replaced(args, new Map<object, unknown>(others)) as readonly unknown[];
    };
    const waits = standIns.some((found) => found instanceof Promise);
    if (!waits) return put(standIns as readonly (StandIn | undefined)[]);
    return Promise.all(standIns.map((found) => Promise.resolve(found))).then(put);
  }

  private torchOf(rref: RRef<unknown>, found: StandIn | undefined): TorchRRef<unknown> {
    if (found instanceof PythonObject && found.host === this) return found.local;
    const text = `${rref.toString()} of worker '${rref.ownerName()}' cannot go into the torch group: only RRefs of what is there can; give its value, await rref.toHere()`;
    throw new TypeError(text);
  }

  /** A result with the RRefs of the torch group as ones of the Backwire group, which their holders there keep alive. */
  private fromTorch(result: unknown, allowed: Allowed, what: string): unknown {
    const rrefs = rrefsIn(result) as TorchRRef<unknown>[];
    try {
      refuseGradients(result, `the result of '${what}'`, 'yes');
      const others = rrefs.map((rref) => [rref, this.toSend(new PythonObject(this, rref, allowed))] as const);
      // They are freed with the arguments, when the answer is written.
      for (const tensor of tensorsIn(result)) adoptIntoScope(tensor);
      return replaced(result, new Map<object, unknown>(others));
    } catch (error) {
      for (const rref of rrefs) rref.dispose();
      for (const tensor of tensorsIn(result)) tensor.dispose();
      throw error;
    }
  }

  private throwIfClosed(): void {
    if (this.closed)
      throw new RpcError(
        'failed-precondition',
        `worker '${this.agent.name}' is no gateway into a torch group any more`,
      );
    if (this.torch.isClosed) throw new RpcError('unavailable', `gateway '${this.agent.name}' has left its torch group`);
  }
}

/** Runs checks: their refusals are the gateway's answer, nothing ran. */
function refusing<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw error instanceof RpcError ? systemError(error) : error;
  }
}

/** `remote()` of the current agent, which is one of a torch group. */
function remoteIn(to: string, fn: Named, args: readonly unknown[], limits: Limits): TorchRRef<unknown> {
  return remote(to, fn as AnyFn & Named, args, limits) as TorchRRef<unknown>;
}

const gateways = new WeakMap<RpcAgent, GatewayServer>();

/** @throws RpcError 'failed-precondition' */
function gatewayHere(): GatewayServer {
  const agent = currentAgent();
  const gateway = gateways.get(agent);
  if (gateway !== undefined) return gateway;
  throw new RpcError('failed-precondition', `worker '${agent.name}' is no gateway: call serveGateway() on it`);
}

const callThrough = (to: unknown, name: unknown, args: unknown): Promise<unknown> => gatewayHere().call(to, name, args);
const remoteThrough = makesStandIns((to: unknown, name: unknown, args: unknown): Promise<PythonObject> =>
  gatewayHere().remote(to, name, args),
);

/**
 * Makes this worker, a member of a Backwire group and by `torch` one of a torch group, the gateway into the latter: peers of the former,
 * pages among them, call what is named here by `throughGateway`, and nothing else. What Python raises, time limits, cancellation and RRefs
 * pass; gradients do not, and a call that would lose some is refused.
 * @param torch the member of the torch group
 * @param options what is let through
 * @returns ends it: nothing passes any more, and RRefs that are out can only be let go of
 * @throws RpcError 'failed-precondition' for an agent that is a gateway already, has no RRefs, or is of a torch group itself;
 *   'invalid-argument' or TypeError for what cannot be served.
 * @example
 * ```ts compile
 * import { initRpc } from 'backwire';
 * import { createTorchAgent, py, serveGateway } from '@backwire/torch';
 *
 * const torch = await createTorchAgent({ name: 'node', rank: 1, worldSize: 2, trustNetwork: true });
 * await initRpc({ name: 'gateway', membership: 'dynamic', transports: ['unix', 'ws'], serve: [] });
 * serveGateway(torch, {
 *   serve: [py('model.predict'), { make: py('model.Average'), methods: ['add', 'value'] }],
 *   workers: ['python'],
 * });
 * ```
 */
export function serveGateway(torch: TorchAgent, options: GatewayOptions): () => void {
  if (!(torch instanceof Agent))
    throw new TypeError('serveGateway(torch, options) takes the agent that createTorchAgent() gives');
  if (typeof options !== 'object' || options === null)
    throw new TypeError("serveGateway(torch, options) needs options: at least { serve: [py('model.predict')] }");
  refuseUnknown(options, OPTIONS, 'serveGateway()');
  const agent = options.agent ?? currentAgent();
  if (agent instanceof Agent) {
    const text = `the agent of a gateway is a member of a Backwire group, '${agent.name}' is one of a torch group: start one with initRpc(), or give it as \`agent\``;
    throw new RpcError('failed-precondition', text);
  }
  if (gateways.has(agent)) throw new RpcError('failed-precondition', `worker '${agent.name}' is a gateway already`);
  const gateway = new GatewayServer(torch, agent, new AllowList(agent.name, options.serve, options.workers));
  registerPythonValues();
  gateways.set(agent, gateway);
  // In scopes: tensors that pass are freed when they have passed.
  const functions = [
    rpcFunction(CALL, callThrough, { scope: true }),
    rpcFunction(REMOTE, remoteThrough, { scope: true }),
  ];
  const served = functions.map((fn) => agent.register(fn));
  return () => {
    gateway.close();
    if (gateways.get(agent) !== gateway) return;
    gateways.delete(agent);
    for (const end of served) end();
  };
}
