/** @file Parts of a group that do not hear one another: who belongs to which, which one stays, and who is lost. */
import type { Life } from './membership.ts';

/** What one member says of the others. */
export interface Hearing {
  readonly by: Life;
  readonly hears: ReadonlySet<Life>;
  /** Those of whom it has heard nothing for too long, or whom it cannot reach. */
  readonly doubts: ReadonlySet<Life>;
}

/**
 * Those that `from` hears, or who are heard by one of those, and so on. Two hear one another when one of them says so and neither doubts
 * the other.
 */
export function partOf(from: Life, hearings: ReadonlyMap<Life, Hearing>): Set<Life> {
  const part = new Set([from]);
  const queue = [from];
  for (let at = queue.shift(); at !== undefined; at = queue.shift()) {
    for (const next of neighbours(at, hearings)) {
      if (part.has(next)) continue;
      part.add(next);
      queue.push(next);
    }
  }
  return part;
}

function neighbours(at: Life, hearings: ReadonlyMap<Life, Hearing>): Life[] {
  const own = hearings.get(at);
  const said = new Set(own?.hears);
  for (const { by, hears } of hearings.values()) if (hears.has(at)) said.add(by);
  return [...said].filter(
    (other) => own?.doubts.has(other) !== true && hearings.get(other)?.doubts.has(at) !== true && other !== at,
  );
}

/** What a member of a part that may not be the largest writes into the store, for the others to see. */
export interface Claim {
  readonly by: Life;
  /** All of its part. */
  readonly part: readonly Life[];
  readonly doubts: readonly Life[];
}

export interface Verdict {
  readonly winners: ReadonlySet<Life>;
  readonly losers: ReadonlySet<Life>;
}

/**
 * Whom the parts that claim to be the group put out: everybody outside the largest one (of two that are equal, the one with the oldest
 * member) whom two members doubt. One member's word puts nobody out. Undefined while somebody has not claimed anything yet who may; when
 * `late`, those are not waited for any more.
 *
 * @param members from the oldest life to the youngest
 */
export function verdictOf(members: readonly Life[], claims: readonly Claim[], late: boolean): Verdict | undefined {
  const present = new Set(members);
  const hearings = new Map<Life, Hearing>();
  for (const { by, part, doubts } of claims)
    if (present.has(by)) hearings.set(by, { by, hears: new Set(part), doubts: new Set(doubts) });
  const parts: Set<Life>[] = [];
  for (const life of members) {
    // In the order of age, so that of equal parts the one with the oldest member comes first.
    if (!isClaimed(life, hearings) || parts.some((part) => part.has(life))) continue;
    const part = partOf(life, hearings);
    for (const other of part) if (!present.has(other)) part.delete(other);
    parts.push(part);
  }
  if (!late && members.some((life) => !parts.some((part) => part.has(life)))) return undefined;
  const winners = parts.reduce((largest, part) => (part.size > largest.size ? part : largest), new Set<Life>());
  const doubters = (life: Life): number => [...hearings.values()].filter(({ doubts }) => doubts.has(life)).length;
  return { winners, losers: new Set(members.filter((life) => !winners.has(life) && doubters(life) >= 2)) };
}

/** Whether somebody has said that it hears this one, or it has claimed something itself. */
function isClaimed(life: Life, hearings: ReadonlyMap<Life, Hearing>): boolean {
  return hearings.has(life) || [...hearings.values()].some(({ hears }) => hears.has(life));
}
