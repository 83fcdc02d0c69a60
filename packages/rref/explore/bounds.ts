/** @file What the world of one exploration contains, and its name. */
import type { Rules } from '../src/protocol/rules.ts';

export interface Bounds {
  /** Workers besides the owner; at most 3. */
  readonly users: number;
  /** How often a handle may be shared in one run; at most 5. */
  readonly forks: number;
  /** How many users may die, at any time. @default 0 */
  readonly crashes?: number;
  /** Who makes the object: its owner, or user 1 by a remote call whose creation may time out or never be sent. @default 'owner' */
  readonly creator?: 'owner' | 'user';
  /** Whether messages of a pair arrive in order (as sessions promise) or in any order. @default 'fifo' */
  readonly network?: 'fifo' | 'any order';
  /** How many control messages may arrive twice. @default 0 */
  readonly duplicates?: number;
  /** How many messages that carry handles may fail to be sent. @default 0 */
  readonly losses?: number;
  /** @default all of them */
  readonly rules?: Partial<Rules>;
}

/** One line that names a world. */
export function describe(bounds: Bounds): string {
  const {
    users,
    forks,
    crashes = 0,
    creator = 'owner',
    network = 'fifo',
    duplicates = 0,
    losses = 0,
    rules = {},
  } = bounds;
  const off = Object.entries(rules).flatMap(([rule, on]) => (on ? [] : [rule]));
  const extra = [
    crashes > 0 ? `${crashes} crash${crashes > 1 ? 'es' : ''}` : '',
    creator === 'user' ? 'made by a user' : '',
    network === 'fifo' ? '' : network,
    duplicates > 0 ? `${duplicates} duplicate` : '',
    losses > 0 ? `${losses} unsent` : '',
    ...off.map((rule) => `without ${rule}`),
  ].filter((part) => part !== '');
  return [`owner + ${users} users, ${forks} forks`, ...extra].join(', ');
}
