/** @file torch's gathering of one object of each worker: everybody tells the one with the smallest name, which tells everybody. */
import { RpcError, rpcInfo, type CallOptions } from '@backwire/rpc';
import type { CallCollectives } from '@backwire/rpc/internal';
import { cancelled, MAX_TIMER_MS, withoutSlot } from '@backwire/rpc/internal';
import { runAtRoot } from '@backwire/tensor/internal';
import type { Names } from './names.ts';

const GATHER = 'torch.distributed.rpc.api._gather_to_leader';
const BROADCAST = 'torch.distributed.rpc.api._broadcast_to_followers';

/** What gathering needs of its worker. */
export interface GatherHost {
  readonly name: string;
  names(): readonly string[];
  isMember(name: string): boolean;
  /** How many gatherings there were, by the joined names of those who took part. Every worker counts them, and all have to agree. */
  readonly counts: Map<string, number>;
  /** A worker is about to be waited for, whose connection has ended: should nobody be there, `gone` is called. */
  doubt(name: string): void;
  /** A worker has been waited for: likewise, and where there has been no connection to it, too. */
  seek(name: string): void;
  /** Calls one of torch's own functions. */
  callPython(to: string, path: string, args: readonly unknown[], options: CallOptions): Promise<unknown>;
}

/** One gathering as far as it has come. */
interface Meeting {
  readonly gathered: Map<string, unknown>;
  /** Known once anybody has said who takes part. */
  names: ReadonlySet<string> | undefined;
  /** What those who wait here get. */
  readonly done: Promise<ReadonlyMap<string, unknown>>;
  resolve(values: ReadonlyMap<string, unknown>): void;
  reject(error: unknown): void;
}

/** Who waits for so long makes sure that there is a connection to each that it waits for, whose end tells of a death. */
const SEEK_MS = 2_000;
/** Meetings that others have begun and this worker has not come to. */
const MAX_MEETINGS = 1_024;

type Options = CallOptions & { readonly workers?: readonly string[] | undefined };

export class Gatherings implements CallCollectives {
  private readonly host: GatherHost;
  private readonly meetings = new Map<string, Meeting>();

  constructor(host: GatherHost, names: Names) {
    this.host = host;
    names.answer(GATHER, ([sequence, name, value, workers]) => this.onGather(sequence, name, value, workers));
    names.answer(BROADCAST, ([sequence, values]) => this.onBroadcast(sequence, values));
  }

  async barrier(options: Options): Promise<void> {
    await this.gather(null, options);
  }

  gather<T>(value: T, options: Options): Promise<Map<string, T>> {
    return withoutSlot(this.meet(value, options)) as Promise<Map<string, T>>;
  }

  /** A member is gone: what waits for it fails. */
  gone(name: string): void {
    for (const [sequence, meeting] of this.meetings) {
      if (meeting.names?.has(name) !== true || meeting.gathered.has(name)) continue;
      this.meetings.delete(sequence);
      meeting.reject(gone(name));
    }
  }

  private async meet(value: unknown, { workers, timeoutMs, signal }: Options): Promise<Map<string, unknown>> {
    const { host } = this;
    const names = [...new Set(workers ?? host.names())].sort();
    if (!names.includes(host.name))
      throw new RpcError('invalid-argument', `worker '${host.name}' is not among the workers of this collective`);
    const unknown = names.find((name) => !host.isMember(name));
    if (unknown !== undefined) throw new RpcError('not-found', `no worker '${unknown}' is in this group`);
    const key = names.join('');
    const count = host.counts.get(key) ?? 0;
    host.counts.set(key, count + 1);
    const sequence = `${key}${count}`;
    const leader = names[0] as string;
    const all = new Set(names);
    const meeting = this.meeting(sequence);
    meeting.names = all;
    const missing = (): string[] => names.filter((name) => !meeting.gathered.has(name) && name !== host.name);
    const limits: CallOptions = { timeoutMs: timeoutMs ?? 0, signal };
    // As in torch: where nothing is said, the others may take any time to come, and a call as long as calls may.
    const calls: CallOptions = { timeoutMs, signal };
    const done = bounded(meeting, limits, () => {
      this.meetings.delete(sequence);
      // Nobody has heard of it: the next one may have its number.
      if (leader === host.name && meeting.gathered.size === 1 && host.counts.get(key) === count + 1)
        host.counts.set(key, count);
      return leader === host.name
        ? `workers that have not come: ${missing().join(', ')}`
        : `worker '${leader}' collects`;
    });
    for (const name of missing()) host.doubt(name);
    const seeking = runAtRoot(() => setInterval(() => missing().forEach((name) => host.seek(name)), SEEK_MS)).unref();
    const stop = (): void => clearInterval(seeking);
    meeting.done.then(stop, stop);
    if (leader === host.name) {
      this.take(meeting, host.name, value);
      const values = await done;
      this.meetings.delete(sequence);
      await this.broadcast(sequence, names, values, calls);
      return new Map(values);
    }
    // What the leader answers to its part is nothing; what counts comes with the broadcast.
    host.callPython(leader, GATHER, [sequence, host.name, value, all], calls).catch((error: unknown) => {
      this.meetings.delete(sequence);
      meeting.reject(DEATHS.has(rpcInfo(error)?.code) ? gone(leader, error) : error);
    });
    return new Map(await done);
  }

