/** @file `npm start`: checks the flags and the data, then starts the group and waits for it. */
import { join } from 'node:path';
import { launch, LaunchError } from '@backwire/launch';
import { OptionError, prepareOutput } from '../shared/flags.ts';
import { DataFileError } from '../shared/idx.ts';
import { readDigits } from '../shared/mnist.ts';
import { HELP, parseOptions } from './options.ts';
import { nameOf, worldSize } from './roles.ts';

async function main(argv: readonly string[]): Promise<number> {
  const options = parseOptions(argv);
  if (options === undefined) {
    process.stdout.write(HELP);
    return 0;
  }
  if (options.elastic) throw new OptionError('--elastic is for worker.ts under `backwire run --membership dynamic`');
  for (const set of ['train', 'test'] as const) readDigits(set, options.data);
  prepareOutput(options.out);
  const result = await launch({
    program: join(import.meta.dirname, 'worker.ts'),
    args: argv,
    processes: worldSize(options.trainers),
    masterPort: options.port,
    label: nameOf,
    // The coordinator draws the progress bars.
    inherit: [0],
    stopGraceMs: 1_500,
  });
  if (result.report !== undefined) console.error(result.report);
  return result.exitCode;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const expected = error instanceof OptionError || error instanceof DataFileError || error instanceof LaunchError;
  if (!expected) throw error;
  console.error(`parameter-server: ${error.message}${error instanceof OptionError ? '; see --help' : ''}`);
  process.exitCode = error instanceof OptionError ? 2 : 1;
}
