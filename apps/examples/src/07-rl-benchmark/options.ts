/** @file The flags of the benchmark, one of which may be a list: it becomes the x axis. */
import { count, type Flag, OptionError, type OptionsOf, text, wholeNumber } from '../shared/flags.ts';

const VARIABLES = ['world-size', 'batch', 'state-size', 'nlayers', 'out-features'] as const;
export type Variable = (typeof VARIABLES)[number];

const list = (placeholder: string, help: string, fallback: string): Flag<string> =>
  text(placeholder, `${help}; may be a list with commas`, fallback);

export const flags = {
  'world-size': list('N', 'processes: a coordinator, an agent and observers, at least 3', '10'),
  'master-addr': text('HOST', 'where the processes meet', '127.0.0.1'),
  'master-port': count('its port; 0 = any free one', 0, { least: 0, most: 65_535 }),
  batch: list('BOOL', 'whether the agent answers all observers with one forward pass', 'true'),
  'state-size': list('A-B-C', 'the dimensions of a state', '10-20-10'),
  nlayers: list('N', "layers of the agent's model after the first", '5'),
  'out-features': list('N', 'the width of the layers', '10'),
  'output-file-path': text('FILE', 'the report; the chart is beside it', 'benchmark_report.json'),
  episodes: count('episodes', 10, { most: 100_000 }),
  steps: count('steps of an episode', 100, { most: 1_000_000 }),
} as const;
export type Flags = OptionsOf<typeof flags>;

/** One run. */
export interface Setting {
  readonly worldSize: number;
  readonly batch: boolean;
  readonly stateSize: readonly number[];
  readonly nlayers: number;
  readonly outFeatures: number;
  readonly episodes: number;
  readonly steps: number;
}

/** The flag that is a list and its values; undefined when none is. @throws OptionError when two are. */
export function variableOf(given: Flags): { name: Variable; values: readonly string[] } | undefined {
  const lists = VARIABLES.filter((name) => given[name].includes(','));
  if (lists.length > 1)
    throw new OptionError(
      `Only 1 x axis graph variable allowed, got ${lists.map((name) => `--${name}`).join(' and ')}`,
    );
  const [name] = lists;
  return name === undefined ? undefined : { name, values: given[name].split(',') };
}

/** The run that `given` stands for, which holds no list. @throws OptionError */
export function settingOf(given: Flags): Setting {
  return {
    worldSize: wholeNumber('world-size', given['world-size'], 3, 256),
    batch: boolean(given.batch),
    stateSize: given['state-size'].split('-').map((size) => wholeNumber('state-size', size, 1, 65_536)),
    nlayers: wholeNumber('nlayers', given.nlayers, 0, 1_000),
    outFeatures: wholeNumber('out-features', given['out-features'], 1, 65_536),
    episodes: given.episodes,
    steps: given.steps,
  };
}

/** The value of the variable as a report holds it. */
export function reported(name: Variable, value: string): string | number | boolean {
  if (name === 'batch') return boolean(value);
  return name === 'state-size' ? value : Number(value);
}

/** 'coordinator', 'agent', then 'observer2' and on. */
export function nameOf(rank: number): string {
  return rank === 0 ? 'coordinator' : rank === 1 ? 'agent' : `observer${rank}`;
}

function boolean(value: string): boolean {
  if (['yes', 'true', 't', 'y', '1'].includes(value.toLowerCase())) return true;
  if (['no', 'false', 'f', 'n', '0'].includes(value.toLowerCase())) return false;
  throw new OptionError(`--batch has to be true or false, got '${value}'`);
}
