/** @file What members tell each other while somebody is in doubt, there and back. */
import { expect, it } from 'vitest';
import type { View } from '../protocol/membership.ts';
import type { Report } from '../protocol/opinions.ts';
import { decodeReport, encodeReport } from './report-codec.ts';

function viewOf(...ids: readonly number[]): View {
  const members = ids.map((id) => ({
    ...{ name: `w${id}`, id, incarnation: 10 + id, endpoints: [] },
    ...{ host: 'h', pid: 1, extensions: [], reports: true },
  }));
  return { epoch: 7, founder: 'w0#10', size: undefined, members, departed: [] };
}

const VIEW = viewOf(0, 1, 2, 3);
const REPORT: Report = {
  epoch: 7,
  store: false,
  hears: ['w0#10', 'w2#12'],
  doubts: ['w3#13'],
  proved: ['w3#13'],
  gone: ['w3#13'],
  decided: ['w1#11'],
  confirmed: [],
  asks: true,
};

it('comes back as it was, with the view and without', () => {
  expect(decodeReport(encodeReport(REPORT, VIEW, undefined), VIEW)).toEqual({ report: REPORT, view: undefined });
  const { view } = decodeReport(encodeReport(REPORT, VIEW, VIEW), VIEW);
  expect(view?.members).toEqual(VIEW.members);
});

it('leaves out lives that the receiver does not know as members', () => {
  const { report } = decodeReport(encodeReport(REPORT, VIEW, undefined), viewOf(0, 1));
  expect([report.hears, report.doubts, report.decided]).toEqual([['w0#10'], [], ['w1#11']]);
});

it('is refused when it is none', () => {
  expect(() => decodeReport(new Uint8Array([0xff, 0xff, 0xff]), VIEW)).toThrow();
});
