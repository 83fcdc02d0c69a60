/** @file What workers print: cut into lines, prefixed, kept for reports, copied to files. */
import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs';
import { join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import type { Readable, Writable } from 'node:stream';
import { MAX_LINE_CHARS, MAX_REPORT_LINE_CHARS, STDERR_TAIL_LINES } from './limits.ts';

/** Where lines of many workers go. Sources that fill it faster than it drains are paused. */
export class Console {
  private readonly sink: Writable;
  private readonly waiting = new Set<Readable>();
  private broken = false;

  /** Does not own `sink`. */
  constructor(sink: Writable) {
    this.sink = sink;
    sink.on('drain', () => {
      for (const source of this.waiting) source.resume();
      this.waiting.clear();
    });
    // Nobody reads any more (`| head`): the workers go on without being heard.
    sink.on('error', () => {
      this.broken = true;
      for (const source of this.waiting) source.resume();
      this.waiting.clear();
    });
  }

  write(text: string, source: Readable): void {
    if (this.broken || this.sink.write(text)) return;
    this.waiting.add(source);
    source.pause();
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
      onLine(rest.slice(0, MAX_LINE_CHARS));
      rest = rest.slice(MAX_LINE_CHARS);
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

/** The files of one worker's output, opened when first written to. */
export class LogFiles {
  private readonly folder: string;
  private readonly open = new Map<string, WriteStream>();
  private readonly onError: (error: Error) => void;

  /** `onError` is told once a file cannot be written; later lines of it are dropped. */
  constructor(folder: string, onError: (error: Error) => void) {
    this.folder = folder;
    this.onError = onError;
  }

  write(stream: 'stdout' | 'stderr', line: string): void {
    let file = this.open.get(stream);
    if (file === undefined) {
      mkdirSync(this.folder, { recursive: true });
      file = createWriteStream(join(this.folder, `${stream}.log`), { flags: 'a' });
      file.on('error', this.onError);
      this.open.set(stream, file);
    }
    file.write(`${line}\n`);
  }

  close(): void {
    for (const file of this.open.values()) file.end();
    this.open.clear();
  }
}
