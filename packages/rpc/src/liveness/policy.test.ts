/** @file The judgement of peers, minute by minute. */
import { describe, expect, test } from 'vitest';
import { DEFAULT_LIVENESS } from '../base/options.ts';
import { LivenessPolicy, LOOK_MS, type LivenessEffect } from './policy.ts';

const options = DEFAULT_LIVENESS;

/** Drives a policy as often as it has to look, and notes what it does when. */
class Drive {
  readonly policy = new LivenessPolicy<string>(options);
  now = 0;
  readonly log: string[] = [];
  onEffect: ((effect: LivenessEffect<string>) => void) | undefined;
  private readonly isNeeded: (peer: string) => boolean;

  constructor(isNeeded: (peer: string) => boolean = () => true) {
    this.isNeeded = isNeeded;
  }

  apply(effects: readonly LivenessEffect<string>[]): void {
    for (const effect of effects) {
      const detail = effect.type === 'accuse' ? ` ${effect.evidence}${effect.certain ? '!' : ''}` : '';
      this.log.push(`${this.now} ${effect.type} ${effect.peer}${detail}`);
      this.onEffect?.(effect);
    }
  }
  until(time: number): void {
    for (;;) {
      const next = this.now + LOOK_MS;
      if (next > time) break;
      this.now = next;
      this.apply(this.policy.tick(this.now, this.isNeeded));
    }
    this.now = time;
  }
  of(type: string): string[] {
    return this.log.filter((line) => line.split(' ')[1] === type);
  }
}

test('an idle peer that answers is pinged every two seconds and never doubted', () => {
  const drive = new Drive();
  drive.policy.track('b', 0);
  drive.onEffect = (effect) => {
    if (effect.type === 'ping') drive.apply(drive.policy.heard('b', drive.now));
  };
  drive.until(60_000);
  expect(drive.of('ping').length).toBeGreaterThanOrEqual(24);
  expect(drive.log.length).toBe(drive.of('ping').length);
});

test('a peer that talks is not pinged', () => {
  const drive = new Drive();
  drive.policy.track('b', 0);
  for (let t = 0; t < 20_000; t += 1_000) {
    drive.until(t);
    drive.apply(drive.policy.heard('b', t));
  }
  expect(drive.log).toEqual([]);
});

test('a peer whose message takes longer than silence may is never doubted, and is told at every tick that it is heard', () => {
  // Two workers: `b` sends one long message to `a`, and nothing of `a` reaches it but answers to its bytes.
  const [a, b] = [new Drive(), new Drive()];
  a.policy.track('b', 0);
  b.policy.track('a', 0);
  a.onEffect = (effect) => {
    if (effect.type === 'answer') b.apply(b.policy.heard('a', b.now));
  };
  for (let t = 500; t <= 67_000; t += 500) {
    a.apply(a.policy.heard('b', t, true));
    b.until(t);
    a.until(t);
  }
  expect(a.of('answer').length).toBeGreaterThan(100);
  expect([...a.log, ...b.log].filter((line) => !line.includes('answer'))).toEqual([]);
});

test('a whole message is answered by what it causes, not by this; and one whose rest does not come is not answered again', () => {
  const drive = new Drive();
  drive.policy.track('b', 0);
  drive.apply(drive.policy.heard('b', 100));
  drive.until(5_000);
  expect(drive.of('answer')).toEqual([]);
  drive.apply(drive.policy.heard('b', 5_000, true));
  drive.until(14_000);
  expect(drive.of('answer')).toHaveLength(1);
});

test('silence: pinged, suspect at 6 s, its lease read, accused at 15 s, once', () => {
  const drive = new Drive();
  drive.policy.track('b', 0);
  drive.until(100_000);
  expect(drive.of('ping')[0]).toBe('2000 ping b');
  expect(drive.of('suspect')).toEqual(['6000 suspect b']);
  expect(drive.of('inquire')[0]).toBe('6000 inquire b');
  expect(drive.of('accuse')).toEqual(['15000 accuse b silent']);
});

test('a suspect that is heard again is trusted, and can be suspected again', () => {
  const drive = new Drive();
  drive.policy.track('b', 0);
  drive.until(7_000);
  drive.apply(drive.policy.heard('b', 7_000));
  expect(drive.of('trusted')).toEqual(['7000 trusted b']);
  drive.until(14_000);
  expect(drive.of('suspect')).toEqual(['6000 suspect b', '13000 suspect b']);
});

