/** @file Functions that make tensors of numbers, as events of a profile: those that programs call, not those that operations are made of. */
import { ambient } from './ambient.ts';

/** How many creations and operations run right now; none of them waits for anything. */
let running = 0;

/** Runs `fn`, whose creations are parts of it and no events. */
export function withoutCreations<T>(fn: () => T): T {
  running++;
  try {
    return fn();
  } finally {
    running--;
  }
}

/** Runs a creation; a profile that runs has it as `name`, once, whatever it is made of. */
export function observedCreation<T>(name: string, make: () => T): T {
  const profile = running > 0 ? undefined : ambient().profile;
  if (profile === undefined) return make();
  const token = profile.begin(name, []);
  let made: T | undefined;
  try {
    made = withoutCreations(make);
    return made;
  } finally {
    profile.end(token, made);
  }
}