  private async broadcast(
    sequence: string,
    names: readonly string[],
    values: ReadonlyMap<string, unknown>,
    limits: CallOptions,
  ): Promise<void> {
    const { host } = this;
    const others = names.filter((name) => name !== host.name);
    const told = await Promise.allSettled(
      others.map((name) => host.callPython(name, BROADCAST, [sequence, values], limits)),
    );
    const lost = told.flatMap((outcome, i) =>
      outcome.status === 'rejected' ? [{ name: others[i] as string, reason: outcome.reason as unknown }] : [],
    );
    const [first] = lost;
    if (first === undefined) return;
    const fates = lost.map(({ name, reason }) => `worker '${name}' ${fateOf(reason)}`).join(', ');
    throw new RpcError('barrier-broken', `all had come, but before they were told so ${fates}`, {
      cause: first.reason,
    });
  }

  private onGather(sequence: unknown, name: unknown, value: unknown, workers: unknown): null {
    if (typeof sequence !== 'string' || typeof name !== 'string') throw new TypeError('malformed gathering');
    const meeting = this.meeting(sequence);
    if (workers instanceof Set && meeting.names === undefined) meeting.names = workers as ReadonlySet<string>;
    if (meeting.names?.has(name) === false)
      throw new RpcError('invalid-argument', `'${name}' is not expected by leader.`);
    if (meeting.gathered.has(name))
      throw new RpcError('invalid-argument', `'${name}' reported intent sequence id ${sequence} twice.`);
    this.take(meeting, name, value);
    return null;
  }

  private onBroadcast(sequence: unknown, values: unknown): null {
    if (typeof sequence !== 'string' || !(values instanceof Map)) throw new TypeError('malformed gathering');
    const meeting = this.meeting(sequence);
    this.meetings.delete(sequence);
    meeting.resolve(values as ReadonlyMap<string, unknown>);
    return null;
  }

  private take(meeting: Meeting, name: string, value: unknown): void {
    const { gathered, names } = meeting;
    gathered.set(name, value);
    if (names !== undefined && gathered.size === names.size) meeting.resolve(gathered);
  }

  private meeting(sequence: string): Meeting {
    const known = this.meetings.get(sequence);
    if (known !== undefined) return known;
    if (this.meetings.size >= MAX_MEETINGS)
      throw new RpcError('resource-exhausted', `more than ${MAX_MEETINGS} collectives are open`);
    const made = deferred();
    made.done.catch(() => undefined);
    this.meetings.set(sequence, made);
    return made;
  }
}

/** What keeps a worker from being told, and is its death. */
const DEATHS: ReadonlySet<unknown> = new Set(['peer-died', 'unavailable']);

function gone(name: string, cause?: unknown): RpcError {
  return new RpcError('barrier-broken', `worker '${name}' is gone, and had not come`, { cause });
}

/** What became of a worker that could not be called, as a clause without its subject. */
function fateOf(reason: unknown): string {
  const { code } = RpcError.from(reason);
  return DEATHS.has(code) ? 'was gone' : `did not answer (${code})`;
}

function deferred(): Meeting {
  let resolve: Meeting['resolve'] = () => undefined;
  let reject: Meeting['reject'] = () => undefined;
  const done = new Promise<ReadonlyMap<string, unknown>>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { gathered: new Map(), names: undefined, done, resolve, reject };
}

function bounded(
  meeting: Meeting,
  { timeoutMs = 0, signal }: CallOptions,
  missing: () => string,
): Promise<ReadonlyMap<string, unknown>> {
  if (timeoutMs > 0 && timeoutMs <= MAX_TIMER_MS) {
    const timer = setTimeout(() => {
      const text = `a collective did not end within ${timeoutMs} ms: ${missing()}`;
      meeting.reject(new RpcError('deadline-exceeded', text, { executed: 'maybe' }));
    }, timeoutMs);
    const stop = (): void => clearTimeout(timer);
    meeting.done.then(stop, stop);
  }
  if (signal !== undefined) {
    const abort = (): void => {
      missing();
      meeting.reject(cancelled('a collective', signal.reason));
    };
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
    const stop = (): void => signal.removeEventListener('abort', abort);
    meeting.done.then(stop, stop);
  }
  return meeting.done;
}