test('a silent peer whose lease lives and whose loop is stuck gets a minute', () => {
  const drive = new Drive();
  drive.policy.track('b', 0);
  drive.onEffect = (effect) => {
    if (effect.type === 'inquire') drive.apply(drive.policy.lease('b', drive.now, { alive: true, ageMs: drive.now }));
  };
  drive.until(59_000);
  expect(drive.of('accuse')).toEqual([]);
  drive.until(70_000);
  expect(drive.of('accuse')).toEqual(['60000 accuse b busy']);
});

test('a peer that is alive and idle but silent to us is accused as any other', () => {
  const drive = new Drive();
  drive.policy.track('b', 0);
  drive.onEffect = (effect) => {
    if (effect.type === 'inquire') drive.apply(drive.policy.lease('b', drive.now, { alive: true, ageMs: 40 }));
  };
  drive.until(20_000);
  expect(drive.of('accuse')).toEqual(['15000 accuse b silent']);
});

test('a lease that is gone is the end, at once', () => {
  const drive = new Drive();
  drive.policy.track('b', 0);
  drive.until(100);
  drive.apply(drive.policy.lease('b', 100, { alive: false }));
  expect(drive.of('accuse')).toEqual(['100 accuse b lease-gone!']);
  drive.apply(drive.policy.lease('b', 150, { alive: false }));
  expect(drive.of('accuse')).toHaveLength(1);
});

describe('a broken link', () => {
  test('counts against a peer when the grace is over, and not before', () => {
    const drive = new Drive();
    drive.policy.track('b', 0);
    drive.policy.linkLost('b', 0);
    drive.until(9_500);
    expect(drive.of('accuse')).toEqual([]);
    drive.until(10_000);
    expect(drive.of('accuse')).toEqual(['10000 accuse b unreachable']);
  });

  test('a link that comes back in time changes nothing', () => {
    const drive = new Drive();
    drive.policy.track('b', 0);
    drive.policy.linkLost('b', 0);
    drive.apply(drive.policy.linkUp('b', 100));
    drive.policy.linkLost('b', 150);
    drive.until(10_100);
    expect(drive.of('accuse')).toEqual([]);
    drive.until(11_000);
    expect(drive.of('accuse')).toEqual([expect.stringMatching(/ accuse b unreachable$/)]);
  });
});

test('its own stall is not held against the peers', () => {
  const drive = new Drive();
  drive.policy.track('b', 0);
  drive.until(1_000);
  // Thirty seconds in one synchronous step.
  drive.now = 31_000;
  drive.apply(drive.policy.tick(31_000));
  expect(drive.log).toEqual(['31000 ping b']);
  drive.until(34_500);
  expect(drive.of('suspect')).toEqual([]);
  drive.until(60_000);
  expect(drive.of('accuse')).toHaveLength(1);
});

test('nobody to watch, and unknown peers: no effects', () => {
  const policy = new LivenessPolicy<string>(options);
  expect(policy.tick(0)).toEqual([]);
  expect(policy.heard('x', 1)).toEqual([]);
  policy.linkLost('x', 1);
  expect(policy.lease('x', 1, { alive: false })).toEqual([]);
  policy.track('x', 1);
  policy.forget('x');
  expect(policy.tick(60_000)).toEqual([]);
});

test('one whose link is up is watched from then on', () => {
  const drive = new Drive();
  drive.apply(drive.policy.linkUp('b', 0));
  drive.until(2_000);
  expect(drive.log).toEqual(['2000 ping b']);
});

test('as many links as are attended to are asked all at once, whatever they are needed for', () => {
  const drive = new Drive(() => false);
  for (let i = 0; i < 32; i++) drive.policy.track(`p${i}`, 0);
  drive.until(2_000);
  expect(drive.of('ping')).toHaveLength(32);
});

test('one that stood still and has come to itself gets a moment to say so before it is accused of silence', () => {
  const drive = new Drive();
  drive.policy.track('b', 0);
  drive.onEffect = (effect) => {
    // The store is away, and its process is found.
    if (effect.type !== 'inquire') return;
    drive.policy.there('b', drive.now);
    drive.apply(drive.policy.unknown('b', drive.now));
  };
  drive.until(30_000);
  expect(drive.of('accuse')).toEqual([]);
  // The store is back, its lease too.
  drive.onEffect = undefined;
  drive.apply(drive.policy.lease('b', drive.now, { alive: true, ageMs: 0 }));
  expect(drive.of('accuse')).toEqual([]);
  drive.until(30_000 + options.suspectMs - 1_000);
  expect(drive.of('accuse')).toEqual([]);
  drive.until(30_000 + options.suspectMs + 1_000);
  expect(drive.of('accuse')).toEqual([expect.stringContaining('accuse b silent')]);
});

