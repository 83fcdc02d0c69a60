import { beforeEach, describe, expect, it } from 'vitest';
import { VirtualClock } from './clock.ts';
import type { End } from './connection.ts';
import { calm } from './faults.ts';
import { SimNetwork } from './network.ts';
import { Random } from './random.ts';

let clock: VirtualClock;
let network: SimNetwork;
const runAll = (): void => {
  while (clock.step() !== undefined);
};
beforeEach(() => {
  clock = new VirtualClock();
  network = new SimNetwork(clock, new Random('net'));
});

describe('datagrams', () => {
  const arrivals = (count: number): number[] => {
    const got: number[] = [];
    network.attach('b', (_from, message) => got.push(message as number));
    for (let i = 0; i < count; i++) network.send('a', 'b', i);
    runAll();
    return got;
  };

  it('are lost, doubled and reordered at the asked rates, and only then', () => {
    expect(arrivals(100)).toEqual(Array.from({ length: 100 }, (_, i) => i));
    network.rates = { ...calm, drop: 0.2 };
    const lossy = arrivals(2_000);
    expect(lossy.length).toBeGreaterThan(1_500);
    expect(lossy.length).toBeLessThan(1_700);
    network.rates = { ...calm, duplicate: 0.5 };
    expect(arrivals(2_000).length).toBeGreaterThan(2_800);
    network.rates = { ...calm, reorder: 0.3, jitterMs: 1 };
    const mixed = arrivals(200);
    expect([...mixed].sort((x, y) => x - y)).toEqual(Array.from({ length: 200 }, (_, i) => i));
    expect(mixed).not.toEqual([...mixed].sort((x, y) => x - y));
  });

  it('do not cross a partition in its direction, and those in flight when it starts are lost', () => {
    const got: string[] = [];
    network.attach('a', (from) => got.push(`${from}>a`));
    network.attach('b', (from) => got.push(`${from}>b`));
    network.send('a', 'b', 'in flight');
    network.block('a', 'b');
    network.send('b', 'a', 'other direction');
    runAll();
    expect(got).toEqual(['b>a']);
  });

  it('wait for a paused node in order, and never reach a node that went down', () => {
    const got: unknown[] = [];
    network.attach('b', (_from, message) => got.push(message));
    network.pause('b');
    network.send('a', 'b', 1);
    network.send('a', 'b', 2);
    runAll();
    expect(got).toEqual([]);
    network.resume('b');
    expect(got).toEqual([1, 2]);
    network.send('a', 'b', 3);
    network.detach('b');
    runAll();
    expect(got).toEqual([1, 2]);
  });
});

describe('connections', () => {
  interface Side {
    end: End;
    got: unknown[];
    closed: string[];
  }
  const watch = (end: End): Side => {
    const side: Side = { end, got: [], closed: [] };
    end.onMessage = (data) => side.got.push(data);
    end.onClose = (reason) => side.closed.push(reason);
    return side;
  };
  const open = (): [Side, Side] => {
    let accepted: Side | undefined;
    network.attach('b', undefined, (end) => (accepted = watch(end)));
    const dialled = watch(network.connect('a', 'b'));
    runAll();
    return [dialled, accepted!];
  };

  it('open, carry messages in order whatever the jitter, and close after the last one', () => {
    network.rates = { ...calm, jitterMs: 50 };
    const [a, b] = open();
    expect(a.end.state).toBe('open');
    for (let i = 0; i < 50; i++) a.end.send(i);
    a.end.close();
    runAll();
    expect(b.got).toEqual(Array.from({ length: 50 }, (_, i) => i));
    expect(b.closed).toEqual(['closed']);
    expect(a.closed).toEqual([]);
  });

  it('are refused when nobody listens', () => {
    const side = watch(network.connect('a', 'nobody'));
    runAll();
    expect(side.closed).toEqual(['refused']);
  });

  it('hold what is in flight during a partition and deliver it in order afterwards', () => {
    const [a, b] = open();
    network.block('a', 'b');
    a.end.send(1);
    runAll();
    a.end.send(2);
    network.unblock('a', 'b');
    a.end.send(3);
    runAll();
    expect(b.got).toEqual([1, 2, 3]);
  });

  it('lose what is in flight on a reset and tell both ends once', () => {
    const [a, b] = open();
    a.end.send('lost');
    b.end.send('lost too');
    network.reset('a', 'b');
    a.end.send('after the reset, before hearing of it');
    runAll();
    expect([a.got, b.got]).toEqual([[], []]);
    expect([a.closed, b.closed]).toEqual([['reset'], ['reset']]);
  });

  it('leave an end half open when the reset cannot reach it', () => {
    const [a, b] = open();
    network.block('a', 'b');
    network.reset('a', 'b');
    runAll();
    expect(a.closed).toEqual(['reset']);
    expect(b.end.state).toBe('open');
    network.heal();
    runAll();
    expect(b.closed).toEqual(['reset']);
  });

  it('reset when the peer dies: the survivor first gets what was sent, the dead get nothing', () => {
    const [a, b] = open();
    b.end.send('last words');
    a.end.send('into the void');
    network.detach('b');
    runAll();
    expect(a.got).toEqual(['last words']);
    expect(a.closed).toEqual(['reset']);
    expect(b.got).toEqual([]);
    expect(b.closed).toEqual([]);
  });

  it('split and merge bytes but keep the stream', () => {
    network.rates = { ...calm, split: 0.5, merge: 0.5, jitterMs: 3 };
    const [a, b] = open();
    const sent: number[] = [];
    for (let i = 0; i < 200; i++) {
      a.end.send(Uint8Array.of(i & 255, (i * 7) & 255, 3));
      sent.push(i & 255, (i * 7) & 255, 3);
    }
    runAll();
    const pieces = b.got as Uint8Array[];
    expect(pieces.flatMap((piece) => [...piece])).toEqual(sent);
    expect(new Set(pieces.map((piece) => piece.length)).size).toBeGreaterThan(3);
  });

  it('flip bits, and end truncated writes with a reset after a prefix', () => {
    network.rates = { ...calm, flip: 1 };
    const [a, b] = open();
    const sent = new Uint8Array(16);
    a.end.send(sent);
    runAll();
    const flipped = [...(b.got[0] as Uint8Array)].filter((byte) => byte !== 0);
    expect(flipped).toHaveLength(1);
    expect(Math.log2(flipped[0]!) % 1).toBe(0);
    expect([...sent]).toEqual(new Array(16).fill(0));

    network.rates = { ...calm, truncate: 1 };
    a.end.send(Uint8Array.from({ length: 64 }, (_, i) => i));
    runAll();
    const prefix = b.got[1] as Uint8Array;
    expect([...prefix]).toEqual(Array.from({ length: prefix.length }, (_, i) => i));
    expect(b.closed).toEqual(['reset']);
  });
});
