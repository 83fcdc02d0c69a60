/** @file What events of a profile come to: how long each operation took. */
import type { TorchEvent } from '../messages/commands.ts';

/** One operation. Times are microseconds since the profile began. */
export interface Range {
  readonly id: number;
  readonly name: string;
  readonly node: number;
  readonly thread: number;
  readonly startUs: number;
  readonly endUs: number;
  /** Without what went on inside of it. */
  readonly selfUs: number;
  readonly shapes: readonly (readonly number[])[];
}

const MARK = 0;
const PUSH = 1;
const POP = 2;

/** The operations among the events of one profile, in the order in which they began. What has not ended is left out. */
export function rangesOf(events: readonly TorchEvent[]): Range[] {
  const begun = Number(events.find(({ kind }) => kind === MARK)?.cpuNs ?? 0n);
  const us = (event: TorchEvent): number => (Number(event.cpuNs) - begun) / 1_000;
  const key = ({ node, handle }: TorchEvent): string => `${node} ${handle}`;
  const ends = new Map<string, number>();
  for (const event of events) if (event.kind === POP) ends.set(key(event), us(event));
  const open: { endUs: number; insideUs: number }[] = [];
  const ranges: (Omit<Range, 'selfUs'> & { insideUs: number })[] = [];
  for (const event of events) {
    const endUs = event.kind === PUSH ? ends.get(key(event)) : undefined;
    if (endUs === undefined) continue;
    const { handle: id, name, node, thread, shapes } = event;
    const range = { id, name, node, thread, startUs: us(event), endUs, shapes, insideUs: 0 };
    while (open.length > 0 && (open.at(-1)?.endUs ?? 0) <= range.startUs) open.pop();
    const outer = open.at(-1);
    if (outer !== undefined && endUs <= outer.endUs) outer.insideUs += endUs - range.startUs;
    open.push(range);
    ranges.push(range);
  }
  return ranges.map(({ insideUs, ...range }) => ({
    ...range,
    selfUs: Math.max(0, range.endUs - range.startUs - insideUs),
  }));
}
