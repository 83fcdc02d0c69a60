/** @file An event as a recorder gives it. */
import type { RecordedEvent } from '../src/events.ts';

export const op = (name: string, startUs: number, durationUs: number, parent = -1, node = 1): RecordedEvent => ({
  name,
  kind: 'op',
  node,
  isRemote: false,
  startUs,
  durationUs,
  parent,
});
