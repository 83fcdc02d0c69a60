/** @file What members call on each other to meet: to arrive, to ask who is missing, to tell that a replica was given up. */
import { keep, Tensor } from '@backwire/tensor';
import { ambient, runWith } from '@backwire/tensor/internal';
import { systemFunction } from '../base/definitions.ts';
import { RpcError } from '../base/errors.ts';
import { MAX_COLLECTIVE_TAGS, MAX_REPLICA_FAILURE_TEXT, MAX_REPLICA_NAMES_TEXT } from '../base/limits.ts';
import type { CallOptions } from '../base/options.ts';
import type { Answer } from '../client/pending-call.ts';
import type { AgentParts } from '../inspection/agent-parts.ts';
import { ARRIVE } from '../protocol/meetings.ts';
import { InboundCall } from '../server/inbound-call.ts';
import { COMBINES, type CollectiveTags, type Combine } from './combine.ts';
import type { Missing } from './meeting-texts.ts';
import type { GivenUp, Replica } from './replica-seats.ts';

/** The function by which members ask whom they wait for. */
export const MISSING = 'rpc/missing';
/** The one by which a member tells the others that it makes no further pass with a replica. */
export const GIVEN_UP = 'rpc/replica-given-up';

/** The longest name of a line of meetings, in characters. */
const MAX_LINE = 64;

/** A member's part in a meeting, as it came. */
export interface Coming {
  /** The meeting. */
  readonly key: string;
  /** Who meets; nobody named = all. */
  readonly names: readonly string[];
  readonly value: unknown;
  readonly combine: Combine;
  /** Whether it goes on without those that are gone. */
  readonly survive: boolean;
  readonly timeoutMs: number;
  readonly tags: CollectiveTags;
}

/** The side that collects. */
export interface Collecting {
  arrive(from: string, coming: Coming, signal: AbortSignal): Promise<unknown>;
  missing(key: string, from: string): Missing[];
  replicaGivenUp(replica: Replica, why: GivenUp): void;
}

const byAgent = new WeakMap<object, Collecting>();

/** Where what members call on an agent goes. */
export function serveCollectives(agent: object, collecting: Collecting): void {
  byAgent.set(agent, collecting);
}

export type ArriveArguments = [
  key: string,
  names: readonly string[],
  value: unknown,
  combine: Combine,
  survive: boolean,
  timeoutMs: number,
  tags: unknown,
];

export const NO_TAGS: CollectiveTags = Object.freeze({});

/** A peer's tags, checked: texts and numbers, no more than so many. */
function checkTags(tags: unknown): CollectiveTags {
  if (tags === undefined) return NO_TAGS;
  const entries = typeof tags === 'object' && tags !== null ? Object.entries(tags) : undefined;
  const known = entries?.every(([, value]) => typeof value === 'string' || typeof value === 'number');
  if (entries === undefined || known !== true || entries.length > MAX_COLLECTIVE_TAGS)
    throw new TypeError('malformed tags of a collective');
  return Object.fromEntries(entries);
}

/** Runs on the collecting member, in a scope: a tensor that was brought is freed when the answer is written. */
const arriveHere = (...[key, names, value, combine, survive, timeoutMs, tags]: ArriveArguments): Promise<unknown> => {
  const { call } = ambient();
  if (!(call instanceof InboundCall)) throw new RpcError('failed-precondition', 'not in a call');
  const known = typeof key === 'string' && Array.isArray(names) && names.every((name) => typeof name === 'string');
  if (!known || !COMBINES.has(combine) || !(timeoutMs >= 0)) throw new TypeError('malformed arrival');
  const collectives = byAgent.get(ambient().agent as object);
  if (collectives === undefined) throw new RpcError('failed-precondition', 'not in a call of an agent');
  const coming = { key, names, value, combine, survive, timeoutMs, tags: checkTags(tags) };
  // All others are answered with what it holds, at times of their own.
  if (!(value instanceof Tensor)) keep(value);
  return collectives.arrive(call.caller.name, coming, call.signal);
};
systemFunction(ARRIVE, arriveHere, undefined, true);

/** A member tells that it makes no further exchange with a replica. */
systemFunction(
  GIVEN_UP,
  (names: unknown, line: unknown, number: unknown, after: unknown, broken: unknown, text: unknown): void => {
    const { call, agent } = ambient();
    if (!(call instanceof InboundCall)) throw new RpcError('failed-precondition', 'not in a call');
    const { name } = call.caller;
    const isKnown = isNames(names) && names.includes(name) && typeof line === 'string' && line.length <= MAX_LINE;
    if (!isKnown || !isCount(number) || !isCount(after)) throw new TypeError('malformed replica');
    if (typeof text !== 'string' || text.length > MAX_REPLICA_FAILURE_TEXT) throw new TypeError('malformed reason');
    const why = { by: name, after, broken: broken === true, text };
    byAgent.get(agent as object)?.replicaGivenUp({ names, line, number }, why);
  },
);

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Names of workers that may be those of a group. */
function isNames(names: unknown): names is readonly string[] {
  if (!Array.isArray(names)) return false;
  let characters = 0;
  return (names as unknown[]).every(
    (name) => typeof name === 'string' && (characters += name.length + 1) <= MAX_REPLICA_NAMES_TEXT,
  );
}

/** Tells a member that waits here whom it waits for. */
systemFunction(MISSING, (key: string): Missing[] => {
  const { call } = ambient();
  if (!(call instanceof InboundCall)) throw new RpcError('failed-precondition', 'not in a call');
  return typeof key === 'string' ? (byAgent.get(ambient().agent as object)?.missing(key, call.caller.name) ?? []) : [];
});

/** The call of a member to the one that collects. */
export function ask(
  agent: AgentParts,
  to: string,
  name: string,
  args: readonly unknown[],
  options: CallOptions,
): Promise<unknown> {
  return new Promise((resolve, reject) => begin(agent, to, name, args, options, { resolve, reject }));
}

/** Makes the call; what refuses it is told before this returns, where its arguments are there to be written. Throws where there is no such member. */
export function begin(
  agent: AgentParts,
  to: string,
  name: string,
  args: readonly unknown[],
  options: CallOptions,
  answer: Answer,
): void {
  const form = { mode: 'value' as const, label: { kind: 'other' as const, name }, defaultTimeoutMs: 0 };
  // Outside of any autograd context or profile: this is not the program's call.
  runWith({ contextId: undefined, profile: undefined }, () =>
    agent.caller.call(agent.members.find(to), name, args, options, form, answer),
  );
}
