/** @file Who dials: simultaneous dials, refusals, backoff, giving up. */
import { describe, expect, it } from 'vitest';
import { Connector, CONNECTOR_TIMES } from './connector.ts';

function make(
  name: string,
  peer: string,
  sameHost = true,
  inLine = false,
): { log: string[]; connector: Connector<string> } {
  const log: string[] = [];
  const connector = new Connector<string>(
    {
      dial: () => {
        log.push('dial');
        if (!inLine) connector.dialStarted(0);
      },
      abandonDial: () => log.push('abandon'),
      accept: (link) => log.push(`accept ${link}`),
      refuse: (link) => log.push(`refuse ${link}`),
      park: (link) => log.push(`park ${link}`),
      giveUp: (why) => log.push(`give up ${why}`),
      random: () => 0.5,
    },
    { name, peer, sameHost },
    CONNECTOR_TIMES,
  );
  return { log, connector };
}

describe('a connector', () => {
  it('dials once when something is wanted', () => {
    const { log, connector } = make('a', 'b');
    connector.want(0);
    connector.want(1);
    connector.welcomed(0, 0);
    connector.want(2);
    expect(log).toEqual(['dial']);
    expect(connector.state).toBe('up');
  });

  it('lets the dial of the lower name win, and the other one when that fails', () => {
    const low = make('a', 'b');
    low.connector.want(0);
    low.connector.hello('theirs', 1, 0);
    low.connector.welcomed(1, 0);
    expect(low.log).toEqual(['dial', 'park theirs', 'refuse theirs']);
    const high = make('b', 'a');
    high.connector.want(0);
    high.connector.hello('theirs', 1, 0);
    expect(high.log).toEqual(['dial', 'abandon', 'accept theirs']);
    const failing = make('a', 'b');
    failing.connector.want(0);
    failing.connector.hello('theirs', 1, 0);
    failing.connector.dialFailed('refused', 5);
    expect(failing.log).toEqual(['dial', 'park theirs', 'accept theirs']);
    expect(failing.connector.state).toBe('up');
  });

  it('takes no dial of its peer that is over, however late its greeting comes', () => {
    const taken = make('a', 'b');
    taken.connector.hello('3', 3, 0);
    const parked = make('a', 'b');
    parked.connector.want(0);
    parked.connector.hello('3', 3, 0);
    parked.connector.dialFailed('failed', 5);
    const welcomed = make('a', 'b');
    welcomed.connector.want(0);
    welcomed.connector.welcomed(3, 0);
    for (const { log, connector } of [taken, parked, welcomed]) {
      log.length = 0;
      for (const dial of [2, 3, 4, 3]) connector.hello(`late ${dial}`, dial, 10);
      expect(log).toEqual(['refuse late 2', 'refuse late 3', 'accept late 4', 'refuse late 3']);
    }
  });

  it('believes a refusal that comes twice in a row, not one before and one after a failure of another kind', () => {
    const { log, connector } = make('a', 'b');
    connector.want(0);
    connector.dialFailed('refused', 0);
    connector.tick(connector.timerAt);
    connector.dialFailed('failed', CONNECTOR_TIMES.refusalGapMs);
    connector.tick(connector.timerAt);
    connector.dialFailed('refused', 2 * CONNECTOR_TIMES.refusalGapMs);
    expect(log).not.toContain('give up refused');
    connector.tick(connector.timerAt);
    connector.dialFailed('refused', 3 * CONNECTOR_TIMES.refusalGapMs);
    expect(log.at(-1)).toBe('give up refused');
  });

  it('counts the time in which a peer cannot be reached from the last link on, however many have broken', () => {
    const { log, connector } = make('a', 'b', false);
    let now = 0;
    connector.want(now);
    while (now < 2 * CONNECTOR_TIMES.graceMs) {
      connector.welcomed(0, now);
      connector.linkLost((now += 1), false);
      if (connector.state === 'waiting') connector.tick((now = Math.max(now, connector.timerAt)));
    }
    connector.dialFailed('failed', now + 1);
    expect([log.filter((line) => line.startsWith('give up')), connector.state]).toEqual([[], 'waiting']);
  });

  it('takes the dial of its peer while its own one stands in line, whoever would win, and dials no more', () => {
    for (const [name, peer] of [
      ['a', 'b'],
      ['b', 'a'],
    ] as const) {
      const { log, connector } = make(name, peer, true, true);
      connector.want(0);
      connector.hello('theirs', 1, 0);
      connector.dialStarted(5);
      expect(log).toEqual(['dial', 'abandon', 'accept theirs']);
      expect(connector.state).toBe('up');
    }
  });

  it('does not count the time in line as time in which the peer could not be reached', () => {
    const { log, connector } = make('a', 'b', false, true);
    connector.want(0);
    connector.dialStarted(60_000);
    connector.dialFailed('failed', 61_000);
    expect(log).toEqual(['dial']);
    connector.tick(connector.timerAt);
    connector.dialStarted(120_000);
    connector.dialFailed('failed', 128_000);
    expect([log.length, connector.state]).toEqual([2, 'waiting']);
    connector.tick(connector.timerAt);
    connector.dialStarted(130_000);
    connector.dialFailed('failed', 140_000);
    expect(log).toEqual(['dial', 'dial', 'dial', 'give up unreachable']);
  });

  it('waits longer for a peer that takes connections and does not come to answering them', () => {
    const { log, connector } = make('a', 'b');
    let now = 0;
    connector.want(now);
    for (;;) {
      connector.dialFailed('busy', (now += 5_000));
      if (connector.timerAt === Infinity) break;
      connector.tick((now = connector.timerAt));
    }
    expect(now).toBeGreaterThanOrEqual(CONNECTOR_TIMES.busyGraceMs);
    expect(now).toBeLessThan(CONNECTOR_TIMES.busyGraceMs + 10_000);
    expect(log.at(-1)).toBe('give up unreachable');
  });

  it('does not take a late HELLO for a new one', () => {
    const { log, connector } = make('a', 'b');
    connector.want(0);
    connector.welcomed(3, 0);
    connector.hello('old', 3, 0);
    connector.hello('new', 4, 0);
    expect(log).toEqual(['dial', 'refuse old', 'accept new']);
  });

  it('gives up after two refusals from its own machine', () => {
    const { log, connector } = make('a', 'b');
    connector.hello('first', 1, 0);
    connector.linkLost(1_000, true);
    connector.dialFailed('refused', 1_001);
    expect(connector.timerAt).toBe(1_201);
    connector.tick(1_100);
    connector.tick(1_201);
    connector.dialFailed('refused', 1_202);
    expect(log).toEqual(['accept first', 'dial', 'dial', 'give up refused']);
    expect(connector.state).toBe('idle');
  });

  it('dials a far peer again, ever later, until the grace is over', () => {
    const { log, connector } = make('a', 'b', false);
    let now = 0;
    connector.want(now);
    const waits: number[] = [];
    for (;;) {
      connector.dialFailed('refused', now);
      if (connector.timerAt === Infinity) break;
      waits.push(connector.timerAt - now);
      now = connector.timerAt;
      connector.tick(now);
    }
    expect(waits[0]).toBe(25);
    expect(waits[1]).toBe(40);
    expect(now).toBe(CONNECTOR_TIMES.graceMs);
    expect(log.at(-1)).toBe('give up unreachable');
    connector.want(now + 1);
    expect(log.at(-1)).toBe('dial');
  });

  it('waits ever longer between links that break as soon as they are up, and no more once one was steady or of use', () => {
    for (const dialled of [true, false]) {
      const { connector } = dialled ? make('a', 'b', false) : make('b', 'a', false);
      let now = 0;
      let dial = 0;
      connector.want(now);
      const up = (): void => {
        if (dialled) connector.welcomed(0, now);
        else connector.hello('theirs', ++dial, now);
      };
      const waits: number[] = [];
      for (let link = 0; link < 12; link++) {
        up();
        now += 20;
        connector.linkLost(now, false);
        waits.push(connector.state === 'dialing' ? 0 : connector.timerAt - now);
        now = Math.max(now, Number.isFinite(connector.timerAt) ? connector.timerAt : now);
        connector.tick(now);
        expect(connector.state).toBe('dialing');
      }
      expect(waits.slice(0, 4)).toEqual([0, 25, 40, 64]);
      expect(waits.at(-1)).toBe(CONNECTOR_TIMES.mostWaitAfterBreakMs / 2);
      for (const [lasted, wasOfUse] of [
        [CONNECTOR_TIMES.steadyMs, false],
        [20, true],
      ] as const) {
        up();
        now += 20;
        connector.linkLost(now, false);
        expect(connector.state).toBe('waiting');
        connector.tick((now = connector.timerAt));
        up();
        now += lasted;
        connector.linkLost(now, wasOfUse);
        expect(connector.state).toBe('dialing');
        up();
        connector.linkLost((now += 20), false);
        expect(connector.state).toBe('dialing');
      }
      // The grace begins anew with each loss, and the wait is part of it.
      now += CONNECTOR_TIMES.graceMs - 1;
      connector.dialFailed('failed', now);
      expect(connector.timerAt).toBe(now + 1);
    }
  });

  it('ends every dial and parked link when it closes, and takes none afterwards', () => {
    const { log, connector } = make('a', 'b');
    connector.want(0);
    connector.hello('parked', 1, 0);
    connector.close();
    connector.want(1);
    connector.hello('late', 2, 0);
    expect(log).toEqual(['dial', 'park parked', 'abandon', 'refuse parked', 'refuse late']);
    expect(connector.state).toBe('closed');
  });

  it('forgets a parked link that is gone, and stops where no dial can help', () => {
    const { log, connector } = make('a', 'b');
    connector.want(0);
    connector.hello('parked', 1, 0);
    connector.parkedLost('parked');
    connector.dialRejected();
    expect(log).toEqual(['dial', 'park parked']);
    expect([connector.state, connector.timerAt]).toEqual(['idle', Infinity]);
  });
});
