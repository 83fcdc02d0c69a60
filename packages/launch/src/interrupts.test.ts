/** @file One Ctrl-C that comes twice is one; a second in earnest is told; what is no signal never counts as a second one. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Interrupts } from './interrupts.ts';
import { REPEAT_MS } from './limits.ts';

const NAMES: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM'];

let told: NodeJS.Signals[];
let stop: AbortController;
let interrupts: Interrupts;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  told = [];
  stop = new AbortController();
  interrupts = new Interrupts(NAMES, stop.signal);
});
afterEach(() => {
  interrupts.close();
  vi.useRealTimers();
});

const listen = (): (() => void) => interrupts.listen((by) => told.push(by));
const send = (name: NodeJS.Signals): boolean => process.emit(name, name);

describe('signals to a launcher', () => {
  it.each([
    ['SIGINT', 'SIGINT'],
    ['SIGINT', 'SIGTERM'],
  ] as const)('%s and %s at once are one', (first, second) => {
    listen();
    send(first);
    vi.advanceTimersByTime(REPEAT_MS - 1);
    send(second);
    expect(told).toEqual([first]);
    expect(interrupts.by).toBe(first);
  });

  it('that come later are more, each of them', () => {
    listen();
    send('SIGINT');
    vi.advanceTimersByTime(REPEAT_MS + 1);
    send('SIGINT');
    send('SIGTERM');
    expect(told).toEqual(['SIGINT', 'SIGINT', 'SIGTERM']);
  });

  it('are not followed by an abort, or by a failure of what the caller gave', () => {
    listen();
    send('SIGINT');
    vi.advanceTimersByTime(REPEAT_MS + 1);
    stop.abort();
    interrupts.fail(new Error('of the caller'));
    expect(told).toEqual(['SIGINT']);
    expect(() => interrupts.throwIfFailed()).toThrow('of the caller');
  });

  it('are waited for a while longer where no worker runs, and then left to the process', () => {
    const unlisten = listen();
    const others = process.listenerCount('SIGINT') - 1;
    send('SIGINT');
    unlisten();
    expect(process.listenerCount('SIGINT')).toBe(others + 1);
    vi.advanceTimersByTime(REPEAT_MS + 1);
    expect(process.listenerCount('SIGINT')).toBe(others);
  });
});
