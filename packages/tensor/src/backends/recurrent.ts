/** @file The layer of an LSTM over a sequence: products of its outputs with its weights, and between them kernels of ours. */
import type { Heap } from './heap.ts';
import { at, input, numbers, whole, type Attrs, type OwnKernel } from './own-kernel.ts';
import type { Multiply } from './products.ts';
import { exported, type Call, type SimdExports } from './simd.ts';

/** Addresses of what belongs to a step in what `LstmStates` makes. */
interface Step {
  /** Which of the steps of the sequence it is. */
  readonly number: number;
  /** Outputs and cells after it and before it, [rows, hidden]. */
  readonly h: number;
  readonly c: number;
  readonly hBefore: number;
  readonly cBefore: number;
  /** [rows, 4 hidden], as they were opened. */
  readonly gates: number;
}

interface Layer {
  readonly rows: number;
  readonly hidden: number;
  /** Elements of the outputs of a step. */
  readonly state: number;
  /** The steps in the order in which they are computed, of states that lie at `states`. */
  readonly steps: (states: number) => Step[];
  /** Elements that the states have. */
  readonly size: number;
}

function layerOf(attrs: Attrs): Layer {
  const [count, rows, hidden, backwards] = numbers(attrs, ['steps', 'rows', 'hidden', 'backwards']) as [
    number,
    number,
    number,
    number,
  ];
  const state = rows * hidden;
  const all = (count + 1) * state;
  const steps = (states: number): Step[] =>
    Array.from({ length: count }, (_, i) => {
      const number = backwards === 0 ? i : count - 1 - i;
      const [before, after] = backwards === 0 ? [number, number + 1] : [number + 1, number];
      const output = (place: number): number => states + 4 * place * state;
      const cell = (place: number): number => output(place) + 4 * all;
      const gates = states + 4 * (2 * all + 4 * number * state);
      return { number, h: output(after), c: cell(after), hBefore: output(before), cBefore: cell(before), gates };
    });
  return { rows, hidden, state, steps, size: 2 * all + 4 * count * state };
}

/**
 * Attributes are `steps`, `rows` (sequences side by side), `hidden` and `backwards` (0 or 1). `LstmStates` takes x [steps rows, 4 hidden], what
 * the inputs and biases give the gates, the states h and c to begin with [rows, hidden] and the weights w [4 hidden, hidden]; it makes outputs
 * and cells, [steps + 1, rows, hidden] with those to begin with where they are in time, and the opened gates [steps, rows, 4 hidden].
 * `LstmGates` takes these as `states`, w, and the gradients of outputs, dy [steps rows, hidden], and of the last cells, dc [rows, hidden], each of
 * which may be missing; it makes the gradient of x and, where the attribute `starts` is 1, those of h and c after it.
 */
export function recurrentKernels(exports: SimdExports, multiply: Multiply): ReadonlyMap<string, OwnKernel> {
  const of = (name: string): Call => exported(exports, name);
  return new Map([
    ['LstmStates', statesKernel(of('lstmStep'), of('copyStrided'), multiply)],
    ['LstmGates', gatesKernel(of('lstmStepBack'), multiply)],
  ]);
}

function statesKernel(advance: Call, copyStrided: Call, multiply: Multiply): OwnKernel {
  return (heap, inputs, attrs) => {
    const { rows, hidden, state, steps, size } = layerOf(attrs);
    const place = (name: string): number => at(input(inputs, name));
    const [x, h, c, w] = [place('x'), place('h'), place('c'), place('w')];
    const weights = 4 * hidden * hidden;
    return heap.filled(size, (states) =>
      heap.meanwhile(whole(weights) + 4 * state, (turned) => {
        // Libraries turn an operand around at each call, which takes as long as these products.
        copyStrided(w, turned, 1, 1, hidden, 4 * hidden, 0, 0, 1, hidden);
        const product = { m: rows, n: 4 * hidden, k: hidden, turnA: false, b: turned, turnB: false };
        const given = turned + 4 * whole(weights);
        for (const [i, step] of steps(states).entries()) {
          if (i === 0) copy(heap, h, step.hBefore, state);
          if (i === 0) copy(heap, c, step.cBefore, state);
          multiply(heap, { ...product, a: step.hBefore, out: given });
          advance(x + 16 * step.number * state, given, step.cBefore, step.gates, step.c, step.h, rows, hidden);
        }
      }),
    );
  };
}

function gatesKernel(goBack: Call, multiply: Multiply): OwnKernel {
  return (heap, inputs, attrs) => {
    const { rows, hidden, state, steps } = layerOf(attrs);
    const [count, starts] = numbers(attrs, ['steps', 'starts']) as [number, number];
    const [states, w] = [at(input(inputs, 'states')), at(input(inputs, 'w'))];
    const [dy, dc] = [inputs['dy'], inputs['dc']];
    const product = { m: rows, n: hidden, k: 4 * hidden, turnA: false, b: w, turnB: false };
    const all = 4 * count * state;
    return heap.filled(all + (starts === 1 ? 2 * state : 0), (out) =>
      heap.meanwhile(2 * whole(state), (ofOutput) => {
        const ofCell = ofOutput + 4 * whole(state);
        clear(heap, ofOutput, 2 * whole(state));
        if (dc !== undefined) copy(heap, at(dc), ofCell, state);
        for (const [i, { number, gates, c, cBefore }] of steps(states).reverse().entries()) {
          const [given, ofGates] = [dy === undefined ? 0 : at(dy) + 4 * number * state, out + 16 * number * state];
          goBack(given, ofOutput, ofCell, gates, c, cBefore, ofGates, rows, hidden);
          if (i < count - 1 || starts === 1) multiply(heap, { ...product, a: ofGates, out: ofOutput });
        }
        if (starts !== 1) return;
        copy(heap, ofOutput, out + 4 * all, state);
        copy(heap, ofCell, out + 4 * (all + state), state);
      }),
    );
  };
}

function copy(heap: Heap, from: number, to: number, count: number): void {
  new Uint8Array(heap.memory.buffer).copyWithin(to, from, from + 4 * count);
}

function clear(heap: Heap, from: number, count: number): void {
  new Uint8Array(heap.memory.buffer, from, 4 * count).fill(0);
}
