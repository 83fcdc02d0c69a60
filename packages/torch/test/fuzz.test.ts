/** @file A few thousand damaged captures for every decoder; `npm run fuzz` does two million. What is accepted is written again. */
import { Seeded, mutate } from '@backwire/testing';
import { tensor } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import { fuzz } from '../fuzz/run.ts';
import type { Body } from '../src/messages/commands.ts';
import { captures } from './captures.ts';
import { textOf } from './reading.ts';
import { rewritten } from './rewriting.ts';

describe('damaged captures', () => {
  it('are accepted or refused in words by every decoder, and never take long', () => {
    const report = fuzz(12_000, 20_260_101);
    expect(report.failures).toEqual([]);
    // Both ways must be taken, or the damage is too light or too heavy to mean anything.
    expect(report.accepted).toBeGreaterThan(800);
    expect(report.refused).toBeGreaterThan(5_000);
    expect([...report.codes.keys()].sort()).toEqual(['decode-error', 'file', 'limit', 'not offered', 'protocol-error']);
    expect(report.slowestMs).toBeLessThan(1_000);
  });

  it('that are accepted are written again, and then say the same', () => {
    const messages = captures().flatMap((capture) => capture.messages);
    const tensors = Array.from({ length: 8 }, (_, i) => tensor([i]));
    let accepted = 0;
    for (let seed = 0; seed < 12_000; seed++) {
      const random = new Seeded(seed);
      const { type, body, storages } = random.pick(messages);
      const damaged: Body = {
        type,
        body: mutate(random, body, random.pick(messages).body),
        tensors: tensors.slice(0, Math.min(8, storages.length)),
      };
      const text = read(damaged);
      if (text === undefined) continue;
      accepted++;
      // Tensors that nothing refers to any more do not travel again.
      expect(textOf(rewritten(damaged)), `seed ${seed}`).toBe(text);
    }
    expect(accepted).toBeGreaterThan(300);
  });
});

function read(body: Body): string | undefined {
  try {
    return textOf(body);
  } catch {
    // Refused: the other test looks at how.
    return undefined;
  }
}
