/** @file What is written for torch is what torch read when the goldens were made, and it saw in it what was meant. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { pythonCases, scriptCases } from './written-cases.ts';
import { writtenGoldens, type Written } from './written.ts';

type Kept = Written & { readonly text: string };
const { written } = JSON.parse(readFileSync(new URL('../golden/written.json', import.meta.url), 'utf8')) as {
  written: Readonly<Record<string, Kept>>;
};
const values = (
  JSON.parse(readFileSync(new URL('../golden/values.json', import.meta.url), 'utf8')) as {
    values: Readonly<Record<string, readonly string[]>>;
  }
).values;

/** What is long is kept as its hash. */
function brief(text: string): string {
  return text.length <= 2_000 ? text : `sha256 ${createHash('sha256').update(text).digest('hex')}`;
}

const goldens = writtenGoldens();
const expected = new Map<string, string>([
  ...pythonCases.map(([name, , text]) => [`python: ${name}`, text] as const),
  ...scriptCases.map(([name, , text]) => [`script: ${name}`, text] as const),
]);

describe('what is written for torch', () => {
  it('is all there', () => {
    expect(Object.keys(goldens).sort()).toEqual(Object.keys(written).sort());
  });

  it.each(Object.keys(goldens))('%s: the bytes that torch read', (name) => {
    const { text, ...kept } = written[name] as Kept;
    const found = Object.entries(goldens[name] as Written).map(([key, value]: [string, unknown]) => {
      return [key, typeof value === 'string' ? brief(value) : value] as const;
    });
    expect(Object.fromEntries(found)).toEqual(kept);
    // A message is written otherwise than torch wrote it, and says the same; a value says what its case means.
    const meant = expected.get(name) ?? messageText(name);
    expect(text).toBe(brief(meant));
  });
});

function messageText(title: string): string {
  const [file, name, index] = title.split(' / ') as [string, string, string];
  return values[`${file} / ${name}`]?.[Number(index)] ?? `no text for ${title}`;
}
