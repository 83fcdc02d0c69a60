/** @file What the page and the worker in Node say to each other. */
import { remoteFunction } from '@backwire/rpc';
import type { RRef } from '@backwire/rref';
import type { Tensor } from '@backwire/tensor';

/** How far the training is. */
export interface Progress {
  readonly step: number;
  readonly loss: number;
  readonly rate: number;
}

/** What the network makes of a picture. */
export interface Seen {
  /** Of the ten digits, float32 [10]. */
  readonly chances: Tensor;
  /** The activations of its layers, float32 [8, 14, 14] and [16, 7, 7]. */
  readonly edges: Tensor;
  readonly parts: Tensor;
}

/** The running training. */
export interface Training {
  progress(): Promise<Progress>;
  /** @throws what Python throws, for a rate outside of 0 to 1. */
  setRate(rate: number): Promise<void>;
  /** @param image float32 [28, 28], ink 1, paper 0 */
  look(image: Tensor): Promise<Seen>;
}

/** The training that runs; whoever is given the reference disposes it. */
export const running = remoteFunction<() => RRef<Training>>('digits/running');
