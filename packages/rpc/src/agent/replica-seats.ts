/**
 * @file Replicas over the same workers: which meetings are theirs, and which of them some member has given up. Members make replicas in the
 * same order, so that the nth over some workers is the nth on each; those of one process group meet in one line, those of another beside it.
 */
import { hashText } from '@backwire/tensor/internal';
import { RpcError } from '../base/errors.ts';
import { MAX_FAILED_REPLICA_TEXT, MAX_FAILED_REPLICAS } from '../base/limits.ts';
import type { WorkerInfo } from '../base/worker-info.ts';
import type { AgentParts } from '../inspection/agent-parts.ts';
import { partsOfKey } from '../protocol/meetings.ts';
import type { CollectiveTags } from './combine.ts';

/** A replica, as all members know it. */
export interface SeatedReplica {
  /** The members of its group, by name. */
  readonly names: readonly string[];
  /** The line of meetings of its process group. */
  readonly line: string;
  readonly number: number;
}

/** Why a member has given a replica up. */
export interface GivenUp {
  readonly by: string;
  /** Whether a member of the group is gone. */
  readonly broken: boolean;
  readonly text: string;
}

export class ReplicaSeats {
  private readonly agent: AgentParts;
  /** By kind and workers: their lives when the last was made, and how many were since these live. */
  private readonly made = new Map<string, { readonly lives: string; count: number }>();
  private readonly givenUp = new Map<string, GivenUp>();
  private characters = 0;

  constructor(agent: AgentParts) {
    this.agent = agent;
  }

  /**
   * The place of one more replica, or process group, over these workers. One of them that has begun anew counts from one, and so do the
   * others with it. The line is no other's over these workers, and no former life's.
   */
  take(names: readonly string[], kind: 'replica' | 'group'): { readonly number: number; readonly line: string } {
    const key = `${kind}\n${sortedText(names)}`;
    const lives = this.livesOf(names);
    let entry = this.made.get(key);
    if (entry?.lives !== lives) this.made.set(key, (entry = { lives, count: 0 }));
    const number = ++entry.count;
    return { number, line: `${kind === 'group' ? 'g' : ''}${number}.${hashText(lives).toString(36)}` };
  }

  /** Why what is brought to a meeting of a replica can meet nothing; undefined where it can. */
  failure(meeting: string, tags: CollectiveTags): RpcError | undefined {
    const { replica } = tags;
    if (this.givenUp.size === 0 || typeof replica !== 'number') return undefined;
    const { name, names } = partsOfKey(meeting);
    const why = this.givenUp.get(keyOf(names, lineIn(name), replica));
    return why && this.errorOf(why, replica);
  }

  /** A member makes no further pass with a replica. The first to say so is who is named. @returns what others that wait with it are told. */
  giveUp({ names, line, number }: SeatedReplica, why: GivenUp): RpcError | undefined {
    const key = keyOf(names, line, number);
    if (this.givenUp.has(key)) return undefined;
    this.givenUp.set(key, why);
    this.characters += key.length + why.text.length;
    // The oldest are of replicas that their other members have given up as well, long since.
    for (const [oldest, { text }] of this.givenUp) {
      if (this.givenUp.size <= MAX_FAILED_REPLICAS && this.characters <= MAX_FAILED_REPLICA_TEXT) break;
      this.givenUp.delete(oldest);
      this.characters -= oldest.length + text.length;
    }
    return this.errorOf(why, number);
  }

  private errorOf({ by, broken, text }: GivenUp, number: number): RpcError {
    const said = `worker '${by}' makes no further pass with replica ${number} of its group: ${text}`;
    return new RpcError(broken ? 'barrier-broken' : 'failed-precondition', said, {
      executed: 'yes',
      peer: workerNamed(this.agent, by),
    });
  }

  private livesOf(names: readonly string[]): string {
    const { agent } = this;
    const lives = new Map(agent.members.others().map(({ worker, incarnation }) => [worker.name, incarnation]));
    lives.set(agent.name, agent.incarnation);
    return [...names]
      .sort()
      .map((name) => `${name}#${lives.get(name) ?? 0}`)
      .join('\n');
  }
}

/** The same for every order of the names. */
const sortedText = (names: readonly string[]): string => [...names].sort().join('\n');

const keyOf = (names: readonly string[], line: string, number: number): string =>
  `${line} ${number}\n${sortedText(names)}`;

/** Who is meant in an error; undefined for one that is gone. */
export function workerNamed(agent: AgentParts, name: string): WorkerInfo | undefined {
  return name === agent.name ? agent.self : agent.members.others().find(({ worker }) => worker.name === name)?.worker;
}

/** The line of a meeting: it is called `kind/what/line`. */
function lineIn(meeting: string): string {
  return meeting.split('/')[2] ?? '';
}
