/** @file What workers print: cut into lines, prefixed, kept for reports; copied to files as it is. */
import { createWriteStream, mkdirSync, statSync, type WriteStream } from 'node:fs';
import { dirname, join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import type { Readable, Writable } from 'node:stream';
import { codeOf } from './errors.ts';
import { MAX_LINE_CHARS, MAX_REPORT_LINE_CHARS, STDERR_TAIL_LINES } from './limits.ts';

/** Who is behind with what a source wrote: it flows again when the last of them has caught up. */
const holds = new WeakMap<Readable, Set<unknown>>();

function hold(source: Readable, by: unknown): void {
  const all = holds.get(source) ?? new Set();
  holds.set(source, all.add(by));
  source.pause();
}

function release(source: Readable, by: unknown): void {
  const all = holds.get(source);
  if (all?.delete(by) === true && all.size === 0) source.resume();
}

/**
 * Grows with what was written to a stream and nobody has taken, and shrinks with every byte that is read of it. What many writes have left
 * behind goes out in one, until whose end `writableLength` stays the same: the number of the system below it does not.
 */
export function untaken(sink: Writable): number {
  const { _handle: handle } = sink as { _handle?: { readonly writeQueueSize?: number } | null };
  return sink.writableLength + (handle?.writeQueueSize ?? 0);
}

/** Where lines of many workers go. Sources that fill it faster than it drains are paused. */
export class Console {
  private readonly sink: Writable;
  private readonly waiting = new Set<Readable>();
  private broken = false;

  /** Does not own `sink`. */
  constructor(sink: Writable) {
    this.sink = sink;
    const goOn = (): void => {
      for (const source of this.waiting) release(source, this);
      this.waiting.clear();
    };
    sink.on('drain', goOn);
    // Nobody reads any more (`| head`): the workers go on without being heard.
    sink.on('error', () => {
      this.broken = true;
      goOn();
    });
  }

  write(text: string, source: Readable): void {
    if (this.broken || this.sink.write(text)) return;
    this.waiting.add(source);
    hold(source, this);
  }
}

const consoles = new WeakMap<Writable, Console>();

/** The one Console of a stream, so that many groups in one process listen to it only once. */
export function consoleOf(sink: Writable): Console {
  let found = consoles.get(sink);
  if (found === undefined) consoles.set(sink, (found = new Console(sink)));
  return found;
}

/** The last lines of a stream. */
export class Tail {
  private readonly kept: string[] = [];

  push(line: string): void {
    this.kept.push(line.length > MAX_REPORT_LINE_CHARS ? `${line.slice(0, MAX_REPORT_LINE_CHARS)}…` : line);
    if (this.kept.length > STDERR_TAIL_LINES) this.kept.shift();
  }

  lines(): readonly string[] {
    return this.kept;
  }
}

/** Calls `onLine` for each line of `source` without its newline; an unfinished one at the end counts too. */
export function eachLine(source: Readable, onLine: (line: string) => void): void {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  source.on('data', (chunk: Buffer) => {
    rest += decoder.write(chunk);
    for (let newline = rest.indexOf('\n'); newline >= 0; newline = rest.indexOf('\n')) {
      onLine(rest.slice(0, newline).replace(/\r$/, ''));
      rest = rest.slice(newline + 1);
    }
    while (rest.length > MAX_LINE_CHARS) {
      // Not inside of a character: its halves would both be lost.
      const end = isHighSurrogate(rest.charCodeAt(MAX_LINE_CHARS - 1)) ? MAX_LINE_CHARS - 1 : MAX_LINE_CHARS;
      onLine(rest.slice(0, end));
      rest = rest.slice(end);
    }
  });
  let ended = false;
  const end = (): void => {
    if (ended) return;
    ended = true;
    rest += decoder.end();
    if (rest !== '') onLine(rest);
    rest = '';
  };
  source.on('end', end);
  source.on('close', end);
  source.on('error', end);
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** The files of one worker's output, opened when first written to. */
export class LogFiles {
  private readonly folder: string;
  /** null = it cannot be written. */
  private readonly open = new Map<string, WriteStream | null>();
  private readonly onError: (error: Error) => void;

  /** `onError` is told once a file cannot be written; the rest of it is dropped. */
  constructor(folder: string, onError: (error: Error) => void) {
    this.folder = folder;
    this.onError = onError;
  }

  /** The bytes as they came: a file is read by programs too. A disk that is slower than `source` makes it wait. */
  write(stream: 'stdout' | 'stderr', bytes: Buffer, source: Readable): void {
    let file = this.open.get(stream);
    if (file === undefined) this.open.set(stream, (file = this.create(stream, source)));
    if (file === null || file.write(bytes)) return;
    hold(source, file);
  }

  /** Resolves once all that was written is in the files, or cannot be: whoever hears of the end may read them. */
  async close(): Promise<void> {
    await Promise.all([...this.open.values()].map(ended));
    this.open.clear();
  }

  private create(stream: 'stdout' | 'stderr', source: Readable): WriteStream | null {
    try {
      makeFolder(this.folder);
    } catch (error) {
      this.onError(error as Error);
      return null;
    }
    const file = createWriteStream(join(this.folder, `${stream}.log`), { flags: 'a' });
    file.on('drain', () => release(source, file));
    file.on('error', (error) => {
      this.open.set(stream, null);
      release(source, file);
      this.onError(error);
    });
    return file;
  }
}

function ended(file: WriteStream | null): Promise<void> {
  return new Promise((resolve) => {
    if (file === null || file.closed) return resolve();
    file.once('close', resolve);
    file.end();
  });
}

/**
 * Makes a folder and those above it. Node's own way never returns where the system answers that a folder which exists does not (/proc).
 * @throws the system's error.
 */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    const code = codeOf(error);
    if (code === 'EEXIST' && statSync(path).isDirectory()) return;
    if (code !== 'ENOENT' || dirname(path) === path) throw error;
    makeFolder(dirname(path));
    try {
      mkdirSync(path);
    } catch (again) {
      if (codeOf(again) !== 'EEXIST') throw again;
    }
  }
}
