/** @file etcd's version 3 interface as JSON over HTTP: requests, and the streamed answer of a watch. */
import { bareText, RpcError } from '../base/errors.ts';
import { NOT_ASKED, OddAnswerError, Turns, json, lines, post } from './etcd-http.ts';
import { limited } from './limited.ts';
import { Patience } from './patience.ts';

/** Numbers of 64 bits are text in etcd's JSON; fields that are zero, empty or false are left out. */
export interface EtcdKeyValue {
  readonly key: string;
  readonly value?: string;
  readonly mod_revision?: string;
  readonly create_revision?: string;
  readonly version?: string;
  readonly lease?: string;
}

export interface EtcdEvent {
  readonly type?: 'PUT' | 'DELETE';
  readonly kv: EtcdKeyValue;
}

interface WatchAnswer {
  readonly result?: {
    readonly header?: { readonly revision?: string };
    readonly created?: boolean;
    readonly canceled?: boolean;
    readonly events?: readonly EtcdEvent[];
  };
  readonly error?: { readonly message?: string };
}

/** Servers that answer nothing for longer are away. */
const REQUEST_MS = 10_000;

/** Why no connection was there. */
const UNSENT: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  NOT_ASKED,
]);

/** A member that is cut off from the others has no leader soon, and ends a watch that wants one: it would be told of no change. */
const WITH_LEADER = { 'grpc-metadata-hasleader': 'true' };

/** An answer of etcd's that it cannot do it now: it has no leader, or too much to do. */
class BusyError extends RpcError {}

/** Whether some endpoint has answered, and said that it cannot do it now. */
export function isBusy(error: unknown): boolean {
  return error instanceof RpcError && error.cause instanceof BusyError;
}

/** Talks to the first endpoint that answers. */
export class EtcdApi {
  readonly endpoints: readonly string[];
  private readonly patience: readonly Patience[];
  private readonly turns: readonly Turns[];
  /** The watches under way at each endpoint. */
  private readonly watching: readonly Set<AbortController>[];
  private preferred = 0;

  /**
   * `endpoints`: 'http://host:port' or 'https://host:port'. `requestMs`: how long each may answer nothing, or with `strict` how long a request
   * may take whatever else is answered.
   */
  constructor(endpoints: readonly string[], { requestMs = REQUEST_MS, strict = false } = {}) {
    this.endpoints = endpoints;
    this.turns = endpoints.map(() => new Turns());
    this.watching = endpoints.map(() => new Set());
    this.patience = endpoints.map(() => new Patience(requestMs, strict ? 1 : undefined));
  }

  /**
   * One request. @throws RpcError 'unavailable' when no endpoint answers, 'failed-precondition' with etcd's words when it refuses.
   * `signal` cancels. What is to be done `once` is not asked of another endpoint after one that may have done it.
   */
  async call(path: string, body: object, signal?: AbortSignal, once = false): Promise<Record<string, unknown>> {
    let failure: unknown;
    const first = this.preferred;
    for (let i = 0; i < this.endpoints.length; i++) {
      const at = (first + i) % this.endpoints.length;
      try {
        const answer = await this.ask(at, path, body, signal);
        this.preferred = at;
        return answer;
      } catch (error) {
        if (error instanceof RpcError && error.code !== 'unavailable') throw error;
        if (signal?.aborted)
          throw new RpcError('cancelled', 'the request to etcd was cancelled', { cause: signal.reason });
        failure = error;
        this.leave(at);
        if (once && !isUndone(error)) break;
      }
    }
    const what =
      failure instanceof BusyError || failure instanceof OddAnswerError
        ? `: ${bareText(failure.code, failure.message)}`
        : ' does not answer';
    throw new RpcError('unavailable', `etcd at ${this.endpoints.join(', ')}${what}`, {
      cause: failure,
      executed: 'maybe',
    });
  }

  /**
   * Asks `path` of each endpoint that has watches and has answered nothing for `quietMs`: a stream that says nothing looks like one that is
   * dead. Others may be those that are asked everything else.
   */
  async probe(path: string, body: object, quietMs: number): Promise<void> {
    const quiet = [...this.watching.keys()].filter(
      (at) => (this.watching[at]?.size ?? 0) > 0 && (this.patience[at]?.quietMs ?? 0) >= quietMs,
    );
    await Promise.allSettled(quiet.map((at) => this.ask(at, path, body, undefined)));
  }

  /** One request of one endpoint. Where it says nothing in its time, its watches end: its connections may stay although nothing comes any more. */
  private async ask(
    at: number,
    path: string,
    body: object,
    signal: AbortSignal | undefined,
  ): Promise<Record<string, unknown>> {
    const patience = this.patience[at] as Patience;
    const turns = this.turns[at] as Turns;
    let isSilent = (): boolean => false;
    try {
      return await patience.limit([signal], (limit) => {
        isSilent = () => limit.aborted;
        return turns.take(limit, async () => {
          const response = await post(this.url(at, path), body, limit);
          const answer = await json(response);
          patience.heard();
          if (response.statusCode !== 200) throw refused(answer, response.statusCode ?? 0);
          return answer;
        });
      });
    } catch (error) {
      if (isSilent() && signal?.aborted !== true) for (const watch of this.watching[at] ?? []) watch.abort();
      throw error;
    }
  }

