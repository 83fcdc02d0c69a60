/** @file Feeds damaged captures to every decoder of this package: each must accept them or refuse them, quickly. */
import { TensorError } from '@backwire/tensor';
import { fuzz as fuzzTargets, type FuzzReport } from '@backwire/testing';
import { WireError } from '@backwire/wire/internal';
import { NotOfferedError } from '../src/pickle/refusal.ts';
import { targets } from './targets.ts';

/** `count` damaged inputs, spread over all decoders. */
export function fuzz(count: number, seed: number): FuzzReport {
  return fuzzTargets({ targets: targets(), count, seed, refusal });
}

function refusal(error: unknown): string | undefined {
  if (error instanceof NotOfferedError) return 'not offered';
  if (error instanceof WireError) return error.code;
  return error instanceof TensorError ? 'file' : undefined;
}
