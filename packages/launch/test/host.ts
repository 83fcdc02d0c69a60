/** @file One host of a group in the tests: a launch of this process, what it says, and how it is told to end. */
import { Writable } from 'node:stream';
import { launch, type LaunchOptions, type LaunchResult } from '../src/index.ts';

export class LaunchedHost {
  readonly abort = new AbortController();
  readonly result: Promise<LaunchResult>;
  text = '';

  constructor(options: LaunchOptions) {
    const take = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        this.text += chunk.toString();
        done();
      },
    });
    this.result = launch({
      native: true,
      signals: [],
      stdout: take,
      stderr: take,
      signal: this.abort.signal,
      ...options,
    });
  }
}