  /** Renews a lease; false when it is gone. @throws RpcError as `call`, and 'unavailable' when the answer does not say. */
  async keepAlive(id: string, signal?: AbortSignal): Promise<boolean> {
    const { result } = (await this.call('/v3/lease/keepalive', { ID: id }, signal)) as { result?: { TTL?: string } };
    if (result === undefined) throw new RpcError('unavailable', 'etcd does not say how long a lease lasts');
    return Number(result.TTL ?? 0) > 0;
  }

  /**
   * Watches a range from now on, until `signal` aborts or the stream breaks. `onReady` is called once the watch is in force, with the
   * revision from which it is.
   * @throws RpcError 'unavailable' when it breaks.
   */
  async watch(
    range: { key: string; range_end: string },
    onReady: (revision: number) => void,
    onEvents: (events: readonly EtcdEvent[]) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const at = this.preferred;
    const stop = new AbortController();
    this.watching[at]?.add(stop);
    try {
      await limited(0, [signal, stop.signal], async (either) => {
        const url = this.url(at, '/v3/watch');
        const response = await post(url, { create_request: range }, either, WITH_LEADER);
        if (response.statusCode !== 200) {
          response.destroy();
          throw new RpcError('unavailable', `etcd refused a watch with status ${response.statusCode}`);
        }
        for await (const line of lines(response)) {
          const { result, error } = JSON.parse(line) as WatchAnswer;
          if (error !== undefined || result === undefined) {
            this.leave(at);
            throw new RpcError('unavailable', error?.message ?? 'etcd ended a watch');
          }
          if (result.canceled === true) throw new RpcError('unavailable', 'etcd cancelled a watch');
          if (result.created === true) onReady(Number(result.header?.revision ?? 0));
          if (result.events !== undefined) onEvents(result.events);
        }
      });
    } catch (error) {
      if (error instanceof RpcError) throw error;
      // Others may have gone on from there already.
      this.leave(at);
      throw new RpcError('unavailable', 'a watch of etcd broke', { cause: error });
    } finally {
      this.watching[at]?.delete(stop);
    }
    if (!signal.aborted) throw new RpcError('unavailable', 'etcd ended a watch');
  }

  private leave(at: number): void {
    if (this.preferred === at) this.preferred = (at + 1) % this.endpoints.length;
  }

  private url(at: number, path: string): string {
    return `${this.endpoints[at] ?? ''}${path}`;
  }
}

/** The revision of the store that an answer is of; of a change, its own. */
export function revisionOf(answer: Record<string, unknown>): number {
  const { revision } = (answer['header'] ?? {}) as { readonly revision?: unknown };
  return typeof revision === 'string' && /^\d{1,15}$/.test(revision) ? Number(revision) : 0;
}

/** The entries that a question of a range was answered with. @throws RpcError 'protocol-error' where they are none. */
export function entriesOf(range: { readonly kvs?: unknown } | null | undefined): readonly EtcdKeyValue[] {
  const kvs = range?.kvs ?? [];
  if (!Array.isArray(kvs) || !kvs.every(isEntry)) throw unreadable('entries');
  return kvs;
}

export function unreadable(what: string): RpcError {
  const text = `etcd gave an answer that cannot be read: its ${what} are none; is that etcd's port for clients?`;
  return new RpcError('protocol-error', text, { executed: 'maybe' });
}

const NUMBERS = ['mod_revision', 'create_revision', 'version', 'lease'] as const;

function isEntry(given: unknown): given is EtcdKeyValue {
  if (typeof given !== 'object' || given === null) return false;
  const kv = given as Readonly<Record<string, unknown>>;
  const isText = (value: unknown): boolean => value === undefined || typeof value === 'string';
  return typeof kv['key'] === 'string' && isText(kv['value']) && NUMBERS.every((name) => isText(kv[name]));
}

/** Whether nobody can have done what failed so. */
function isUndone(error: unknown): boolean {
  if (error instanceof BusyError) return error.executed === 'no';
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && UNSENT.has(code);
}

/** What etcd said no with. */
function refused(answer: Record<string, unknown>, status: number): RpcError {
  const message =
    typeof answer['message'] === 'string'
      ? answer['message']
      : typeof answer['error'] === 'string'
        ? answer['error']
        : `status ${status}`;
  // gRPC's codes: 14 unavailable, 8 resource exhausted, 3 invalid argument, 5 not found.
  const code = answer['code'];
  // Two things can be exhausted: its disk, which wants somebody; and what it has yet to apply, for a moment, in which it takes nothing more.
  if (code === 8 && message.endsWith('too many requests'))
    return new BusyError('unavailable', `etcd: ${message}`, { executed: 'no' });
  if (code === 14 || status >= 502) return new BusyError('unavailable', `etcd: ${message}`);
  if (code === 8) return new RpcError('resource-exhausted', `etcd: ${message}`);
  if (code === 3) return new RpcError('invalid-argument', `etcd: ${message}`);
  return new RpcError('failed-precondition', `etcd: ${message}`);
}
