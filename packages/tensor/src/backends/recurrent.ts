/** @file Recurrent layers over a sequence: products of their outputs with their weights, and between them kernels of ours. */
import { gatesLayoutOf, layoutOf, type LayerLayout, type Recurrence } from '../recurrent-layout.ts';
import type { Heap } from './heap.ts';
import { at, input, numbers, whole, type Attrs, type Inputs, type OwnKernel } from './own-kernel.ts';
import type { Multiply } from './products.ts';
import { exported, type Call, type SimdExports } from './simd.ts';

/** A step of a layer. Addresses. */
interface Forward {
  /** What inputs, and what the last output gives the gates, [rows, gates · hidden]. */
  readonly x: number;
  readonly u: number;
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly saved: number;
}

/** A step on the way back. Addresses. */
interface Backward {
  /** Gradients of its outputs, 0 where none are given, and of what the step after it made of them by a product. */
  readonly dy: number;
  readonly dh: number;
  /** Of what goes from step to step without a product: of an LSTM its cells, of a GRU what it keeps of its outputs; the step's own come in its place. */
  readonly kept: number;
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly saved: number;
  /** For the gradients of `x` and `u`, which are the same place where they are the same. */
  readonly ofInputs: number;
  readonly ofOutput: number;
}

interface Sizes extends LayerLayout {
  readonly steps: number;
  readonly rows: number;
  readonly hidden: number;
}

/** What a kind of layer does between its products. */
interface Between {
  readonly forward: (step: Forward, sizes: Sizes, inputs: Inputs, attrs: Attrs) => void;
  readonly backward: (step: Backward, sizes: Sizes, attrs: Attrs) => void;
}

function sizesOf(kind: Recurrence, attrs: Attrs): Sizes {
  const [steps, rows, hidden, backwards] = numbers(attrs, ['steps', 'rows', 'hidden', 'backwards']);
  return { ...layoutOf(kind, { steps, rows, hidden, backwards: backwards === 1 }), steps, rows, hidden };
}

/**
 * Attributes are `steps`, `rows` (sequences side by side), `hidden` and `backwards` (0 or 1), of an RNN also `relu`. `…States` takes x
 * [steps rows, gates hidden], what the inputs and biases give the gates, the states to begin with, `h` and of an LSTM `c`, [rows, hidden], the
 * weights w [gates hidden, hidden] and of a GRU `b` [3 hidden], what is added to the products with these; it makes what `layoutOf` says.
 * `…Gates` takes that as `states`, w, and the gradients of outputs, dy [steps rows, hidden], and of the last cells, dc [rows, hidden], each of
 * which may be missing, and the attribute `starts`, 1 where gradients of the states to begin with are wanted; it makes what `gatesLayoutOf` says.
 */
export function recurrentKernels(exports: SimdExports, multiply: Multiply): ReadonlyMap<string, OwnKernel> {
  const of = (name: string): Call => exported(exports, name);
  const [copyStrided, add] = [of('copyStrided'), of('add')];
  const kinds: readonly (readonly [string, Recurrence, Between])[] = [
    ['Lstm', 'lstm', lstm(of)],
    ['Gru', 'gru', gru(of)],
    ['Rnn', 'rnn', rnn(of)],
  ];
  return new Map(
    kinds.flatMap(([name, kind, between]): [string, OwnKernel][] => [
      [`${name}States`, statesKernel(kind, between, copyStrided, multiply)],
      [`${name}Gates`, gatesKernel(kind, between, add, multiply)],
    ]),
  );
}

function lstm(of: (name: string) => Call): Between {
  const [advance, goBack] = [of('lstmStep'), of('lstmStepBack')];
  return {
    forward: ({ x, u, before: [, c], after: [h, cell], saved }, { rows, hidden }) => {
      advance(x, u, c as number, saved, cell as number, h as number, rows, hidden);
    },
    backward: ({ dy, dh, kept, before: [, c], after: [, cell], saved, ofInputs }, { rows, hidden }) => {
      goBack(dy, dh, kept, saved, cell as number, c as number, ofInputs, rows, hidden);
    },
  };
}

