/** @file Distributed autograd at work in one agent of a torch group: wraps calls, keeps contexts, runs passes. */
import {
  addRecvRpcBackward,
  addSendRpcBackward,
  checkOptions,
  checkRoots,
  type Autograd,
  type LiveContext,
  type RemoteModules,
  type RemoteOptimizers,
} from '@backwire/dist-autograd/internal';
import type { BackwardOptions, Gradients } from '@backwire/dist-autograd';
import { RpcError, type Logger, type To, type WorkerInfo } from '@backwire/rpc';
import { MAX_TIMER_MS } from '@backwire/rpc/internal';
import { Tensor } from '@backwire/tensor';
import { ambient, runWith } from '@backwire/tensor/internal';
import { MessageType } from '@backwire/wire/internal';
import { failed, type Caller, type Wraps } from '../calls/caller.ts';
import type { Server, Serving } from '../calls/server.ts';
import { readingFrom, type Values } from '../calls/values.ts';
import type { ArrivedBody } from '../links/bodies.ts';
import type { TorchPeer } from '../links/peer.ts';
import { readResponse, writeCommand } from '../messages/codec.ts';
import type { Body, ForwardMessage } from '../messages/commands.ts';
import type { TensorLike, TravellingTensor } from '../values/opaque-tensor.ts';
import { Contexts, idOf, localIn, workerIn } from './contexts.ts';
import { Pass } from './pass.ts';

export interface AutogradHost {
  readonly agent: object;
  readonly self: WorkerInfo;
  readonly caller: Caller;
  readonly server: Server;
  readonly values: Values;
  find(to: To): TorchPeer;
  lost(error: unknown, what: string): void;
  readonly logger: Logger;
}

/** Requests that are wrapped in a context even when no argument requires a gradient: the result of a function may. */
const ALWAYS: ReadonlySet<number> = new Set([
  MessageType.PYTHON_CALL,
  MessageType.PYTHON_REMOTE_CALL,
  MessageType.SCRIPT_RREF_FETCH_CALL,
  MessageType.PYTHON_RREF_FETCH_CALL,
]);
const SOMETIMES: ReadonlySet<number> = new Set([MessageType.SCRIPT_CALL, MessageType.SCRIPT_REMOTE_CALL]);

/** One per agent. */
export class TorchAutograd implements Autograd, Wraps {
  readonly contexts: Contexts;
  optimizers: RemoteOptimizers | undefined;
  modules: RemoteModules | undefined;
  private readonly host: AutogradHost;
  private readonly passes = new Map<LiveContext, Pass>();
  private started = 0;

  constructor(host: AutogradHost) {
    this.host = host;
    this.contexts = new Contexts(host.self.id);
    const { server } = host;
    server.handle('forward-autograd-req', (request, serving) => this.onForward(request, serving));
    server.handle('backward-autograd-req', ({ gradients, context, message, retainGraph }) =>
      this.onBackward(context, message, gradients, retainGraph),
    );
    server.handle('cleanup-autograd-context-req', ({ context }, { from }) => {
      this.end(context, from.id);
      return writeCommand({ kind: 'cleanup-autograd-context-resp' });
    });
  }

  // What programs ask for.

  get logger(): Logger {
    return this.host.logger;
  }

  create(): LiveContext {
    return this.contexts.create();
  }

  find(id: bigint): LiveContext {
    if (typeof id !== 'bigint' && typeof id !== 'number')
      throw new TypeError('incompatible function arguments: a context id is a bigint');
    const found = this.contexts.find(id);
    if (found === undefined) throw new RpcError('not-found', `Could not find autograd context with id: ${id}`);
    return found;
  }

  gradients(id: bigint): Gradients {
    return this.find(id).gradients.snapshot();
  }

