/** @file Values that cannot meet: what they belong to, by their tags, differs. */
import { RpcError } from '../base/errors.ts';
import type { AgentParts } from '../inspection/agent-parts.ts';
import { partsOfKey } from '../protocol/meeting-keys.ts';
import type { Meetings } from '../protocol/meetings.ts';
import type { CollectiveTags } from './combine.ts';
import { workerNamed } from './replica-seats.ts';

interface Tagged {
  readonly tags: CollectiveTags;
  reject(error: RpcError): void;
}

/**
 * Why what `from` brings to a meeting cannot meet what others have brought; undefined where it can. Those others are told as well, since
 * one of them is not where the others are.
 */
export function endConflict(
  agent: AgentParts,
  meetings: Meetings<Tagged>,
  key: string,
  from: string,
  tags: CollectiveTags,
): RpcError | undefined {
  const found = differing(meetings, key, from, tags);
  if (found === undefined) return undefined;
  const { peer, tag, value } = found;
  const text = `worker '${from}' brought a value of ${tag} ${tags[tag]}, worker '${peer}' one of ${tag} ${value}`;
  const errorAbout = (name: string): RpcError =>
    new RpcError('failed-precondition', text, { executed: 'yes', peer: workerNamed(agent, name) });
  for (const arrival of meetings.breakUp(found.key, from)) arrival.reject(errorAbout(from));
  return errorAbout(peer);
}

/** What follows each other: by other tags, and those of hooks, only values differ that would meet. */
const ORDERED: ReadonlySet<string> = new Set(['replica', 'pass', 'exchange', 'bucket']);

interface Difference {
  readonly key: string;
  readonly peer: string;
  readonly tag: string;
  readonly value: string | number | undefined;
}

/** Looks among those who wait at the meeting; where nobody does, at the others that its replica may be at: its exchanges follow each other. */
function differing(
  meetings: Meetings<Tagged>,
  key: string,
  from: string,
  tags: CollectiveTags,
): Difference | undefined {
  const here = meetings.waiting(key, from);
  if (here.size > 0) return differingFrom(tags, { key, arrivals: here }, () => true);
  if (tags['replica'] === undefined) return undefined;
  const { isOfBucket } = partsOfKey(key);
  for (const open of meetings.beside(key, from)) {
    // Hooks of one pass come to its buckets in any order.
    const inPass = isOfBucket && partsOfKey(open.key).isOfBucket;
    const found = differingFrom(
      tags,
      open,
      (tag, other) => other['replica'] !== undefined && ORDERED.has(tag) && !(inPass && tag === 'bucket'),
    );
    if (found !== undefined) return found;
  }
  return undefined;
}

function differingFrom(
  tags: CollectiveTags,
  { key, arrivals }: { readonly key: string; readonly arrivals: ReadonlyMap<string, Tagged> },
  counts: (tag: string, other: CollectiveTags) => boolean,
): Difference | undefined {
  for (const [peer, { tags: other }] of arrivals)
    for (const tag of Object.keys(tags))
      if (Object.hasOwn(other, tag) && other[tag] !== tags[tag] && counts(tag, other))
        return { key, peer, tag, value: other[tag] };
  return undefined;
}
