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
