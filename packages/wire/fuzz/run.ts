/** @file Feeds damaged samples to every decoder of this package: each must accept them or throw WireError, quickly. */
import { fuzz as fuzzTargets, type FuzzReport } from '@backwire/testing';
import { WireError } from '../src/internal.ts';
import { targets } from './targets.ts';

/** `count` damaged inputs, spread over all decoders. */
export function fuzz(count: number, seed: number): FuzzReport {
  return fuzzTargets({
    targets: targets(),
    count,
    seed,
    refusal: (error) => (error instanceof WireError ? error.code : undefined),
  });
}
