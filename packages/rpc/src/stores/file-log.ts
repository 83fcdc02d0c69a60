/** @file A log of operations as files of a directory, in one order that every process agrees on, without locks. */
import { link, mkdir, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { bareText, invalidArgument, RpcError } from '../base/errors.ts';
import { newId } from '../base/ids.ts';
import { sleep, within } from '../base/within.ts';
import { MAX_KEY_BYTES, MAX_LEASES, MAX_STORE_BYTES, MAX_STORE_KEYS, MAX_VALUE_BYTES } from './limits.ts';
import { FRAME_HEAD_BYTES, Op, Reader, blob, frame, i64, u32 } from './protocol.ts';
import { StoreState, type StoreDump } from './state.ts';

/*
 * log/0000000000000001, …: one operation each, made complete under another name and then linked, so that of all who try to be number n
 * exactly one succeeds and nobody reads half of it. The contents of the store are what the operations make of an empty one.
 * snapshots/<n>: the contents after operation n, so that older operations can be deleted. beats/<lease>: changes as its holder lives.
 * id: another text in a folder that was emptied and is used again, whose operations are not those after the ones that are known.
 */

/** A snapshot is made, and older operations deleted, once in so many. */
export const SNAPSHOT_EVERY = 512;
/** Times an operation may lose the race for the next number before it is given up: others are making progress all the while. */
const MAX_TRIES = 10_000;
/** Times a snapshot that is listed may not be there, and how long until it is looked for again. */
const MAX_MISSES = 100;
const MISS_MS = 20;
/** A file system that takes longer for what a store does is out of reach. */
const ANSWER_MS = 30_000;
/** What is larger was not written by a store. */
const MAX_ENTRY_BYTES = MAX_KEY_BYTES + MAX_VALUE_BYTES + 64;
const MAX_SNAPSHOT_BYTES = MAX_STORE_BYTES + 64 * MAX_LEASES;
const MAX_ID_BYTES = 64;
const EMPTY: StoreDump = { nextLease: 1, leases: [], entries: [] };
/** Other programs leave files of their own: .nfs…, .DS_Store. */
const LOG_NAME = /^\d{16}$/;
const SNAPSHOT_NAME = /^[1-9]\d{0,14}$/;

/** What becomes of the contents beside the operations that are read. */
export interface LogEvents {
  /** Operations had been deleted before they were read: the contents are those after them. */
  skipped(): void;
  /** The folder was emptied and is used again: its contents and leases are others. */
  emptied(): void;
}

export class FileLog {
  readonly state = new StoreState();
  private readonly directory: string;
  private applied = 0;
  private tail: Promise<unknown> = Promise.resolve();
  private readonly events: LogEvents;
  private readonly answerMs: number;
  /** Turns that have not ended, and when the last of them began. */
  private waiting = 0;
  private movedAt = 0;
  /** What the folder was called when it was read first. */
  private id: string | undefined;

  constructor(directory: string, events: LogEvents, answerMs = ANSWER_MS) {
    this.directory = directory;
    this.events = events;
    this.answerMs = answerMs;
  }

  /** @throws RpcError 'unavailable' when the directory cannot be made or written. */
  async open(): Promise<void> {
    try {
      for (const part of ['log', 'snapshots', 'beats', 'new']) await makeFolder(join(this.directory, part));
      const id = join(this.directory, 'id');
      if ((await readIfThere(id, MAX_ID_BYTES)) === undefined) await this.place(Buffer.from(newId()), id);
    } catch (error) {
      const text = `the store in '${this.directory}' cannot be opened: ${reasonOf(error)}`;
      throw new RpcError('unavailable', text, { cause: error });
    }
    await this.sync();
  }

  /** Reads what others have done. */
  sync(): Promise<void> {
    return this.exclusive(() => this.catchUp());
  }

  /**
   * Does one operation: `plan` sees the contents as they are and gives the operation, or undefined when there is nothing to do; it is
   * asked again whenever another process was faster. The result is that of applying it.
   */
  perform<T>(
    plan: (state: StoreState) => { entry: Uint8Array; apply: (state: StoreState) => T } | { result: T },
  ): Promise<T> {
    return this.exclusive(async () => {
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        await this.catchUp();
        const planned = plan(this.state);
        if ('result' in planned) return planned.result;
        if (!(await this.append(planned.entry))) continue;
        this.applied++;
        const result = planned.apply(this.state);
        // The operation is done, whatever becomes of this: the next one in so many is tried again.
        if (this.applied % SNAPSHOT_EVERY === 0) await this.snapshot().catch(() => undefined);
        return result;
      }
      throw new RpcError('resource-exhausted', `the store in '${this.directory}' is written by too many at once`);
    });
  }

  beatPath(lease: number): string {
    return join(this.directory, 'beats', String(lease));
  }

  /** Does `work` when all before it is done. @throws RpcError 'unavailable' when the file system refuses it or does not answer in time. */
  async exclusive<T>(work: () => Promise<T>): Promise<T> {
    let state: 'waits' | 'runs' | 'late' = 'waits';
    const late = (): RpcError => {
      const executed = state === 'runs' ? 'maybe' : 'no';
      state = 'late';
      const text = `the store in '${this.directory}' has not answered in ${this.answerMs} ms: its file system is out of reach, or too slow`;
      return new RpcError('unavailable', text, { executed });
    };
    const turn = this.tail.then(() => {
      // Nobody waits for it any more, and whoever asked was told that it is not done.
      if (state === 'late') throw late();
      state = 'runs';
      this.movedAt = performance.now();
      return work();
    });
    this.tail = turn.catch(() => undefined);
    if (this.waiting++ === 0) this.movedAt = performance.now();
    try {
      return await this.inTime(turn, late);
    } catch (error) {
      if (error instanceof RpcError) throw error;
      const text = `the store in '${this.directory}' cannot be used: ${reasonOf(error)}`;
      throw new RpcError('unavailable', text, { executed: 'maybe', cause: error });
    }
  }

  /** What `turn` comes to; `late` where for so long none of the turns up to it has begun. */
  private async inTime<T>(turn: Promise<T>, late: () => RpcError): Promise<T> {
    try {
      for (let left = this.answerMs; left > 0; left = this.movedAt + this.answerMs - performance.now()) {
        const found = await within<{ readonly value: T } | undefined, undefined>(
          turn.then((value) => ({ value })),
          left,
          () => undefined,
        );
        if (found !== undefined) return found.value;
      }
      throw late();
    } finally {
      this.waiting--;
    }
  }

  /** Forgets everything when the folder is not the one it was: somebody emptied it, and it is used again. */
  private async recognise(): Promise<void> {
    const bytes = await readIfThere(join(this.directory, 'id'), MAX_ID_BYTES);
    if (bytes === undefined)
      throw new RpcError(
        'unavailable',
        `the store in '${this.directory}' was removed; a worker that starts makes it again`,
      );
    const id = Buffer.from(bytes).toString();
    if (this.id !== undefined && this.id !== id) {
      this.state.restore(EMPTY);
      this.applied = 0;
      this.events.emptied();
    }
    this.id = id;
  }

  private async catchUp(): Promise<void> {
    await this.recognise();
    let misses = 0;
    for (;;) {
      const entry = await readIfThere(this.logPath(this.applied + 1), MAX_ENTRY_BYTES);
      if (entry !== undefined) {
        this.applied++;
        applyEntry(this.state, entry);
        continue;
      }
      const newest = (await this.snapshots()).at(-1) ?? 0;
      if (newest <= this.applied) return;
      // Ours was deleted as older than the snapshot.
      const image = await readIfThere(this.snapshotPath(newest), MAX_SNAPSHOT_BYTES);
      if (image === undefined) {
        // Deleted in between as older than the next one, which is there then, unless the file system lags behind.
        if (++misses > MAX_MISSES)
          throw new RpcError('unavailable', `snapshot ${newest} of the store in '${this.directory}' cannot be read`);
        await sleep(MISS_MS);
        continue;
      }
      this.state.restore(this.dumpIn(image, newest));
      this.applied = newest;
      this.events.skipped();
    }
  }

  /** Tries to be the next operation. */
  private async append(entry: Uint8Array): Promise<boolean> {
    const number = this.applied + 1;
    if (!(await this.place(entry, this.logPath(number)))) return false;
    // A number that was free because it had been deleted: whoever deletes writes the snapshot first, so it is there to be seen.
    if (((await this.snapshots()).at(-1) ?? 0) < number) return true;
    await rm(this.logPath(number), { force: true });
    return false;
  }

  /** Makes a file as a whole, where there is none yet; false where there is. */
  private async place(bytes: Uint8Array, path: string): Promise<boolean> {
    const draft = join(this.directory, 'new', newId());
    try {
      await writeFile(draft, bytes);
      await link(draft, path);
      return true;
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      throw error;
    } finally {
      // A disk that is full is not to be filled by what did not fit.
      await rm(draft, { force: true });
    }
  }

  private dumpIn(image: Uint8Array, number: number): StoreDump {
    try {
      return decodeDump(image);
    } catch (error) {
      const { code, message } = RpcError.from(error);
      const text = `snapshot ${number} of the store in '${this.directory}' cannot be read: ${bareText(code, message)}; delete it, or give another folder`;
      throw new RpcError('unavailable', text, { cause: error });
    }
  }

  private async snapshot(): Promise<void> {
    const draft = join(this.directory, 'new', newId());
    try {
      await writeFile(draft, encodeDump(this.state.dump()));
      await rename(draft, this.snapshotPath(this.applied));
    } finally {
      await rm(draft, { force: true });
    }
    for (const old of (await this.snapshots()).slice(0, -2)) await rm(this.snapshotPath(old), { force: true });
    for (const name of await readdir(join(this.directory, 'log'))) {
      if (LOG_NAME.test(name) && Number(name) <= this.applied - SNAPSHOT_EVERY)
        await rm(join(this.directory, 'log', name), { force: true });
    }
  }

  private async snapshots(): Promise<number[]> {
    const names = await readdir(join(this.directory, 'snapshots'));
    const ours = names.filter((name) => SNAPSHOT_NAME.test(name));
    return ours.map(Number).sort((a, b) => a - b);
  }

  private logPath(number: number): string {
    return join(this.directory, 'log', String(number).padStart(16, '0'));
  }

  private snapshotPath(number: number): string {
    return join(this.directory, 'snapshots', String(number));
  }
}