function gru(of: (name: string) => Call): Between {
  const [advance, goBack] = [of('gruStep'), of('gruStepBack')];
  return {
    forward: ({ x, u, before: [h], after: [next], saved }, { rows, hidden }, { b }) => {
      advance(x, u, b === undefined ? 0 : at(b), h as number, saved, next as number, rows, hidden);
    },
    backward: ({ dy, dh, kept, before: [h], saved, ofInputs, ofOutput }, { rows, hidden }) => {
      goBack(dy, dh, kept, saved, h as number, ofInputs, ofOutput, rows, hidden);
    },
  };
}

function rnn(of: (name: string) => Call): Between {
  const [advance, goBack] = [of('rnnStep'), of('rnnStepBack')];
  const relu = (attrs: Attrs): number => numbers(attrs, ['relu'])[0];
  return {
    forward: ({ x, u, after: [h] }, { state }, _, attrs) => {
      advance(x, u, h as number, relu(attrs), state);
    },
    backward: ({ dy, dh, after: [h], ofInputs }, { state }, attrs) => {
      goBack(dy, dh, h as number, ofInputs, relu(attrs), state);
    },
  };
}

function statesKernel(kind: Recurrence, between: Between, copyStrided: Call, multiply: Multiply): OwnKernel {
  return (heap, inputs, attrs) => {
    const sizes = sizesOf(kind, attrs);
    const { rows, hidden, gates, state, size, order } = sizes;
    const place = (name: string): number => at(input(inputs, name));
    const [x, w] = [place('x'), place('w')];
    const begin = ['h', 'c'].slice(0, sizes.states).map(place);
    const weights = gates * hidden * hidden;
    return heap.filled(size, (made) =>
      heap.meanwhile(whole(weights) + gates * state, (turned) => {
        const placed = (offsets: readonly number[]): number[] => offsets.map((offset) => made + 4 * offset);
        // Libraries turn an operand around at each call, which takes as long as these products.
        copyStrided(w, turned, 1, 1, hidden, gates * hidden, 0, 0, 1, hidden);
        const product = { m: rows, n: gates * hidden, k: hidden, turnA: false, b: turned, turnB: false };
        const u = turned + 4 * whole(weights);
        for (const [i, step] of order().entries()) {
          const [before, after] = [placed(step.before), placed(step.after)];
          if (i === 0) begin.forEach((from, k) => copy(heap, from, before[k] as number, state));
          multiply(heap, { a: before[0] as number, out: u, ...product });
          const given = x + 4 * step.number * gates * state;
          between.forward({ x: given, u, before, after, saved: made + 4 * step.saved }, sizes, inputs, attrs);
        }
      }),
    );
  };
}

function gatesKernel(kind: Recurrence, between: Between, add: Call, multiply: Multiply): OwnKernel {
  return (heap, inputs, attrs) => {
    const sizes = sizesOf(kind, attrs);
    const { steps, rows, hidden, gates, state, order } = sizes;
    const starts = numbers(attrs, ['starts'])[0] === 1;
    const { products, start, size } = gatesLayoutOf(kind, sizes, starts);
    const [made, w] = [at(input(inputs, 'states')), at(input(inputs, 'w'))];
    const [dy, dc] = [inputs['dy'], inputs['dc']];
    const product = { m: rows, n: hidden, k: gates * hidden, turnA: false, b: w, turnB: false };
    return heap.filled(size, (out) =>
      heap.meanwhile(2 * whole(state), (dh) => {
        const kept = dh + 4 * whole(state);
        clear(heap, dh, 2 * whole(state));
        if (dc !== undefined) copy(heap, at(dc), kept, state);
        const placed = (offsets: readonly number[]): number[] => offsets.map((offset) => made + 4 * offset);
        for (const [i, { number, before, after, saved }] of order().reverse().entries()) {
          const ofInputs = out + 4 * number * gates * state;
          const ofOutput = ofInputs + 4 * products;
          between.backward(
            {
              dy: dy === undefined ? 0 : at(dy) + 4 * number * state,
              dh,
              kept,
              before: placed(before),
              after: placed(after),
              saved: made + 4 * saved,
              ofInputs,
              ofOutput,
            },
            sizes,
            attrs,
          );
          if (i < steps - 1 || starts) multiply(heap, { a: ofOutput, out: dh, ...product });
        }
        const [ofH, ofC] = start.map((place) => out + 4 * place);
        if (kind === 'gru' && starts) add(dh, 0, 1, kept, 0, 1, dh, 1, state);
        if (ofH !== undefined) copy(heap, dh, ofH, state);
        if (ofC !== undefined) copy(heap, kept, ofC, state);
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
