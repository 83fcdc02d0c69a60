/** @file What a profile has as its events: operations, and the functions that make tensors of numbers where programs call them. */
import { ambient, type OpObserver } from './ambient.ts';
import type { Tensor } from './tensor.ts';

/** How many events run right now; none of them waits for anything. */
let running = 0;

/** Tells the observer when `make` begins and ends, also when it throws. Creations in it are parts of it, and no events. */
export function observed<T extends Tensor>(
  profile: OpObserver,
  name: string,
  inputs: readonly Tensor[],
  make: () => T,
): T {
  const token = profile.begin(name, inputs);
  let made: T | undefined;
  running++;
  try {
    made = make();
    return made;
  } finally {
    running--;
    profile.end(token, made);
  }
}

/** Runs a creation; a profile that runs has it as `name`, once, whatever it is made of. */
export function observedCreation<T extends Tensor>(name: string, make: () => T): T {
  const profile = running > 0 ? undefined : ambient().profile;
  return profile === undefined ? make() : observed(profile, name, [], make);
}
