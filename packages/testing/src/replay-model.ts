/** @file Explores live objects that cannot be copied, by making them again and replaying the path to each state. */
import type { Model, Step } from './explorer.ts';

/** A system that is driven in place. `create` and `apply` must be deterministic. */
export interface LiveModel<L> {
  readonly name: string;
  /** A fresh system in its first state. */
  create(): L;
  /** What can happen now, by labels that are unique in this state. */
  actions(live: L): readonly string[];
  /** Makes one of them happen. */
  apply(live: L, action: string): void;
  /** As in `Model`. */
  encode(live: L): string;
  /** Encodings of the state under renamings that change nothing. */
  symmetric?(live: L): readonly string[];
  invariant?(live: L): string | undefined;
  terminal?(live: L): string | undefined;
}

/** A state of a live system: what to do to get there, and what was seen when it was there. */
export interface ReplayedState {
  readonly path: readonly string[];
  readonly key: string;
  readonly actions: readonly string[];
  readonly wrong: string | undefined;
  readonly wrongAtEnd: string | undefined;
}

/**
 * A model over a live system: real classes with private fields are explored as they are, without snapshots.
 * Costs one replay of the path per edge, so it suits paths of tens of steps.
 */
export function replaying<L>(live: LiveModel<L>): Model<ReplayedState> {
  const look = (system: L, path: readonly string[]): ReplayedState => {
    const actions = live.actions(system);
    const keys = [live.encode(system), ...(live.symmetric?.(system) ?? [])];
    return {
      path,
      key: keys.reduce((smallest, key) => (key < smallest ? key : smallest)),
      actions,
      wrong: live.invariant?.(system),
      wrongAtEnd: actions.length === 0 ? live.terminal?.(system) : undefined,
    };
  };
  const reach = (path: readonly string[]): ReplayedState => {
    const system = live.create();
    for (const action of path) live.apply(system, action);
    return look(system, path);
  };
  return {
    name: live.name,
    initial: [reach([])],
    steps: (state) =>
      state.actions.map((action): Step<ReplayedState> => ({
        label: action,
        next: () => reach([...state.path, action]),
      })),
    encode: (state) => state.key,
    invariant: (state) => state.wrong,
    terminal: (state) => state.wrongAtEnd,
  };
}
