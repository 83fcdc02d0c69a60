/** @file The captured session as a tape: what w0 said to the others, in order, and what it heard. */
import { captures, type Capture, type CapturedMessage } from './captures.ts';

const RESPONSE = 0x200;
const OWN = 'w0';

/** w0 asks, and hears the answer; w0 is asked, and answers. */
export interface Step {
  readonly kind: 'ask' | 'hear' | 'asked' | 'answer';
  readonly message: CapturedMessage;
}

/** Programs of one session in the order in which w0 ran them. */
export function tape(
  skip: (capture: Capture) => boolean,
): { readonly capture: Capture; readonly steps: readonly Step[] }[] {
  const taken = new Set<number>();
  return captures()
    .filter((capture) => !skip(capture) && capture.messages.some(isOwnRequest))
    .map((capture) => ({ capture, first: Math.min(...capture.messages.filter(isOwnRequest).map(({ id }) => id)) }))
    .sort((a, b) => a.first - b.first)
    .filter(({ first }) => !taken.has(first) && taken.add(first))
    .map(({ capture }) => ({ capture, steps: capture.messages.flatMap(stepOf) }));
}

function isOwnRequest({ from, type }: CapturedMessage): boolean {
  return from === OWN && (type & RESPONSE) === 0;
}

function stepOf(message: CapturedMessage): Step[] {
  const { from, to, type } = message;
  // What others tell each other, and a worker itself.
  if ((from === OWN) === (to === OWN)) return [];
  const response = (type & RESPONSE) !== 0;
  if (from === OWN) return [{ kind: response ? 'answer' : 'ask', message }];
  return [{ kind: response ? 'hear' : 'asked', message }];
}
