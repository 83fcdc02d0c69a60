/** @file Views are read and written once for all agents of a process. */
import { expect, it } from 'vitest';
import { EMPTY_VIEW, encodeView, type View } from '../protocol/membership.ts';
import { bytesOf, viewOf } from './view-bytes.ts';

const view = (epoch: number): View => ({ ...EMPTY_VIEW, epoch });

it('the same bytes are one view, and other bytes another', () => {
  const first = viewOf(encodeView(view(1)));
  expect(first).toEqual(JSON.parse(JSON.stringify(view(1))));
  expect(viewOf(encodeView(view(1)))).toBe(first);
  expect(viewOf(encodeView(view(2)))?.epoch).toBe(2);
  expect(viewOf(encodeView(view(1)))?.epoch).toBe(1);
});

it('bytes that change after they were read, and bytes that are no view, change nothing', () => {
  const bytes = encodeView(view(3));
  const read = viewOf(bytes);
  bytes.fill(0x20);
  expect(viewOf(bytes)).toBeUndefined();
  expect(viewOf(encodeView(view(3)))).toBe(read);
});

it('what was read is written as it was, whoever wrote it', () => {
  const spaced = new TextEncoder().encode('{ "epoch": 4, "members": [], "departed": [] }');
  const read = viewOf(spaced);
  expect(read && bytesOf(read)).toEqual(spaced);
  const own = view(5);
  expect(bytesOf(own)).toEqual(encodeView(own));
  expect(bytesOf(own)).toBe(bytesOf(own));
});
