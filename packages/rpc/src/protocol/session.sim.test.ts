import { assertExplored, explore, formatTotals, runSeeds, SeedFailure } from '@backwire/testing';
import { describe, expect, it } from 'vitest';
import { sessionModel } from '../../explore/session-model.ts';
import { SOUND } from '../../sim/sim-worker.ts';
import { sessionSuite, type SessionRun } from '../../sim/suite.ts';

const seedsFile = new URL('../../sim/seeds.txt', import.meta.url).pathname;

describe('workers over a faulty network', () => {
  it('keep every promise of sessions and calls', async () => {
    const runs: SessionRun[] = [];
    const totals = await runSeeds(
      sessionSuite(SOUND, (run) => runs.push(run)),
      { count: 150, regressions: seedsFile, recheckEvery: 30 },
    );
    console.log(formatTotals(totals));
    const total = (kind: string): number => runs.reduce((sum, run) => sum + (run.outcomes[kind] ?? 0), 0);
    // A suite that never gets to the interesting outcomes proves nothing.
    for (const kind of [
      'ok',
      'cancelled no',
      'cancelled maybe',
      'deadline-exceeded no',
      'deadline-exceeded maybe',
      'peer-died maybe',
      'draining no',
    ]) {
      expect(total(kind), kind).toBeGreaterThan(0);
    }
  }, 120_000);

  it.each([
    ['numbers that came before are delivered again', { ...SOUND, dedupe: false }, 'delivered = sent prefix'],
    ['a new link replays nothing', { ...SOUND, replay: false }, 'a live session is never lost'],
    ['frames are numbered past the window', { ...SOUND, window: false }, 'what is not acknowledged is bounded'],
    ['a worker that drains refuses calls it has', { ...SOUND, drainServes: false }, 'a drain loses nothing'],
    ['something of an earlier life is taken', { ...SOUND, lives: false }, /earlier life|sent prefix|never lost/],
    ['storages go as fast as they can', { ...SOUND, pace: false }, /carries bytes is not cut|do not wait for storages/],
    ['a numbered call is said not to have run', { ...SOUND, sentMayHaveRun: false }, "executed: 'no' means never"],
  ])(
    'are caught when %s',
    async (_what, rules, rule) => {
      const failure: unknown = await runSeeds(sessionSuite(rules), {
        count: 200,
        recheckEvery: 0,
        shrinkAttempts: 60,
      }).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(SeedFailure);
      expect((failure as SeedFailure).message).toMatch(rule);
    },
    120_000,
  );
});

describe('every interleaving of two sessions', () => {
  it('delivers each frame once, in order, and releases each segment once', () => {
    const result = explore(sessionModel({ frames: 2, breaks: 1 }));
    assertExplored(result);
    expect(result.states).toBeGreaterThan(500);
  }, 60_000);

  it('finds the frame that is delivered twice when neither positions nor numbers are looked at', () => {
    const { violation } = explore(sessionModel({ frames: 2, breaks: 1, broken: 'position and dedupe' }));
    expect(violation?.detail).toMatch(/was given 1,1/);
    expect(violation?.trace.filter((step) => step === 'link breaks')).toHaveLength(1);
  }, 60_000);

  it('still delivers each frame once when a new link replays more than it must', () => {
    assertExplored(explore(sessionModel({ frames: 2, breaks: 1, broken: 'position' })));
  }, 60_000);

  it('never takes a frame of an earlier life', () => {
    assertExplored(explore(sessionModel({ frames: 2, breaks: 0, restarts: 1 })));
  }, 60_000);

  it('finds the frame of an earlier life when a session goes on with another life of its peer', () => {
    const { violation } = explore(sessionModel({ frames: 2, breaks: 0, restarts: 1, broken: 'lives' }));
    expect(violation?.detail).toMatch(/a frame for life 1 in life 2|the session was lost/);
    expect(violation?.trace.filter((step) => step.endsWith('restarts'))).toHaveLength(1);
  }, 60_000);

  it('finds the frame that is lost when a new link replays nothing', () => {
    const { violation } = explore(sessionModel({ frames: 2, breaks: 1, broken: 'replay' }));
    expect(violation?.detail).toMatch(/gap|was given/);
  }, 60_000);
});
