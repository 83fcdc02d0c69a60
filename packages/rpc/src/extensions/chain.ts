/** @file The extensions of one agent: their hooks, messages and values, found by type and tag. */
import { ambient } from '@backwire/tensor/internal';
import type { Message, MessageType } from '@backwire/wire';
import { messageTypeName, type HeaderEntry, type ValueExtension } from '@backwire/wire/internal';
import type { Environment, ValueContext } from '../base/environment.ts';
import type { Logger } from '../base/options.ts';
import { RpcError } from '../base/errors.ts';
import type {
  CallOutcome,
  Extension,
  ExtensionHost,
  ExtensionInternals,
  ExtensionSession,
  Followed,
  Incoming,
  Member,
  Outgoing,
  RpcMessage,
} from './extension.ts';
import { isWorkerId, isWorkerName, WorkerInfo } from '../base/worker-info.ts';

type Session = ExtensionSession & ExtensionInternals;

interface Attached {
  readonly name: string;
  readonly session: Session;
}

/** What the parts of an agent that deal with messages may know of it. */
export interface ExtendedEnvironment extends Environment {
  readonly extensions: ExtensionChain;
}

/** Runs a request that is not wrapped any more: by the extension that answers its type, or as a plain call. */
export type Handle = (call: Incoming, handler?: (call: Incoming) => Promise<RpcMessage>) => Promise<RpcMessage>;

export class ExtensionChain {
  readonly names: readonly string[];
  readonly hasResponseHooks: boolean;
  /** Whether some of these want the replies of plain calls too. */
  readonly wantsPlainResponses: boolean;
  /** The types that some extension unwraps; undefined = every request goes through `serve`. */
  private readonly attached: readonly Attached[];
  private readonly requestHooks: readonly Attached[];
  /** Whether some request hook is asked wherever a call is made, */
  private readonly asksAlways: boolean;
  /** and the slots of the ambient record in which the others are. */
  private readonly slots: readonly ('profile' | 'contextId')[];
  private readonly responseHooks: readonly Attached[];
  private readonly serveAll: readonly Attached[];
  private readonly sometimes: readonly Attached[];
  private readonly wraps = new Map<MessageType, Attached>();
  private readonly messages = new Map<MessageType, (call: Incoming) => Promise<Message>>();
  private readonly controls = new Map<MessageType, (from: WorkerInfo, payload: Uint8Array) => void>();
  private readonly byName = new Map<string, Session>();
  private readonly logger: Logger;

  constructor(extensions: readonly Extension[], host: ExtensionHost) {
    this.logger = host.logger;
    const attached: Attached[] = [];
    for (const extension of extensions) {
      const session = extension.attach(host);
      this.byName.set(extension.name, session);
      attached.push({ name: extension.name, session });
      for (const type of session.wraps ?? []) this.claim(this.wraps, type, attached.at(-1) as Attached);
      for (const [type, handler] of session.messages ?? []) this.claim(this.messages, type, handler);
      for (const [type, handler] of session.controls ?? []) this.claim(this.controls, type, handler);
    }
    this.attached = attached;
    this.names = attached.map(({ name }) => name);
    this.requestHooks = attached.filter(({ session }) => session.request !== undefined);
    this.responseHooks = attached.filter(({ session }) => session.response !== undefined).reverse();
    this.serveAll = attached.filter(({ session }) => session.serve !== undefined && session.wraps === undefined);
    this.sometimes = attached.filter(({ session }) => session.serve !== undefined && session.servesAll !== undefined);
    const slots = this.requestHooks.map(({ session }) => session.requestsWhile);
    this.asksAlways = slots.includes(undefined);
    this.slots = [...new Set(slots)].filter((slot) => slot !== undefined);
    this.hasResponseHooks = this.responseHooks.length > 0;
    this.wantsPlainResponses = this.responseHooks.some(({ session }) => session.wraps === undefined);
  }

  session(name: string): Session | undefined {
    return this.byName.get(name);
  }

  /** Whether a request of this type can go to its handler directly. */
  isPlain(type: MessageType): boolean {
    return this.serveAll.length === 0 && !this.wraps.has(type) && !this.sometimes.some(isServing);
  }