  backward(id: bigint, roots: readonly Tensor[], options: BackwardOptions = {}): Promise<void> {
    const timeoutMs = options.timeoutMs ?? this.host.caller.defaultTimeoutMs;
    return new Promise<void>((resolve, reject) => {
      const context = this.find(id);
      checkOptions(options);
      checkRoots(roots);
      let timer: NodeJS.Timeout | undefined;
      const pass = this.begin(context, roots, options.retainGraph ?? false, {
        resolve: () => {
          clearTimeout(timer);
          resolve();
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
      if (timeoutMs > 0 && timeoutMs <= MAX_TIMER_MS) {
        const text = `RPC ran for more than set timeout (${timeoutMs} ms) and will now be marked with an error`;
        timer = setTimeout(() => pass.fail(new RpcError('deadline-exceeded', text, { executed: 'maybe' })), timeoutMs);
      }
      pass.start(true);
    });
  }

  abort(context: LiveContext): void {
    this.passes.get(context)?.fail(new RpcError('failed-precondition', `autograd context ${context.id} was released`));
  }

  release(context: LiveContext): void {
    this.end(context.id, undefined);
  }

  debugInfo(): Record<'num_current_backward_passes' | 'num_autograd_contexts', number> {
    return { num_current_backward_passes: this.passes.size, num_autograd_contexts: this.contexts.size };
  }

  close(): void {
    for (const context of [...this.contexts]) {
      this.abort(context);
      this.contexts.release(context.id);
      context.dispose();
    }
  }

  // The way of calls.

  request(to: WorkerInfo, body: Body): { readonly body: Body; readonly settled?: (error?: unknown) => void } {
    const id = ambient().contextId;
    if (id === undefined || !(ALWAYS.has(body.type) || SOMETIMES.has(body.type))) return { body };
    const context = this.contexts.find(id);
    if (context === undefined)
      throw new RpcError(
        'failed-precondition',
        `Couldn't find autograd context data for current autograd context id: ${id}`,
      );
    const requiring = ambient().gradMode ? requiringGrad(body.tensors) : [];
    if (requiring.length === 0 && !ALWAYS.has(body.type)) return { body };
    const { wrapped, message } = this.wrap(context, to, body, requiring, 'forward-autograd-req');
    const { settle } = context.follow();
    return {
      body: wrapped,
      settled: (error) => {
        // A call that never ran has no receive function to send gradients back.
        if (error instanceof RpcError && error.executed === 'no') context.sends.delete(message);
        settle();
      },
    };
  }

  response(from: WorkerInfo, body: ArrivedBody): ArrivedBody {
    if (body.type !== MessageType.FORWARD_AUTOGRAD_RESP) return body;
    const response = readResponse(body, this.host.values.script(readingFrom(from)));
    if (response.kind !== 'forward-autograd-resp') throw failed(response, from);
    const context = this.contexts.find(response.context);
    // A context that is gone leaves tensors without history.
    if (context !== undefined) attach(context, from, response);
    return { ...response.inner, tensors: response.inner.tensors as readonly TensorLike[] };
  }

  private onForward(request: ForwardMessage, { from }: Serving): Body | Promise<Body> {
    const { type, body, tensors } = request.inner;
    if (!ALWAYS.has(type) && !SOMETIMES.has(type))
      throw new RpcError('protocol-error', `a message of type ${type} cannot be wrapped in an autograd context`);
    const context = this.contexts.accept(request.context);
    attach(context, from, request);
    const inner: ArrivedBody = { type, body, tensors: tensors as readonly TensorLike[] };
    const reply = runWith({ contextId: context.id }, () => this.host.server.inner(inner, from));
    const wrapped = (made: Body): Body => {
      const requiring = requiringGrad(made.tensors);
      if (requiring.length === 0 || made.type === MessageType.EXCEPTION || context.released) return made;
      return this.wrap(context, from, made, requiring, 'forward-autograd-resp').wrapped;
    };
    return reply instanceof Promise ? reply.then(wrapped) : wrapped(reply);
  }

  private wrap(
    context: LiveContext,
    to: WorkerInfo,
    body: Body,
    requiring: readonly Tensor[],
    kind: ForwardMessage['kind'],
  ): { readonly wrapped: Body; readonly message: number } {
    const message = this.contexts.nextMessage();
    if (requiring.length > 0) {
      const direction = kind === 'forward-autograd-req' ? 'request' : 'response';
      const path = context.invocation(undefined).next();
      addSendRpcBackward(context, message, { path, direction }, requiring);
    }
    context.known.set(to.id, 0);
    const wrapped = writeCommand({
      kind,
      inner: body,
      context: context.id,
      message: idOf(this.host.self.id, message),
      from: this.host.self.id,
      devices: new Map(),
    });
    return { wrapped, message };
  }

  // Passes.

  private begin(
    context: LiveContext,
    roots: readonly Tensor[],
    retain: boolean,
    waiter: { resolve(): void; reject(error: unknown): void },
  ): Pass {
    if (this.passes.has(context))
      throw new RpcError('failed-precondition', `a backward pass is in progress in autograd context ${context.id}`);
    const host = {
      agent: this.host.agent,
      self: this.host.self.id,
      isReleased: (id: bigint) => this.contexts.find(id) === undefined,
      send: (
        to: number,
        id: bigint,
        message: number,
        grads: readonly Tensor[],
        keep: boolean,
        done: (error?: unknown) => void,
      ) => this.send(to, id, message, grads, keep, done),
      ended: (of: LiveContext, pass: Pass) => {
        if (this.passes.get(of) === pass) this.passes.delete(of);
      },
    };
    const pass = new Pass(host, context, this.started++, roots, retain, waiter);
    this.passes.set(context, pass);
    return pass;
  }

  private onBackward(
    id: bigint,
    message: bigint,
    gradients: readonly TensorLike[],
    retain: boolean,
  ): Body | Promise<Body> {
    const answer = writeCommand({ kind: 'backward-autograd-resp' });
    const context = this.find(id);
    if (!gradients.every((grad) => grad instanceof Tensor))
      throw new TypeError('gradients of a type that nothing here computes with');
    const grads = gradients as readonly Tensor[];
    if (workerIn(message) !== this.host.self.id)
      throw new RpcError('protocol-error', `autograd message ${message} is not of this worker`);
    const running = this.passes.get(context);
    if (running !== undefined) {
      running.take(localIn(message), grads);
      return answer;
    }
    // Who begins it here waits until it is over here; the others have brought their part.
    return new Promise<Body>((resolve, reject) => {
      const pass = this.begin(context, [], retain, { resolve: () => resolve(answer), reject });
      try {
        pass.start(false);
        pass.take(localIn(message), grads);
      } catch (error) {
        // Gradients for no message begin nothing: else no other pass of this context could.
        pass.fail(error);
      }
    });
  }

  private send(
    to: number,
    context: bigint,
    message: number,
    gradients: readonly Tensor[],
    retainGraph: boolean,
    done: (error?: unknown) => void,
  ): void {
    const body = writeCommand({
      kind: 'backward-autograd-req',
      gradients,
      context,
      message: idOf(to, message),
      retainGraph,
    });
    const sent = (async () => {
      // Never at once: a pass is told of nothing while it is at work.
      const peer = this.host.find(to);
      return this.host.caller.tell(peer, body, (response, { from }) => {
        if (response.kind !== 'backward-autograd-resp') throw failed(response, from);
      });
    })();
    sent.then(
      () => done(),
      (error: unknown) => done(error),
    );
    for (const gradient of gradients) gradient.release();
  }

  private end(id: bigint, from: number | undefined): void {
    const context = this.contexts.release(id);
    if (context === undefined) return;
    this.abort(context);
    for (const worker of context.known.keys()) if (worker !== from) this.tellEnd(worker, id);
    context.dispose();
  }

  private tellEnd(worker: number, context: bigint): void {
    const lost = (error: unknown): void =>
      this.host.lost(error, `worker ${worker} was not told of the end of context ${context}`);
    try {
      const body = writeCommand({ kind: 'cleanup-autograd-context-req', context });
      this.host.caller.tell(this.host.find(worker), body, () => undefined).catch(lost);
    } catch (error) {
      lost(error);
    }
  }
}

function attach(context: LiveContext, from: WorkerInfo, { message, inner }: ForwardMessage): void {
  const tensors = inner.tensors.filter((tensor): tensor is Tensor => tensor instanceof Tensor);
  const recv = addRecvRpcBackward(context, from, localIn(message), tensors);
  if (recv !== undefined) context.known.set(from.id, 0);
}

/** Those tensors that gradients can come back for. */
function requiringGrad(tensors: readonly TravellingTensor[]): Tensor[] {
  return tensors.filter((tensor): tensor is Tensor => tensor instanceof Tensor && tensor.requiresGrad);
}
