/** @file The training that runs in the PyTorch process, as the page and the gateway see it. A dict of Python comes as a Map. */
import type { RRef } from '@backwire/rref';
import type { Tensor } from '@backwire/tensor';
import { py, type PyFloat } from '@backwire/torch/gateway';

/** How far the training is. */
export type Progress = ReadonlyMap<'step' | 'loss' | 'rate', number>;

/** What the network makes of a picture: the chances of the ten digits, [10]; the activations of its layers, [8, 14, 14] and [16, 7, 7]. */
type Seen = ReadonlyMap<'chances' | 'edges' | 'parts', Tensor>;

/** The class of Python, as far as pages may use it. */
interface Training {
  progress(): Progress;
  /** @throws Python's ValueError, for a rate outside of 0 to 1. */
  set_rate(rate: PyFloat): void;
  /** @param image float32 [28, 28], ink 1, paper 0 */
  look(image: Tensor): Seen;
}

/** A reference to the training that runs. */
export const running = py<() => RRef<Training>>('digits.running');

/** What may be called on it. */
export const methods: readonly (keyof Training)[] = ['progress', 'set_rate', 'look'];

/** A dict with its keys as names. */
export const fields = <K extends string, V>(dict: ReadonlyMap<K, V>): Record<K, V> =>
  Object.fromEntries(dict) as Record<K, V>;
