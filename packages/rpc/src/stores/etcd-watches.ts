/** @file The watches of a store in etcd: as few streams as serve all who watch. */
import { unref } from '../base/platform.ts';
import { sleep } from '../base/within.ts';
import { revisionOf, type EtcdApi, type EtcdEvent } from './etcd-api.ts';
import type { StoreEvent } from './store.ts';
import { WatchQueue } from './watch-queue.ts';

/** Between two tries to watch: short at first, and after a watch that has lasted. */
const RETRY_MS = 200;
const LONGEST_RETRY_MS = 2_000;
const LASTING_MS = 5_000;
/** A watch that is not in force after so long is tried again, elsewhere if there is more than one endpoint. */
const IN_FORCE_MS = 5_000;
/** Between two questions whether a member with watches still answers, where nothing else is asked of it. */
const PROBE_MS = 5_000;
/** Streams of single keys in one folder; one more, and the folder is followed instead, for all that come after. */
const MAX_STREAMS_IN_FOLDER = 4;

/** What a stream tells of the store, and how it names things. */
export interface WatchesOptions {
  readonly api: EtcdApi;
  /** Every key that begins with `prefix`, as etcd says it. */
  readonly range: (prefix: string) => { key: string; range_end: string };
  /** A change, with the key as the store's users name it. */
  readonly read: (event: EtcdEvent) => StoreEvent;
  /** A stream is over, or broke: what was covered is not any more, and etcd may have started anew. */
  readonly onEnd: () => void;
}

/** Whoever follows a stream: changes under its prefix, of revisions after `since`. */
interface Follower {
  readonly queue: WatchQueue;
  readonly prefix: string;
  since: number;
}

interface Stream {
  readonly prefix: string;
  readonly stop: AbortController;
  readonly followers: Set<Follower>;
  /** Resolves once the watch is in force for the first time. */
  readonly ready: Promise<void>;
  /** Every change under its prefix is told. */
  isInForce: boolean;
}

/**
 * Each stream is a connection of its own to etcd, on which it answers for ever. Whoever watches what a stream tells already, or a part of
 * it, follows that one, from the revision on that this process has seen last.
 */
export class EtcdWatches {
  private readonly options: WatchesOptions;
  private readonly streams = new Map<string, Stream>();
  /** The latest revision that an answer was of. */
  private revision = 0;
  private probing: NodeJS.Timeout | undefined;

  constructor(options: WatchesOptions) {
    this.options = options;
  }

  /** An answer of etcd's: what it is of has happened before any watch that begins from now on. */
  saw(answer: Record<string, unknown>): void {
    this.revision = Math.max(this.revision, revisionOf(answer));
  }

  /** `inForce` resolves once nothing that happens is missed. */
  watch(prefix: string, signal: AbortSignal | undefined): { queue: WatchQueue; inForce: Promise<void> } {
    const queue: WatchQueue = new WatchQueue(prefix, () => this.unfollow(stream, follower), signal);
    const follower = { queue, prefix, since: this.revision };
    // Over before it began: nobody is told to stop.
    if (signal?.aborted === true) return { queue, inForce: Promise.resolve() };
    const stream = this.streamOf(prefix);
    stream.followers.add(follower);
    return { queue, inForce: stream.ready };
  }

  /** Whether a change of a key that happens now is told. */
  covers(key: string): boolean {
    for (const { prefix, isInForce } of this.streams.values()) if (isInForce && key.startsWith(prefix)) return true;
    return false;
  }

  close(): void {
    for (const { followers } of [...this.streams.values()]) for (const { queue } of [...followers]) queue.end();
  }

  private unfollow(stream: Stream, follower: Follower): void {
    stream.followers.delete(follower);
    if (stream.followers.size > 0) return;
    stream.isInForce = false;
    stream.stop.abort();
    if (this.streams.get(stream.prefix) === stream) this.streams.delete(stream.prefix);
    if (this.streams.size > 0) return;
    clearInterval(this.probing);
    this.probing = undefined;
  }

  /** Whoever does not answer is left, with its streams. */
  private async probe(): Promise<void> {
    const [prefix] = this.streams.keys();
    if (prefix === undefined) return;
    const { api, range } = this.options;
    await api.probe('/v3/kv/range', { ...range(prefix), count_only: true, limit: '1' }, PROBE_MS);
  }

  private streamOf(prefix: string): Stream {
    const folder = folderOf(prefix);
    const known = this.streams.get(prefix) ?? this.streams.get(folder);
    if (known !== undefined) return known;
    const beside = [...this.streams.keys()].filter((other) => other !== folder && folderOf(other) === folder);
    return this.begin(beside.length < MAX_STREAMS_IN_FOLDER ? prefix : folder);
  }

  private begin(prefix: string): Stream {
    const stop = new AbortController();
    let inForce = (): void => undefined;
    const ready = new Promise<void>((resolve) => (inForce = resolve));
    const stream = { prefix, stop, followers: new Set<Follower>(), ready, isInForce: false };
    this.streams.set(prefix, stream);
    this.probing ??= unref(setInterval(() => void this.probe(), PROBE_MS));
    void this.run(stream, inForce);
    return stream;
  }

  /**
   * Watches until nobody follows. After a break whoever follows has to list again: the revisions of an etcd that started anew, empty, say
   * nothing about those before.
   */
  private async run(stream: Stream, inForce: () => void): Promise<void> {
    const { api, range, read, onEnd } = this.options;
    const { prefix, stop, followers } = stream;
    const { signal } = stop;
    let broken = false;
    let pauseMs = RETRY_MS;
    let attempt = new AbortController();
    let late: NodeJS.Timeout | undefined;
    const end = (): void => attempt.abort();
    signal.addEventListener('abort', end, { once: true });
    const onReady = (revision: number): void => {
      clearTimeout(late);
      // An etcd whose revision is lower than one that was answered before the watch began has started anew, and counts anew.
      if (broken || [...followers].some(({ since }) => since > revision)) {
        this.revision = revision;
        for (const follower of followers) follower.since = 0;
      }
      // Once the new watch is in force, so that nothing is missed between the list and it.
      if (broken) for (const follower of followers) follower.queue.push({ type: 'resync', key: follower.prefix });
      stream.isInForce = true;
      inForce();
    };
    const onEvents = (events: readonly EtcdEvent[]): void => {
      for (const event of events) {
        const [change, revision] = [read(event), Number(event.kv.mod_revision ?? Infinity)];
        for (const { queue, prefix: wanted, since } of followers)
          if (revision > since && change.key.startsWith(wanted)) queue.push({ ...change });
      }
    };
    while (!signal.aborted) {
      attempt = new AbortController();
      late = setTimeout(end, IN_FORCE_MS);
      const began = performance.now();
      await api.watch(range(prefix), onReady, onEvents, attempt.signal).catch(() => undefined);
      clearTimeout(late);
      broken = true;
      const lasted = stream.isInForce && performance.now() - began > LASTING_MS;
      stream.isInForce = false;
      onEnd();
      // Whoever waits for it goes on, and is told to list again when there is one.
      inForce();
      // What ends every watch, or refuses it, a proxy or a user without the right, is not to be asked by all workers at every moment.
      if (lasted) pauseMs = RETRY_MS;
      if (!signal.aborted) await sleep(pauseMs);
      pauseMs = Math.min(2 * pauseMs, LONGEST_RETRY_MS);
    }
    inForce();
  }
}

function folderOf(prefix: string): string {
  return prefix.slice(0, prefix.lastIndexOf('/') + 1);
}
