/** @file Text from elsewhere, made harmless for a line. */
import { describe, expect, it } from 'vitest';
import { plainJson, plainText } from './plain-text.ts';

describe('plain text', () => {
  it('moves no cursor, breaks no line and turns nothing around', () => {
    expect(plainText('a\u202eb\u2066c\u200fd\u2028e\u001b[2J\nf\u009b')).toBe('a b c d e [2J f ');
    expect(plainText('naïve שלום → 😀')).toBe('naïve שלום → 😀');
  });

  it('is written in JSON so that the same comes out', () => {
    const value = { 'k\u202ey': ['a\u2066\u001b\u009b\n', 1, undefined] };
    const text = plainJson(value, 2);
    expect(text).toContain(String.raw`k\u202ey`);
    // The line feeds of the layout alone are left.
    expect(text.replaceAll('\n', '')).toBe(plainText(text.replaceAll('\n', '')));
    expect(JSON.parse(text)).toEqual({ 'k\u202ey': ['a\u2066\u001b\u009b\n', 1, null] });
  });
});
