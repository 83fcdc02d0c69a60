/** @file Progress of several workers: bars on a terminal, plain lines elsewhere. */
import { MultiBar, type SingleBar } from 'cli-progress';
import type { WriteStream } from 'node:tty';

/** Where one worker stands. */
export interface Step {
  readonly done: number;
  readonly total: number;
  readonly loss: number;
}

export interface Progress {
  update(name: string, step: Step): void;
  /** A line of text among the bars. */
  say(line: string): void;
  stop(): void;
}

/** Bars when `stream` is a terminal, else a line per tenth of the way. */
export function progress(names: readonly string[], stream: NodeJS.WriteStream | WriteStream): Progress {
  return stream.isTTY ? new Bars(names, stream) : new Lines(stream);
}

class Bars implements Progress {
  private readonly multi: MultiBar;
  private readonly bars: ReadonlyMap<string, SingleBar>;
  private stopped = false;

  constructor(names: readonly string[], stream: NodeJS.WriteStream) {
    this.multi = new MultiBar({
      format: ' {name} {bar} {percentage}% | {value}/{total} batches | loss {loss} | {eta_formatted} left',
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
    this.bars = new Map(names.map((name) => [name, this.multi.create(1, 0, { name: name.padEnd(width), loss: '-' })]));
  }

  update(name: string, { done, total, loss }: Step): void {
    const bar = this.bars.get(name);
    bar?.setTotal(total);
    bar?.update(done, { loss: loss.toFixed(4) });
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

  constructor(stream: NodeJS.WritableStream) {
    this.stream = stream;
  }

  update(name: string, { done, total, loss }: Step): void {
    const tenth = Math.floor((10 * done) / total);
    if (tenth === (this.tenths.get(name) ?? 0)) return;
    this.tenths.set(name, tenth);
    this.say(`${name}: ${done} of ${total} batches, loss ${loss.toFixed(4)}`);
  }

  say(line: string): void {
    this.stream.write(`${line}\n`);
  }

  stop(): void {
    // Every line is complete.
  }
}
