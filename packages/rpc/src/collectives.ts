/** @file Things a group does together: all-gather, barrier, all-reduce, broadcast. The member with the smallest name collects and answers. */
import { Tensor } from '@backwire/tensor';
import type { Agent } from './agent.ts';
import { agentOf } from './current.ts';
import { systemFunction } from './definitions.ts';
import { RpcError, rpcInfo } from './errors.ts';
import { InboundCall } from './inbound-call.ts';
import { MAX_OPEN_COLLECTIVES } from './limits.ts';
import { ambient, runWith } from '@backwire/tensor/internal';
import { checkTimeoutMs, type CallOptions } from './options.ts';

/** The function that members call on the one that collects. */
export const ARRIVE = 'rpc/arrive';

/** How the values of all become the answer to each. */
type Combine = 'all' | 'sum' | 'mean' | 'first';

export interface GatherOptions extends CallOptions {
  readonly workers?: readonly string[] | undefined;
}

interface Arrival {
  readonly value: unknown;
  resolve(result: unknown): void;
  reject(error: RpcError): void;
}

/** One meeting. Its members are fixed when the first of them arrives; who joins the group later is not waited for. */
interface Round {
  readonly key: string;
  readonly expected: Set<string>;
  readonly arrivals: Map<string, Arrival>;
  readonly combine: Combine;
  /** Goes on without those who die or leave. */
  readonly survive: boolean;
}

/** The answer of the collecting member comes a little after the time given at worst, with the names of who is missing. */
const ANSWER_MS = 2_000;

/** The rounds that one worker collects for, and its own part in those of others. */
export class Collectives {
  private readonly agent: Agent;
  private readonly rounds: Round[] = [];
  private closed = false;

  constructor(agent: Agent) {
    this.agent = agent;
  }

  /** Brings `value` to a meeting and resolves with what all brought, by name. */
  async gather<T>(
    name: string,
    value: T,
    options: GatherOptions & { survive?: boolean } = {},
  ): Promise<Map<string, T>> {
    return (await this.meet(name, value, 'all', options)) as Map<string, T>;
  }

  /** Brings `value` to the meeting `name` of `options.workers`. */
  async meet(
    name: string,
    value: unknown,
    combine: Combine,
    options: GatherOptions & { survive?: boolean },
  ): Promise<unknown> {
    const { agent } = this;
    const everybody = options.workers === undefined;
    const others = this.others(options.survive ?? false);
    const names = [...new Set(options.workers ?? [agent.name, ...others])].sort();
    if (!names.includes(agent.name))
      throw new RpcError('invalid-argument', `worker '${agent.name}' is not among the workers of this collective`);
    const timeoutMs = options.timeoutMs === undefined ? 0 : checkTimeoutMs(options.timeoutMs);
    const leader = names[0] as string;
    const key = everybody ? `${name}\n*` : `${name}\n${names.join('\n')}`;
    try {
      return await arrive(
        agent,
        leader,
        [key, everybody ? [] : names, value, combine, options.survive ?? false, timeoutMs],
        {
          timeoutMs: timeoutMs === 0 ? 0 : timeoutMs + ANSWER_MS,
          signal: options.signal,
        },
      );
    } catch (error) {
      throw this.explain(error, leader, options.survive ?? false);
    }
  }

  /** A member has arrived at a meeting that this worker collects for. */
  arrive(
    from: string,
    key: string,
    names: readonly string[],
    value: unknown,
    combine: Combine,
    survive: boolean,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<unknown> {
    if (this.closed) return Promise.reject(new RpcError('unavailable', `worker '${this.agent.name}' has shut down`));
    const round =
      this.rounds.find((open) => open.key === key && open.expected.has(from) && !open.arrivals.has(from)) ??
      this.open(key, from, names, combine, survive);
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const leave = (error: RpcError): void => {
        clearTimeout(timer);
        if (round.arrivals.get(from) !== arrival) return;
        round.arrivals.delete(from);
        if (round.arrivals.size === 0) this.drop(round);
        reject(error);
      };
      const arrival: Arrival = {
        value,
        resolve: (result) => {
          clearTimeout(timer);
          resolve(result);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      };
      if (timeoutMs > 0) timer = setTimeout(() => leave(this.late(round, timeoutMs)), timeoutMs);
      signal.addEventListener('abort', () => leave(new RpcError('cancelled', 'the collective was cancelled')), {
        once: true,
      });
      round.arrivals.set(from, arrival);
      this.advance(round);
    });
  }

  /** A worker died or left, or is merely out of reach: whoever waits for it is told, or goes on without it. */
  gone(name: string, onlyUnreachable = false): void {
    for (const round of [...this.rounds]) {
      if (!round.expected.has(name) || (onlyUnreachable && !round.survive)) continue;
      if (round.survive) {
        round.expected.delete(name);
        round.arrivals.delete(name);
        this.advance(round);
        continue;
      }
      this.drop(round);
      const arrived = [...round.arrivals.keys()].sort().join(', ');
      const error = new RpcError('barrier-broken', `worker '${name}' is gone; '${arrived}' had arrived`, {
        executed: 'yes',
      });
      for (const arrival of round.arrivals.values()) arrival.reject(error);
    }
  }

