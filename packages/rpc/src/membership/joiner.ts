/** @file What a worker brings when it joins, and its entry of the view. */
import { processId } from '../base/platform.ts';
import type { View, ViewMember } from '../protocol/membership.ts';

/** What a worker brings when it joins. */
export interface Joiner {
  readonly name: string;
  /** undefined = the next free one. */
  readonly id: number | undefined;
  /** The size of a closed group; undefined for one that is open. */
  readonly size: number | undefined;
  readonly endpoints: ViewMember['endpoints'];
  readonly host: string;
  readonly extensions: readonly string[];
  readonly deviceMaps?: unknown;
}

/** The entry of a life, without what shows who wrote it. */
export function entryOf(joiner: Joiner, incarnation: number, id: number): ViewMember {
  const { name, endpoints, host, extensions, deviceMaps } = joiner;
  const maps = deviceMaps === undefined ? {} : { deviceMaps };
  return { name, id, incarnation, endpoints, host, pid: processId, extensions, reports: true, ...maps };
}

/** This worker as it is in the view, and that view. */
export interface Entered {
  readonly member: ViewMember;
  readonly view: View;
}

/** One try to come in. */
export interface Entry {
  readonly view: View;
  readonly member: ViewMember;
  /** It brought no id of its own. */
  readonly anyId: boolean;
  readonly size: number | undefined;
  readonly deadline: number;
}
