/** @file What happens to a simulated group in doubt: episodes, one after the other, with time to recover between them. */
import { Random, type Fault } from '@backwire/testing';
import { STORE } from './messages.ts';

/** After an episode, what follows from it may take so long. */
export const SETTLE_MS = 30_000;

/** One thing that goes wrong, and with it perhaps the store. */
export interface Episode {
  readonly kind: Kind;
  readonly at: number;
  readonly forMs: number;
  /** Who may be put out, or stop, because of it. */
  readonly harms: readonly string[];
  /** Instead: of these two parts everybody may be who is not with the oldest member. */
  readonly halves?: readonly (readonly string[])[];
  readonly faults: readonly Fault[];
  /** From whom nothing arrives at whom. */
  readonly blocks: readonly (readonly [from: string, to: string])[];
}

const KINDS = ['death', 'stall', 'outage', 'pair', 'one way', 'minority', 'halves', 'store with few'] as const;
export type Kind = (typeof KINDS)[number];

/** Everything about a run, as data. */
export interface DoubtScenario {
  readonly seed: number;
  readonly workers: number;
  readonly episodes: readonly Episode[];
  /** Who has a link to whom from the start, besides those that are made when somebody is in doubt. */
  readonly linked: readonly (readonly [string, string])[];
}

const EPISODES = 5;
/** Until all have joined. */
const START_MS = 20_000;
const LONGEST_MS = 12_000;

export function drawScenario(seed: number, kinds: readonly Kind[] = KINDS): DoubtScenario {
  const random = new Random(seed);
  const workers = random.int(3, 8);
  const nodes = nodesOf(workers);
  const episodes: Episode[] = [];
  let at = START_MS;
  for (let i = 0; i < EPISODES; i++) {
    const episode = drawEpisode(random, random.pick(kinds), at, nodes);
    episodes.push(episode);
    at += episode.forMs + SETTLE_MS + 10_000;
  }
  const linked = nodes.flatMap((a) => nodes.filter((b) => a < b && random.chance(0.6)).map((b) => [a, b] as const));
  return { seed, workers, episodes, linked };
}

export function nodesOf(workers: number): string[] {
  return Array.from({ length: workers }, (_, i) => `w${i}`);
}

function drawEpisode(random: Random, kind: Kind, at: number, nodes: readonly string[]): Episode {
  const forMs = random.int(4_000, LONGEST_MS);
  const [one = '', other = '', ...rest] = random.shuffle(nodes);
  const whole = { kind, at, forMs, harms: [], blocks: [] };
  // With the store there, stopped for longer, or started anew with nothing in it.
  const store = random.pick(['there', 'stopped', 'anew'] as const);
  const begins = Math.max(0, at - 3_000);
  const longMs = forMs + 8_000;
  const outage: Fault[] =
    store === 'there'
      ? []
      : store === 'stopped'
        ? [{ kind: 'pause', at: begins, node: STORE, forMs: longMs }]
        : [{ kind: 'crash', at: begins, node: STORE, restartAfterMs: longMs }];
  switch (kind) {
    case 'death':
      // Dead until all must have noticed.
      return {
        ...whole,
        harms: [one],
        faults: [...outage, { kind: 'crash', at, node: one, restartAfterMs: forMs + SETTLE_MS }],
      };
    case 'stall':
      // While the store answers, a worker that stands still loses its lease; while it does not, nobody can tell.
      return {
        ...whole,
        harms: store === 'there' ? [one] : [],
        faults: [...outage, { kind: 'pause', at, node: one, forMs }],
      };
    case 'outage':
      return {
        ...whole,
        faults: [{ kind: random.chance(0.5) ? 'pause' : 'crash', at, node: STORE, forMs, restartAfterMs: forMs }],
      };
    case 'pair':
      return { ...whole, faults: outage, blocks: between([one], [other]) };
    case 'one way':
      return { ...whole, faults: outage, blocks: [[one, other]] };
    case 'minority': {
      const few = [one, other, ...rest].slice(0, random.int(1, Math.ceil(nodes.length / 2)));
      const most = nodes.filter((node) => !few.includes(node));
      const alone = random.chance(0.5) ? [STORE] : [];
      return { ...whole, harms: few, faults: outage, blocks: between(few, [...most, ...alone]) };
    }
    case 'halves': {
      const half = [one, other, ...rest].slice(0, Math.ceil(nodes.length / 2));
      const halves = [half, nodes.filter((node) => !half.includes(node))];
      // Without equal halves there is a majority, and that one stays.
      const even = nodes.length % 2 === 0;
      return {
        ...whole,
        ...(even ? { halves } : { harms: halves[1] ?? [] }),
        faults: [],
        blocks: between(half, halves[1] ?? []),
      };
    }
    case 'store with few': {
      const few = [one, other, ...rest].slice(0, random.int(1, Math.ceil(nodes.length / 2)));
      const most = nodes.filter((node) => !few.includes(node));
      // The majority decides without the store, and the store's side without the majority: one of them is overruled.
      return { ...whole, harms: nodes, faults: [], blocks: between([...few, STORE], most) };
    }
  }
}

function between(these: readonly string[], those: readonly string[]): (readonly [string, string])[] {
  return these.flatMap((a) => those.flatMap((b) => [[a, b] as const, [b, a] as const]));
}
