/** @file Every world of the RRef protocol that can be reached, breadth first. */
import { exploreRows, followRows, type Exploration, type RowModel } from '@backwire/testing';
import { describe, type Bounds } from './bounds.ts';
import { findFault } from './oracle.ts';
import { Worlds } from './world.ts';

export interface SearchOptions {
  /** @default 10 million */
  readonly maxStates?: number;
}

/** Explores all interleavings within `bounds`; stops at the first wrong world, which is then one of those nearest to the start. */
export function exploreRRefs(bounds: Bounds, options: SearchOptions = {}): Exploration<string> {
  return exploreRows(modelOf(new Worlds(bounds)), options);
}

/** Takes the steps with these labels and gives what is wrong with the world they end in. */
export function follow(bounds: Bounds, labels: readonly string[]): string | undefined {
  const worlds = new Worlds(bounds);
  return findFault(worlds, followRows(modelOf(worlds), labels));
}

function modelOf(worlds: Worlds): RowModel {
  return {
    name: describe(worlds.bounds),
    width: worlds.width,
    initial: () => worlds.initial(),
    steps: (from, emit) => worlds.steps(from, emit),
    invariant: (row) => findFault(worlds, row),
  };
}
