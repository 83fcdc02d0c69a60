/** @file Runs an example as a group of real processes and keeps what it prints; for tests. */
import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { launch, type LaunchOptions, type LaunchResult } from '@backwire/launch';

export interface Launched extends LaunchResult {
  readonly output: string;
  readonly errors: string;
}

/** Runs `program` from source to its end. Colours, which FORCE_COLOR may ask for, are taken out of what it printed. */
export async function launched(program: string, options: Partial<LaunchOptions> = {}): Promise<Launched> {
  let output = '';
  let errors = '';
  const keep = (take: (text: string) => void): Writable =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        take(chunk.toString());
        done();
      },
    });
  const result = await launch({
    program,
    execArgv: ['--import', 'tsx', '--conditions=@backwire/source'],
    stdout: keep((text) => (output += text)),
    stderr: keep((text) => (errors += text)),
    ...options,
  });
  return { ...result, output: stripVTControlCharacters(output), errors: stripVTControlCharacters(errors) };
}
