/** @file Runs calls: those that nothing wraps, started when a slot is free and answered in place, and those inside messages of extensions. */
import { callScope, runCall } from '@backwire/tensor/internal';
import type { Message } from '@backwire/wire';
import { FrameFlag } from '@backwire/wire/internal';
import { invoke, type Definition } from '../base/definitions.ts';
import { RemoteError, RpcError } from '../base/errors.ts';
import { system, thrown, wasThrown } from '../base/system-error.ts';
import { decodeFailed } from '../base/unsent.ts';
import { readCallPayload } from '../extensions/call-message.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import type { RpcMessage } from '../extensions/extension.ts';
import { ARRIVE } from '../protocol/meetings.ts';
import type { Peer } from '../session/peer.ts';
import { digestOf } from './call-digest.ts';
import type { CallReader, ReadCall } from './call-reader.ts';
import type { ConcurrencyLimit } from './concurrency-limit.ts';
import { freeUntaken, invokeAdopted, isGenerator, promiseOf, runHandler, type Fate } from './handler.ts';
import { replyTypeOf, type Handlers } from './handlers.ts';
import type { Idempotency } from './idempotency.ts';
import type { InboundCall } from './inbound-call.ts';
import { pumpStream } from './stream-writer.ts';

export class CallRunner {
  private readonly environment: ExtendedEnvironment;
  private readonly handlers: Handlers;
  private readonly idempotency: Idempotency;
  private readonly reader: CallReader;

  constructor(environment: ExtendedEnvironment, handlers: Handlers, idempotency: Idempotency, reader: CallReader) {
    this.environment = environment;
    this.handlers = handlers;
    this.idempotency = idempotency;
    this.reader = reader;
  }

  /** Starts a call whose arguments are read, now or when it may; `type` is that of its message. */
  start(call: InboundCall, type: number): void {
    // No closures in here: with one, a context would be made for every call.
    if (!this.handlers.slots.hasRoom(call.origin.share) && call.definition?.name !== ARRIVE) {
      this.startLater(call, type, this.handlers.slots);
      return;
    }
    if (call.state === 'over') return;
    if (this.handlers.stallGuard.inDoubt && this.startsHeld(call, type)) return;
    if (call.peer.sender.congested) {
      this.startLater(call, type, undefined);
      return;
    }
    const definition = call.definition as Definition;
    const isMeeting = definition.name === ARRIVE;
    if (!isMeeting) this.handlers.slots.take(call);
    this.handlers.begin(call, !isMeeting);
    if (call.key !== undefined) {
      this.once(call, definition, type);
      return;
    }
    if (definition.scope && (call.flags & FrameFlag.STREAM) === 0) {
      this.startInScope(call, definition, type);
      return;
    }
    let result: unknown;
    let later: Promise<unknown> | undefined;
    try {
      result = this.run(definition, call);
      later = promiseOf(result);
    } catch (error) {
      this.handlers.fail(call, error);
      return;
    }
    if (later === undefined) this.complete(call, result, type);
    else this.completeLater(call, later, type);
  }

  private startsHeld(call: InboundCall, type: number): boolean {
    return this.handlers.isHeld(call, () => this.start(call, type));
  }

  /** When a slot is free, or else when its peer takes answers again. */
  private startLater(call: InboundCall, type: number, slots: ConcurrencyLimit | undefined): void {
    call.origin.open.set(call.id, call);
    const start = (): void => this.start(call, type);
    if (slots === undefined) call.peer.sender.whenClear(start);
    else call.leaveLine = slots.wait(call.origin.share, start);
  }

  private completeLater(call: InboundCall, later: Promise<unknown>, type: number): void {
    call.origin.open.set(call.id, call);
    later.then(
      (value) => this.complete(call, value, type),
      (error: unknown) => this.handlers.fail(call, error),
    );
  }

  /**
   * The scope ends when the answer is written: what arrived, what was made and what was answered goes back to the pool then, unless it
   * was kept or was there before. Left to the collector, every large echo lands in fresh memory, at a third of the speed.
   */
  private startInScope(call: InboundCall, definition: Definition, type: number): void {
    let later: Promise<unknown> | undefined;
    try {
      later = callScope(this.environment.agent, call, () => {
        const result = invokeAdopted(definition, call.takeArgs());
        const promise = promiseOf(result);
        if (promise === undefined) {
          this.complete(call, result, type);
          return undefined;
        }
        call.origin.open.set(call.id, call);
        return promise.then((value) => this.complete(call, value, type));
      });
    } catch (error) {
      this.handlers.fail(call, error);
      return;
    }
    later?.catch((error: unknown) => this.handlers.fail(call, error));
  }

  /** A call with a key: joins the one that runs under it, or gets its outcome. */
  private once(call: InboundCall, definition: Definition, type: number): void {
    call.origin.open.set(call.id, call);
    const run = async (began: () => void): Promise<RpcMessage> => {
      if (!call.holdsSlot) await this.handlers.takeSlot(call);
      began();
      return this.handlers.replyMessage(call.peer, type, await this.run(definition, call), () => definition.name);
    };
    const rest = (): void => this.handlers.slots.release(call);
    this.idempotency
      .run({ call, name: definition.name, digest: call.digest, run, rest })
      .finally(() => freeUntaken(definition, call.args, call.found))
      .then(
        (reply) => this.handlers.reply(call, reply),
        (error: unknown) => this.handlers.fail(call, error),
      );
  }

