import { expect, it } from 'vitest';
import { ByteWriter, DEFAULT_WIRE_LIMITS, FrameHeader, writeHeaderTable } from '@backwire/wire/internal';
import type { Environment } from '../base/environment.ts';
import { Receiver, type FrameHandler } from './receiver.ts';
import type { Sender } from './sender.ts';

it('lets go of what entries of a table began when a later one is malformed', () => {
  const out = new ByteWriter();
  const tableLength = writeHeaderTable(
    out,
    ['first', 'second', 'malformed', 'never'].map((extension) => ({ extension, data: new Uint8Array(3) })),
  );
  const bytes = out.finish();
  const header = Object.assign(new FrameHeader(), { tableLength });
  const events: string[] = [];
  const handler = {
    entry(extension: string) {
      if (extension === 'malformed') throw new Error('malformed');
      events.push(`begun ${extension}`);
      return () => void events.push(`done ${extension}`);
    },
  } as unknown as FrameHandler;
  const receiver = new Receiver({ wireLimits: DEFAULT_WIRE_LIMITS } as Environment, handler, {} as Sender);
  expect(() => receiver.deliverTable({ header, bytes, start: 0, end: bytes.length })).toThrow('malformed');
  expect(events).toEqual(['begun first', 'begun second', 'done first', 'done second']);
});
