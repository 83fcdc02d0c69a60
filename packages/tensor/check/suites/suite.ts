/** @file What a part of the checker is: it draws programs. */
import type { Random } from '@backwire/testing';
import type { Program } from '../program.ts';

export interface Suite {
  readonly name: string;
  /** How many programs a seed has of it. */
  readonly perSeed: number;
  /** Whether its tensors are so large that few programs make a batch. */
  readonly large?: boolean;
  readonly draw: (random: Random, seed: string) => Program;
}