  private run(definition: Definition, call: InboundCall): unknown {
    const { agent } = this.environment;
    const args = call.takeArgs();
    if (definition.origin === 'builtin') this.environment.checkResult(definition, args);
    // Tensor operations look at nothing ambient but what is at the root already.
    if (definition.name.startsWith('aten::')) return invoke(definition, args);
    return runCall(agent, call, undefined, () => runHandler(definition, args, fateOf(call)));
  }

  private complete(call: InboundCall, value: unknown, type: number): void {
    if ((call.flags & FrameFlag.STREAM) !== 0) {
      call.origin.open.set(call.id, call);
      pumpStream(this.handlers, call, value).then(
        () => this.handlers.over(call),
        (error: unknown) => this.handlers.fail(call, error),
      );
      return;
    }
    if (call.aborted || (call.flags & FrameFlag.ONEWAY) !== 0) {
      this.handlers.over(call);
      return;
    }
    try {
      if (isGenerator(value))
        throw new RpcError('failed-precondition', 'a generator is called with rpcStream()', { executed: 'yes' });
      if (!this.handlers.answers.result(call, replyTypeOf(type), value)) return;
    } catch (error) {
      this.handlers.fail(call, error);
      return;
    }
    this.handlers.over(call);
  }

  /** Runs a call that came as a message (PYTHON_CALL or SCRIPT_CALL), inside the handler context that is current. */
  async runMessage(from: Peer, message: Message, call: InboundCall | undefined, fate: Fate): Promise<unknown> {
    return this.runRead(this.readMessage(from, message), call, fate);
  }

  /** The plain call inside of a message that extensions unwrapped: its reply, for them to wrap. */
  async reply(call: InboundCall, message: Message): Promise<RpcMessage> {
    if (call.key !== undefined) return this.replyOnce(call, message);
    const value = await this.handlers.slotted(call, () => this.runMessage(call.peer, message, call, fateOf(call)));
    const name = (): string => readCallPayload(message.payload).name;
    if ((call.flags & FrameFlag.STREAM) === 0) return this.handlers.replyMessage(call.peer, message.type, value, name);
    await pumpStream(this.handlers, call, value);
    return this.handlers.replyMessage(call.peer, message.type, undefined, name);
  }

  /** What the caller is told of what an extension ran into: errors of its own are the system's, those of handlers, here or on other workers, are not. */
  blame(error: unknown): unknown {
    const own = error instanceof RpcError && !(error instanceof RemoteError) && !wasThrown(error);
    return own ? system(error) : error;
  }

  /** As `once`, of a call that came as a message. */
  private replyOnce(call: InboundCall, message: Message): Promise<RpcMessage> {
    const read = this.readMessage(call.peer, message);
    call.unclaimed = read.unclaimed;
    const { start, end } = readCallPayload(message.payload);
    const digest = digestOf(this.environment, message.payload.subarray(start, end), message.tensors, read, call.peer);
    let taken = false;
    const run = async (began: () => void): Promise<RpcMessage> => {
      taken = true;
      call.unclaimed = undefined;
      const value = await this.handlers.slotted(call, () => this.runRead(read, call, 'answers', began));
      return this.handlers.replyMessage(call.peer, message.type, value, () => read.definition.name);
    };
    const { definition, args, found } = read;
    return this.idempotency
      .run({ call, name: definition.name, digest, run, rest: () => undefined })
      .finally(() => taken || freeUntaken(definition, args, found));
  }

  /** Waits for what the arguments wait for, says that the handler begins, and runs it. */
  private async runRead(
    { definition, args, pending, unclaimed, found }: ReadCall,
    call: InboundCall | undefined,
    fate: Fate,
    began?: () => void,
  ): Promise<unknown> {
    if (call !== undefined) {
      call.definition = definition;
      call.found = found;
    }
    try {
      if (pending.length > 0) await Promise.all(pending);
      if (call?.aborted === true) throw call.abortReason;
      this.environment.checkResult(definition, args);
    } catch (error) {
      for (const give of unclaimed ?? []) give();
      throw error;
    }
    began?.();
    try {
      return await runHandler(definition, args, fate);
    } catch (error) {
      // It ran on behalf of an extension: what it threw goes to the caller as its own, not as the system's.
      throw thrown(error);
    }
  }

  private readMessage(from: Peer, message: Message): ReadCall {
    try {
      return this.reader.message(from, message);
    } catch (error) {
      throw error instanceof RpcError
        ? error
        : decodeFailed(error, from, { self: this.environment.self, what: 'arguments' });
    }
  }
}

function fateOf({ flags }: InboundCall): Fate {
  return (flags & FrameFlag.STREAM) === 0 ? 'answers' : 'streams';
}