  /** Whether any request hook wants a call that is made here and now; without one no message is made for a plain call. */
  wantsRequest(): boolean {
    if (this.asksAlways || this.slots.length === 0) return this.asksAlways;
    const record = ambient();
    for (const slot of this.slots) if (record[slot] !== undefined) return true;
    return false;
  }

  hasHandler(type: MessageType): boolean {
    return this.messages.has(type);
  }

  /**
   * Runs the request hooks; ambient state is the caller's. What is returned last says what is sent.
   * @throws what a hook throws; those before it, which follow the call, are told.
   */
  request(call: Outgoing): Outgoing {
    let current: Followed = call;
    const record = ambient();
    try {
      for (const { session } of this.requestHooks) {
        if (session.requestsWhile !== undefined && record[session.requestsWhile] === undefined) continue;
        const before = current;
        const next = session.request?.(before) ?? before;
        if (next === before) continue;
        current = follow(next, before);
        current = inherit(current, before.message);
      }
    } catch (error) {
      current.settled?.({ error });
      throw error;
    }
    return current;
  }

  /** Tells who follows a call how it ended. */
  settled(follower: Pick<Followed, 'settled'>, outcome: CallOutcome): void {
    this.guard('settled', () => follower.settled?.(outcome));
  }

  /** Tells who follows a call that it was opened. */
  started(follower: Pick<Followed, 'started'>, cancel: (reason: unknown) => void): void {
    this.guard('started', () => follower.started?.(cancel));
  }

  response(from: WorkerInfo, reply: Message): Message {
    let current = reply;
    for (const { session } of this.responseHooks) current = session.response?.(from, current) ?? current;
    return current;
  }

  /** Serves a request: whoever wraps its type unwraps it, then what is inside is served likewise, and `handle` does the rest. */
  serve(call: Incoming, handle: Handle): Promise<RpcMessage> {
    const around =
      this.sometimes.length === 0 ? this.serveAll : [...this.sometimes.filter(isServing), ...this.serveAll];
    const step = (index: number, current: Incoming): Promise<RpcMessage> => {
      const outer = around[index];
      if (outer === undefined) return this.unwrap(current, handle);
      return outer.session.serve?.(current, (next) => step(index + 1, next)) ?? step(index + 1, current);
    };
    return step(0, call);
  }

  control(from: WorkerInfo, type: MessageType, payload: Uint8Array): void {
    const handler = this.controls.get(type);
    if (handler === undefined) {
      this.logger.warn({ peer: from.name, type: messageTypeName(type) }, 'control that nobody handles');
      return;
    }
    this.guard('control', () => handler(from, payload));
  }

  delivered(extension: string, from: WorkerInfo, entry: Uint8Array): (() => void) | undefined {
    const session = this.byName.get(extension);
    return session?.delivered === undefined
      ? undefined
      : (this.guard('delivered', () => session.delivered?.(from, entry)) ?? undefined);
  }

  undelivered(to: WorkerInfo, header: readonly HeaderEntry[]): void {
    for (const { extension, data } of header) {
      this.guard('undelivered', () => this.byName.get(extension)?.undelivered?.(to, data));
    }
  }

  /** The codec's extensions: those of all sessions, and workers themselves. */
  values(): ValueExtension<ValueContext>[] {
    const found: ValueExtension<ValueContext>[] = [WORKER];
    for (const { name, session } of this.attached) {
      for (const value of session.values ?? []) {
        found.push({
          tag: value.tag,
          match: (candidate) => value.match(candidate),
          encode: (inner, context) =>
            value.encode(inner, context.worker, (data) => context.header.push({ extension: name, data })),
          decode: (plain, context) => {
            const decoded = value.decode(plain, context.worker, context.pending);
            if (value.discard !== undefined)
              context.unclaimed.push(() => void this.guard('discard', () => value.discard?.(decoded)));
            return decoded;
          },
        });
      }
    }
    return found;
  }

  /** For a codec that only writes: what lasts of each value. */
  lastingValues(): ValueExtension<ValueContext>[] {
    const own = this.attached.flatMap(({ session }) => session.values ?? []);
    return this.values().map((value, at) => {
      const from = own[at - 1]; // behind that of workers
      if (from?.lasting === undefined) return value;
      return { ...value, encode: (inner) => from.lasting?.(inner) };
    });
  }

  peerDown(peer: WorkerInfo): void {
    for (const { session } of this.attached) this.guard('peerDown', () => session.peerDown?.(peer));
  }