/** The operations of a log, each with what it does. */
export const entries = {
  set: (key: string, value: Uint8Array, lease: number | undefined) => ({
    entry: frame(Op.SET, lease ?? 0, [text(key), blob(value)]),
    apply: (state: StoreState) => state.set(key, value, lease),
  }),
  add: (key: string, delta: bigint) => ({
    entry: frame(Op.ADD, 0, [text(key), i64(delta)]),
    apply: (state: StoreState) => state.add(key, delta),
  }),
  delete: (key: string) => ({
    entry: frame(Op.DELETE, 0, [text(key)]),
    apply: (state: StoreState) => state.delete(key),
  }),
  grant: (ttlMs: number) => ({
    entry: frame(Op.GRANT, ttlMs, []),
    apply: (state: StoreState) => state.grant(ttlMs, Infinity),
  }),
  revoke: (id: number) => ({ entry: frame(Op.REVOKE, id, []), apply: (state: StoreState) => state.revoke(id) }),
};

/** An operation of another process. What failed there fails here in the same way, so there is nobody to tell. */
function applyEntry(state: StoreState, entry: Uint8Array): void {
  try {
    const head = new Reader(entry.subarray(0, FRAME_HEAD_BYTES));
    const [op, , id] = [head.u8(), head.u32(), head.u32()];
    const body = new Reader(entry.subarray(FRAME_HEAD_BYTES));
    if (op === Op.SET) state.set(body.text(), body.blob(), id === 0 ? undefined : id);
    else if (op === Op.ADD) state.add(body.text(), body.i64());
    else if (op === Op.DELETE) state.delete(body.text());
    else if (op === Op.GRANT) state.grant(id, Infinity);
    else if (op === Op.REVOKE) state.revoke(id);
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
  }
}