test.each([600, 1_600, 5_000])('one whose loop stands still for %s ms at a time notices a silent peer', (blockMs) => {
  const policy = new LivenessPolicy<string>(options);
  policy.track('b', 0);
  const noticed: string[] = [];
  for (let now = 0; now <= 600_000 && !noticed.includes('accuse'); now += blockMs)
    for (const { type } of policy.tick(now)) if (type !== 'ping' && type !== 'inquire') noticed.push(type);
  expect(noticed).toEqual(['suspect', 'accuse']);
});

describe('more links than are attended to', () => {
  const peers = Array.from({ length: 100 }, (_, i) => `p${i}`);

  /** Pings by peer while `seconds` pass, everybody answering unless `mute`. */
  function crowd(seconds: number, isNeeded: (peer: string) => boolean, mute?: string): Drive {
    const drive = new Drive(isNeeded);
    for (const peer of peers) drive.policy.track(peer, 0);
    drive.onEffect = ({ type, peer }) => {
      if (type === 'ping' && peer !== mute) drive.apply(drive.policy.heard(peer, drive.now));
    };
    drive.until(seconds * 1_000);
    return drive;
  }

  test('cost no more pings than those that are attended to, and everybody gets its turn', () => {
    const drive = crowd(60, () => false);
    const pings = drive.of('ping');
    expect(pings.length).toBeLessThanOrEqual((60 / 2) * 32);
    expect(new Set(pings.map((line) => line.split(' ')[2])).size).toBe(100);
    expect(drive.log.length).toBe(pings.length);
  });

  test.each([500, 600, 1_000, 1_600])('everybody gets its turn also where looks come every %s ms', (everyMs) => {
    const policy = new LivenessPolicy<string>(options);
    const many = Array.from({ length: 320 }, (_, i) => `p${i}`);
    for (const peer of many) policy.track(peer, 0);
    const asked = new Set<string>();
    for (let now = 0; now <= 120_000; now += everyMs) {
      for (const { type, peer } of policy.tick(now, () => false)) {
        if (type !== 'ping') continue;
        asked.add(peer);
        policy.heard(peer, now);
      }
    }
    expect(asked.size).toBe(320);
  });

  test('those that something waits on are pinged as ever', () => {
    const drive = crowd(60, (peer) => peer === 'p7');
    expect(drive.of('ping').filter((line) => line.endsWith(' p7')).length).toBeGreaterThanOrEqual(24);
  });

  test('one that rests and is dead is noticed in its turn, its silence counted from then on', () => {
    const drive = crowd(60, () => false, 'p99');
    const [asked] = drive.of('ping').filter((line) => line.endsWith(' p99'));
    const at = Number(asked?.split(' ')[0]);
    // All were heard at once: the last is asked when the others have had their turns.
    expect(at).toBeLessThanOrEqual(14_000);
    const noticed = drive.log.filter((line) => line.endsWith('suspect p99') || line.includes('accuse p99'));
    const after = noticed.map((line) => [line.split(' ')[1], Number(line.split(' ')[0]) - at]);
    expect(after).toEqual([
      ['suspect', 4_000],
      ['accuse', 13_000],
    ]);
    // Asked on as any other, not in turn with those that rest.
    const pings = drive.of('ping').filter((line) => line.endsWith(' p99') && Number(line.split(' ')[0]) <= at + 13_000);
    expect(pings.length).toBeGreaterThanOrEqual(6);
  });

  test('one that rests is not doubted when something begins to wait on it', () => {
    let needed = false;
    const drive = new Drive((peer) => needed && peer === 'p50');
    for (const peer of peers) drive.policy.track(peer, 0);
    drive.until(5_500);
    needed = true;
    drive.until(8_000);
    expect(drive.of('ping').filter((line) => line.endsWith(' p50'))).toHaveLength(2);
    expect(drive.of('suspect').filter((line) => line.endsWith(' p50'))).toEqual([]);
  });

  test('one that was just heard is not asked because another doubts it', () => {
    const drive = new Drive(() => false);
    for (const peer of peers) drive.policy.track(peer, 0);
    drive.until(4_000);
    expect(drive.policy.heard('p99', 4_050)).toEqual([]);
    expect(drive.policy.attend('p99', 4_100)).toEqual([]);
  });

  test('one that another doubts is asked at once', () => {
    const drive = new Drive(() => false);
    for (const peer of peers) drive.policy.track(peer, 0);
    drive.until(4_000);
    drive.apply(drive.policy.attend('p99', 4_100));
    drive.apply(drive.policy.attend('p99', 4_200));
    expect(drive.log.filter((line) => line.endsWith('p99'))).toEqual(['4000 ping p99']);
    drive.until(30_000);
    expect(drive.log.find((line) => line.includes('accuse p99'))).toBe('17500 accuse p99 silent');
  });
});
