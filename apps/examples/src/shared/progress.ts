/** @file Progress of several workers: bars on a terminal, plain lines elsewhere. */
import { MultiBar, type SingleBar } from 'cli-progress';
import type { WriteStream } from 'node:tty';

/** Where one worker stands. */
export interface Step {
  readonly done: number;
  readonly total: number;
  /** What is worth watching: a loss, a reward. */
  readonly value: number;
}

/** What is counted, and what is watched. */
export interface ProgressWords {
  /** @default 'batches' */
  readonly unit?: string;
  /** @default 'loss' */
  readonly value?: string;
}

export interface Progress {
  update(name: string, step: Step): void;
  /** A line of text among the bars. */
  say(line: string): void;
  stop(): void;
}

/** Bars when `stream` is a terminal, else a line per tenth of the way. */
export function progress(
  names: readonly string[],
  stream: NodeJS.WriteStream | WriteStream,
  words: ProgressWords = {},
): Progress {
  const { unit = 'batches', value = 'loss' } = words;
  return stream.isTTY ? new Bars(names, stream, { unit, value }) : new Lines(stream, { unit, value });
}

class Bars implements Progress {
  private readonly multi: MultiBar;
  private readonly bars: ReadonlyMap<string, SingleBar>;
  private stopped = false;

  constructor(names: readonly string[], stream: NodeJS.WriteStream, words: Required<ProgressWords>) {
    this.multi = new MultiBar({
      format: ` {name} {bar} {percentage}% | {value}/{total} ${words.unit} | ${words.value} {watched} | {eta_formatted} left`,
      stream,
      barCompleteChar: '█',
      barIncompleteChar: '░',
      // The process may be killed at any time: nothing may be left to undo, and a signal has to end it.
      hideCursor: false,
      gracefulExit: false,
      // A line among the bars writes over them, whether they have changed or not.
      forceRedraw: true,
      clearOnComplete: false,
      fps: 8,
    });
    const width = Math.max(...names.map(({ length }) => length));
    this.bars = new Map(
      names.map((name) => [name, this.multi.create(1, 0, { name: name.padEnd(width), watched: '-' })]),
    );
  }

  update(name: string, { done, total, value }: Step): void {
    const bar = this.bars.get(name);
    bar?.setTotal(total);
    bar?.update(done, { watched: shown(value) });
  }

  say(line: string): void {
    this.multi.log(`${line}\n`);
    // Lines are only shown when the bars are drawn again, and after the last one nothing may draw them.
    this.multi.update();
  }

  stop(): void {
    // Stopping again would draw over what has been printed since.
    if (this.stopped) return;
    this.stopped = true;
    this.multi.stop();
  }
}

class Lines implements Progress {
  private readonly stream: NodeJS.WritableStream;
  private readonly tenths = new Map<string, number>();

  private readonly words: Required<ProgressWords>;

  constructor(stream: NodeJS.WritableStream, words: Required<ProgressWords>) {
    this.stream = stream;
    this.words = words;
  }

  update(name: string, { done, total, value }: Step): void {
    const tenth = Math.floor((10 * done) / total);
    if (tenth === (this.tenths.get(name) ?? 0)) return;
    this.tenths.set(name, tenth);
    this.say(`${name}: ${done} of ${total} ${this.words.unit}, ${this.words.value} ${shown(value)}`);
  }

  say(line: string): void {
    this.stream.write(`${line}\n`);
  }

  stop(): void {
    // Every line is complete.
  }
}

/** Four decimals for small numbers, one for large ones. */
function shown(value: number): string {
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 4);
}