function encodeDump(dump: StoreDump): Uint8Array {
  const leases = dump.leases.flatMap(({ id, ttlMs }) => [u32(id), u32(ttlMs)]);
  const all = dump.entries.flatMap(({ key, value, lease }) => [text(key), blob(value), u32(lease ?? 0)]);
  return Buffer.concat([u32(dump.nextLease), u32(dump.leases.length), ...leases, u32(dump.entries.length), ...all]);
}

function decodeDump(bytes: Uint8Array): StoreDump {
  const body = new Reader(bytes);
  const nextLease = body.u32();
  const leases = Array.from({ length: body.count(8, MAX_LEASES) }, () => ({ id: body.u32(), ttlMs: body.u32() }));
  const all = Array.from({ length: body.count(12, MAX_STORE_KEYS) }, () => ({
    key: body.text(),
    value: body.blob(),
    lease: body.u32() || undefined,
  }));
  return { nextLease, leases, entries: all };
}

function text(key: string): Uint8Array {
  const bytes = new TextEncoder().encode(key);
  if (bytes.byteLength > MAX_KEY_BYTES) throw invalidArgument(`a key has at most ${MAX_KEY_BYTES} bytes`);
  return blob(bytes);
}

/**
 * Makes a folder and those above it. Node's own way never returns where the system answers that a folder which exists does not (/proc).
 * @throws the system's error.
 */
async function makeFolder(path: string): Promise<void> {
  const make = async (): Promise<void> => {
    try {
      await mkdir(path, { mode: 0o700 });
    } catch (error) {
      if (codeOf(error) !== 'EEXIST' || !(await stat(path)).isDirectory()) throw error;
    }
  };
  try {
    await make();
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || dirname(path) === path) throw error;
    await makeFolder(dirname(path));
    await make();
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A file of at most `limit` bytes; a larger one is as good as empty. */
async function readIfThere(path: string, limit: number): Promise<Uint8Array | undefined> {
  try {
    return (await stat(path)).size > limit ? new Uint8Array(0) : await readFile(path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
