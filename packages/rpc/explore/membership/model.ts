/** @file The explorations of the agreement of members: worlds, their steps, and what must hold. */
import type { Model } from '@backwire/testing';
import type { Bounds } from './bounds.ts';
import { World } from './world.ts';

/** What happens to a small group, and how it has to end. */
export interface Scenario extends Bounds {
  readonly name: string;
  /** What must be true of a group that has come to rest; undefined = it is. */
  readonly ends?: ((world: World) => string | undefined) | undefined;
}

export function membershipModel(scenario: Scenario): Model<World> {
  return {
    name: scenario.name,
    initial: [(scenario.begun ?? []).reduce((world, action) => world.after(action), World.initial(scenario))],
    steps: (world) => world.actions().map((label) => ({ label, next: () => world.after(label) })),
    encode: (world) => world.encode(),
    invariant: (world) => world.wrong,
    terminal: (world) => world.fault() ?? scenario.ends?.(world),
  };
}
