/** @file Listeners of events: which there are, and how many. */
import { expect, it } from 'vitest';
import type { AgentEvents } from '../base/rpc-agent.ts';
import { EventHub } from './events.ts';

const nothing = (): void => undefined;

it('an event that does not exist is refused, with the one that was meant or all there are', () => {
  const hub = new EventHub();
  const on = (name: string) => (): unknown => hub.on(name as keyof AgentEvents, nothing);
  expect(on('peer-dwon')).toThrow("no event is named 'peer-dwon'; did you mean 'peer-down'?");
  expect(on('message')).toThrow(
    "no event is named 'message'; there are peer-suspect, peer-down, peer-joined, peer-left, peer-reconnected, fenced, error",
  );
});

it('an event has a thousand listeners and no more, until one of them is ended', () => {
  const hub = new EventHub();
  const offs = Array.from({ length: 1_000 }, () => hub.on('error', nothing));
  const late = (): unknown => hub.on('error', nothing);
  expect(late).toThrow(
    "more than 1000 listeners of 'error': end each with what on() returned, or with a signal [resource-exhausted]",
  );
  hub.on('fenced', nothing);
  offs[0]?.();
  late();
  expect(late).toThrow('more than 1000');
});

/** A listener's type gives nothing, and so an asynchronous one may be given, too. */
function rejecting(message: string, called = nothing): () => void {
  const listener: unknown = async (): Promise<never> => {
    called();
    await Promise.resolve();
    throw new Error(message);
  };
  return listener as () => void;
}

it("what a listener throws, or an asynchronous one rejects with, is an 'error' event; the others are told all the same", async () => {
  const hub = new EventHub();
  const heard: string[] = [];
  hub.on('error', (error) => void heard.push(String(error)));
  hub.on('fenced', () => {
    throw new Error('thrown');
  });
  hub.on('fenced', rejecting('rejected'));
  const oddThenable = { then: (_: unknown, reject: (error: Error) => void) => reject(new Error('of a thenable')) };
  hub.on('fenced', () => oddThenable);
  hub.on('fenced', () => void heard.push('told'));
  hub.emit('fenced', undefined);
  expect(heard).toEqual(['Error: thrown', 'told']);
  await expect.poll(() => heard.slice(2).toSorted()).toEqual(['Error: of a thenable', 'Error: rejected']);
});

it("what an asynchronous listener of 'error' rejects with is a warning, and no further event", async () => {
  const hub = new EventHub();
  const warned: unknown[] = [];
  const listener = (warning: unknown): void => void warned.push(warning);
  process.on('warning', listener);
  let told = 0;
  hub.on(
    'error',
    rejecting('of the listener', () => void told++),
  );
  hub.emit('error', new Error('first'));
  await expect.poll(() => warned.map(String)).toEqual(['Error: of the listener']);
  process.off('warning', listener);
  expect(told).toBe(1);
});