  close(): void {
    this.closed = true;
    const error = new RpcError('unavailable', `worker '${this.agent.name}' has shut down`);
    for (const round of this.rounds.splice(0)) for (const arrival of round.arrivals.values()) arrival.reject(error);
  }

  /** All other members; those that cannot be reached only where it would not do to go on without them. */
  private others(survive: boolean): string[] {
    const { members } = this.agent;
    return (survive ? members.reachable() : members.list()).map((peer) => peer.worker.name);
  }

  private open(key: string, from: string, names: readonly string[], combine: Combine, survive: boolean): Round {
    if (this.rounds.length >= MAX_OPEN_COLLECTIVES)
      throw new RpcError('resource-exhausted', 'too many collectives are open');
    const { agent } = this;
    const everybody = names.length === 0;
    const expected = new Set(everybody ? [agent.name, ...this.others(survive)] : names);
    expected.add(from);
    for (const name of everybody ? [] : names) {
      if (name === agent.name || agent.membership.member(name) !== undefined) continue;
      if (survive) expected.delete(name);
      else throw new RpcError('barrier-broken', `worker '${name}' is not a member of the group`);
    }
    const round: Round = { key, expected, arrivals: new Map(), combine, survive };
    this.rounds.push(round);
    return round;
  }

  private advance(round: Round): void {
    if (!this.rounds.includes(round)) return;
    for (const name of round.expected) if (!round.arrivals.has(name)) return;
    this.drop(round);
    const names = [...round.arrivals.keys()].sort();
    let result: unknown;
    try {
      result = combined(round, names);
    } catch (error) {
      const failure = new RpcError('invalid-argument', error instanceof Error ? error.message : String(error), {
        executed: 'yes',
        cause: error,
      });
      for (const arrival of round.arrivals.values()) arrival.reject(failure);
      return;
    }
    for (const arrival of round.arrivals.values()) arrival.resolve(result);
  }

  private drop(round: Round): void {
    const at = this.rounds.indexOf(round);
    if (at >= 0) this.rounds.splice(at, 1);
  }

  private late(round: Round, timeoutMs: number): RpcError {
    const absent = [...round.expected].filter((name) => !round.arrivals.has(name)).sort();
    const text = `Followers [${absent.map((name) => `'${name}'`).join(', ')}] timed out in _all_gather after ${(timeoutMs / 1000).toFixed(2)} seconds`;
    return new RpcError('deadline-exceeded', text, { executed: 'yes' });
  }

  /** The end of the collecting member breaks the meeting for all. */
  private explain(error: unknown, leader: string, survive: boolean): unknown {
    const info = rpcInfo(error);
    if (info === undefined || survive) return error;
    if (info.code !== 'peer-died' && info.code !== 'not-found' && info.code !== 'unavailable') return info;
    return new RpcError('barrier-broken', `worker '${leader}', which collects for the group, is gone`, {
      executed: 'maybe',
      cause: error,
    });
  }
}

function combined(round: Round, names: readonly string[]): unknown {
  const values = names.map((name) => round.arrivals.get(name)?.value);
  switch (round.combine) {
    case 'all':
      return new Map(names.map((name, i) => [name, values[i]]));
    case 'first':
      return values.find((value) => value !== null);
    case 'sum':
    case 'mean': {
      // In the order of names, so that every run gives the same bits.
      const tensors = values.map((value) => {
        if (!(value instanceof Tensor)) throw new TypeError('only tensors can be reduced');
        return value;
      });
      let sum = tensors[0] as Tensor;
      for (const next of tensors.slice(1)) sum = sum.add(next);
      return round.combine === 'sum' ? sum : sum.div(tensors.length);
    }
  }
}

const COMBINES: ReadonlySet<string> = new Set<Combine>(['all', 'sum', 'mean', 'first']);

type Arguments = [
  key: string,
  names: readonly string[],
  value: unknown,
  combine: Combine,
  survive: boolean,
  timeoutMs: number,
];

/** Runs on the collecting member. */
systemFunction(ARRIVE, (...[key, names, value, combine, survive, timeoutMs]: Arguments): Promise<unknown> => {
  const { call } = ambient();
  if (!(call instanceof InboundCall)) throw new RpcError('failed-precondition', 'not in a call');
  const known = typeof key === 'string' && Array.isArray(names) && names.every((name) => typeof name === 'string');
  if (!known || !COMBINES.has(combine) || !(timeoutMs >= 0)) throw new TypeError('malformed arrival');
  const { collectives } = agentOf();
  return collectives.arrive(call.caller.name, key, names, value, combine, survive, timeoutMs, call.signal);
});

/** The call of a member to the one that collects. */
function arrive(agent: Agent, leader: string, args: Arguments, options: CallOptions): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const form = { mode: 'value' as const, label: { kind: 'other' as const, name: ARRIVE }, defaultTimeoutMs: 0 };
    // Outside of any autograd context or profile: this is not the program's call.
    runWith({ contextId: undefined, profile: undefined }, () =>
      agent.caller.call(agent.members.find(leader), ARRIVE, args, options, form, { resolve, reject }),
    );
  });
}