  peerJoined(peer: WorkerInfo, incarnation: number): void {
    for (const { session } of this.attached) this.guard('peerJoined', () => session.peerJoined?.(peer, incarnation));
  }

  viewChanged(epoch: number, members: readonly Member[], dead: readonly Member[], left: readonly Member[]): void {
    for (const { session } of this.attached)
      this.guard('viewChanged', () => session.viewChanged?.(epoch, members, dead, left));
  }

  fenced(why: string): void {
    for (const { session } of this.attached) this.guard('fenced', () => session.fenced?.(why));
  }

  async drain(deadlineMs: number): Promise<void> {
    for (const { session } of [...this.attached].reverse()) await session.drain?.(deadlineMs);
  }

  close(): void {
    for (const { session } of [...this.attached].reverse()) this.guard('close', () => session.close?.());
  }

  debugInfo(): Record<string, number> {
    return Object.assign({}, ...this.attached.map(({ session }) => session.debugInfo?.() ?? {})) as Record<
      string,
      number
    >;
  }

  inspect(): Record<string, Record<string, unknown>> {
    return Object.fromEntries(
      this.attached.flatMap(({ name, session }) => {
        const shown = this.guard('inspect', () => session.inspect?.());
        return shown === undefined ? [] : [[name, shown]];
      }),
    );
  }

  leaks(): string[] {
    return this.attached.flatMap(({ session }) => session.leaks?.() ?? []);
  }

  private unwrap(call: Incoming, handle: Handle): Promise<RpcMessage> {
    const { type } = call.message;
    const wrapper = this.wraps.get(type)?.session;
    if (wrapper?.serve !== undefined) return wrapper.serve(call, (next) => this.unwrap(next, handle));
    return handle(call, this.messages.get(type));
  }

  private claim<T>(table: Map<MessageType, T>, type: MessageType, value: T): void {
    if (table.has(type))
      throw new RpcError('invalid-argument', `two extensions want messages of type ${messageTypeName(type)}`);
    table.set(type, value);
  }

  /** A defect of one extension must not stop the others, nor the connection it showed on. */
  private guard<T>(what: string, fn: () => T): T | undefined {
    try {
      return fn();
    } catch (error) {
      this.logger.error({ error, what }, 'an extension failed');
      return undefined;
    }
  }
}

function isServing({ session }: Attached): boolean {
  return session.servesAll?.() === true;
}

/**
 * A wrapped message takes the header entries of the one inside along. So does a message that was spread, and all that was not replaced
 * then: the fields of a call that is not encoded yet are getters of its class, which a spread leaves behind.
 */
function inherit(next: Outgoing, inner: RpcMessage): Outgoing {
  const outer: Partial<RpcMessage> = next.message;
  if (outer === inner) return next;
  const whole = outer.payload !== undefined && outer.tensors !== undefined;
  if (whole && (inner.header === undefined || outer.header !== undefined)) return next;
  const { type = inner.type, id = inner.id, payload = inner.payload, tensors = inner.tensors } = outer;
  return { ...next, message: { type, id, payload, tensors, header: outer.header ?? inner.header } as RpcMessage };
}

/** Both hooks may want to follow the call; a hook that spread what it was given has kept the earlier ones already. */
function follow(next: Followed, before: Followed): Followed {
  const earlier = { settled: before.settled, started: before.started };
  const own = {
    settled: next.settled === earlier.settled ? undefined : next.settled,
    started: next.started === earlier.started ? undefined : next.started,
  };
  if (earlier.settled === undefined && earlier.started === undefined) return next;
  return {
    ...next,
    settled: (outcome) => {
      try {
        own.settled?.(outcome);
      } finally {
        earlier.settled?.(outcome);
      }
    },
    started: (cancel) => {
      try {
        earlier.started?.(cancel);
      } finally {
        own.started?.(cancel);
      }
    },
  };
}

const WORKER: ValueExtension<ValueContext> = {
  tag: 'worker',
  match: (value) => value instanceof WorkerInfo,
  encode: (value) => {
    const { name, id } = value as WorkerInfo;
    return [name, id];
  },
  decode: (plain) => {
    const [name, id] = plain as [unknown, unknown];
    if (!isWorkerName(name) || !isWorkerId(id)) throw new TypeError('malformed worker');
    return new WorkerInfo(name, id);
  },
};
