/** @file The rules that keep objects alive while somebody dies, each of which can be taken away to show what it is for. */

export interface Rules {
  /** R1: an owner remembers deleted forks, and refuses anything that the dead are said to hold. */
  readonly tombstones: boolean;
  /** R2': a child that sits at a dead worker keeps its parent alive until the owner's fence for that death is complete. */
  readonly childrenWaitForFence: boolean;
  /** R3', first half: the forks of the dead are released only when every live member has acknowledged the fence. */
  readonly forksWaitForFence: boolean;
  /** R3', second half: a death during an open fence extends it, instead of counting as an acknowledgement. */
  readonly deathExtendsFence: boolean;
}

/** What runs in production. Weaker rules are for the explorer, which finds the run that each one prevents. */
export const ALL_RULES: Rules = Object.freeze({
  tombstones: true,
  childrenWaitForFence: true,
  forksWaitForFence: true,
  deathExtendsFence: true,
});
