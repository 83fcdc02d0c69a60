/** @file A recurrent layer over a sequence as one operation: what it reads and makes, and where that lies. */

/** Kinds of layers: 'rnn' has no gates, and tanh or relu. */
export type Recurrence = 'lstm' | 'gru' | 'rnn';

export interface LayerSize {
  readonly steps: number;
  /** Sequences side by side. */
  readonly rows: number;
  readonly hidden: number;
  /** From the last step to the first. */
  readonly backwards: boolean;
}

interface Parts {
  /** Parts of the weights, each of `hidden` rows. */
  readonly gates: number;
  /** States of a sequence; the first is the output. */
  readonly states: number;
  /** Values of each unit that a step saves for the way back. */
  readonly saved: number;
}

export const PARTS: Readonly<Record<Recurrence, Parts>> = {
  // Saves the open gates.
  lstm: { gates: 4, states: 2, saved: 4 },
  // Saves the open gates, and what of the new one was reset.
  gru: { gates: 3, states: 1, saved: 4 },
  rnn: { gates: 1, states: 1, saved: 0 },
};

/** Where what belongs to a step lies. */
interface Step {
  /** Which of the steps of the sequence it is. */
  readonly number: number;
  /** The states after it and before it, each [rows, hidden]. */
  readonly after: readonly number[];
  readonly before: readonly number[];
  /** [rows, saved · hidden]. */
  readonly saved: number;
}

/**
 * What a layer makes: its states, each [steps + 1, rows, hidden] in the order of time, then what is saved, [steps, rows, saved · hidden]. All
 * places are elements from its start.
 */
export interface LayerLayout extends Parts {
  /** Elements of a state of one step. */
  readonly state: number;
  /** Elements of all that is made. */
  readonly size: number;
  /** Where the outputs of all steps begin, and where what each step began with. */
  readonly outputs: number;
  readonly before: number;
  /** Where the states that the sequences end with are. */
  readonly last: readonly number[];
  /** The steps in the order in which they are computed. */
  readonly order: () => Step[];
}

export function layoutOf(kind: Recurrence, { steps, rows, hidden, backwards }: LayerSize): LayerLayout {
  const parts = PARTS[kind];
  const state = rows * hidden;
  const all = (steps + 1) * state;
  const states = (place: number): number[] => Array.from({ length: parts.states }, (_, k) => k * all + place * state);
  const step = (i: number): Step => {
    const number = backwards ? steps - 1 - i : i;
    const [before, after] = backwards ? [number + 1, number] : [number, number + 1];
    const saved = parts.states * all + number * parts.saved * state;
    return { number, after: states(after), before: states(before), saved };
  };
  return {
    ...parts,
    state,
    size: parts.states * all + steps * parts.saved * state,
    outputs: backwards ? 0 : state,
    before: backwards ? state : 0,
    last: states(backwards ? 0 : steps),
    order: () => Array.from({ length: steps }, (_, i) => step(i)),
  };
}

/** What a layer makes on the way back: gradients, of what inputs give the gates first. */
export interface GatesLayout {
  /** Elements of the gradients of all steps' gates, [steps · rows, gates · hidden]. */
  readonly all: number;
  /** Where those of the products with the weights begin: they are the same but of a GRU, whose new gate does not only add them to the inputs'. */
  readonly products: number;
  /** Where those of the states to begin with are; none if they are not wanted. */
  readonly start: readonly number[];
  readonly size: number;
}

export function gatesLayoutOf(
  kind: Recurrence,
  { steps, rows, hidden }: Omit<LayerSize, 'backwards'>,
  starts: boolean,
): GatesLayout {
  const { gates, states } = PARTS[kind];
  const state = rows * hidden;
  const all = steps * gates * state;
  const products = kind === 'gru' ? all : 0;
  const start = Array.from({ length: starts ? states : 0 }, (_, k) => products + all + k * state);
  return { all, products, start, size: products + all + start.length * state };
}
