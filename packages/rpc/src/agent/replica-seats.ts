/**
 * @file Replicas over the same workers: which meetings are theirs, and which of them some member has given up. Members make replicas in the
 * same order, so that the nth over some workers is the nth on each; those of one process group meet in one line, those of another beside it.
 */
import { hashText, type Told } from '@backwire/tensor/internal';
import { RpcError } from '../base/errors.ts';
import {
  MAX_FAILED_REPLICA_TEXT,
  MAX_FAILED_REPLICAS,
  MAX_LIVING_LINE_LENGTH,
  MAX_LIVING_LINES,
} from '../base/limits.ts';
import type { WorkerInfo } from '../base/worker-info.ts';
import type { AgentParts } from '../inspection/agent-parts.ts';
import { lineOfKey, partsOfKey } from '../protocol/meeting-keys.ts';
import type { CollectiveTags } from './combine.ts';

/** A replica, as all members know it. */
export interface Replica {
  /** The members of its group, by name. */
  readonly names: readonly string[];
  /** The line of meetings of its process group. */
  readonly line: string;
  readonly number: number;
}

/** The place of a replica, or of a process group, over some workers. */
export interface Place {
  readonly number: number;
  /** No other's over these workers, and no former life's. */
  readonly line: string;
  /** The workers as they were. */
  readonly lives: string;
}

/** Why a member has given a replica up. */
export interface GivenUp {
  readonly by: string;
  /** How many exchanges with it that member has come through; it makes no other. */
  readonly after: number;
  /** Whether a member of the group is gone. */
  readonly broken: boolean;
  readonly text: string;
}

export class ReplicaSeats {
  private readonly agent: AgentParts;
  /** By kind and workers: their lives when the last was made, and how many were since these live. */
  private readonly made = new Map<string, { readonly lives: string; count: number }>();
  /** By who says so, then by replica: one that says more than is kept loses what it said itself. */
  private readonly givenUp = new Map<string, Failures>();
  /** Replicas with an exchange under way here. */
  private readonly watched = new Map<string, Told>();
  /** Lines that are of the living, as long as nobody comes or goes. */
  private readonly living = new Set<string>();

  constructor(agent: AgentParts) {
    this.agent = agent;
  }

  /** The place of one more replica, or group. A worker that has begun anew counts from one, and so do the others with it. */
  take(names: readonly string[], kind: 'replica' | 'group'): Place {
    const key = `${kind}\n${sortedText(names)}`;
    const lives = this.livesOf(names);
    let entry = this.made.get(key);
    if (entry?.lives !== lives) this.made.set(key, (entry = { lives, count: 0 }));
    const number = ++entry.count;
    return { number, line: `${kind === 'group' ? 'g' : ''}${number}.${hashOf(lives)}`, lives };
  }

  /** Whether the workers of a meeting live as they did when its line began; a meeting without a line has none to outlive. */
  isOfTheLiving(meeting: string): boolean {
    const line = lineOfKey(meeting);
    if (line === undefined || this.living.has(line)) return true;
    const { line: place, names } = partsOfKey(meeting);
    const [, hash] = place.split('.');
    if (hash === undefined || names.length === 0) return true;
    if (hash !== hashOf(this.livesOf(names))) return false;
    if (this.living.size >= MAX_LIVING_LINES) this.living.clear();
    if (line.length <= MAX_LIVING_LINE_LENGTH) this.living.add(line);
    return true;
  }

  /** @throws RpcError 'barrier-broken' when one of the workers is gone, or has begun anew. */
  checkLives(names: readonly string[], lives: string): void {
    const now = this.livesOf(names);
    if (now === lives) return;
    const before = lives.split('\n');
    const name = [...names].sort().find((_, i) => before[i] !== now.split('\n')[i]) as string;
    const isGone = workerNamed(this.agent, name) === undefined;
    throw new RpcError('barrier-broken', isGone ? `worker '${name}' is gone` : begunAnew([name]), { executed: 'no' });
  }

  /** What was told, or is told from now on, of a replica. Of each there is one exchange at a time. */
  watch(replica: Replica, told: Told): () => void {
    const key = keyOf(replica);
    this.watched.set(key, told);
    for (const failures of this.givenUp.values()) {
      const why = failures.get(key);
      if (why !== undefined) told(this.errorOf(why, replica.number), why.after);
    }
    return () => this.watched.delete(key);
  }

  /** A member makes no further exchange with a replica. @returns what those are told who wait for that with it. */
  giveUp(replica: Replica, why: GivenUp): RpcError {
    const key = keyOf(replica);
    let failures = this.givenUp.get(why.by);
    if (failures === undefined) this.givenUp.set(why.by, (failures = new Failures()));
    failures.add(key, why);
    const error = this.errorOf(why, replica.number);
    this.watched.get(key)?.(error, why.after);
    return error;
  }

  /**
   * Why what is brought to a meeting of a replica can meet nothing, as somebody has given that up; undefined where it can. Who has brought
   * it may not have heard of that yet, and others may be at the next replica of the group already.
   */
  failure(meeting: string, tags: CollectiveTags): RpcError | undefined {
    const { replica, exchange } = tags;
    if (this.givenUp.size === 0 || typeof replica !== 'number' || typeof exchange !== 'number') return undefined;
    const key = keyOf({ ...partsOfKey(meeting), number: replica });
    for (const failures of this.givenUp.values()) {
      const why = failures.get(key);
      if (why !== undefined && why.after < exchange) return this.errorOf(why, replica);
    }
    return undefined;
  }

  /** A member has come or gone. */
  changed(): void {
    this.living.clear();
  }

  /** A member is gone, with what it said. */
  gone(name: string): void {
    this.changed();
    this.givenUp.delete(name);
    // With another life of it all are counted anew.
    for (const key of this.made.keys()) if (key.split('\n').includes(name)) this.made.delete(key);
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

/** What one member has said, the latest of it. */
class Failures {
  private readonly all = new Map<string, GivenUp>();
  private characters = 0;

  get(key: string): GivenUp | undefined {
    return this.all.get(key);
  }

  add(key: string, why: GivenUp): void {
    this.delete(key);
    this.all.set(key, why);
    this.characters += key.length + why.text.length;
    for (const oldest of this.all.keys()) {
      if (this.all.size <= MAX_FAILED_REPLICAS && this.characters <= MAX_FAILED_REPLICA_TEXT) break;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const why = this.all.get(key);
    if (why === undefined) return;
    this.all.delete(key);
    this.characters -= key.length + why.text.length;
  }
}

/** What is said of workers that are not those with whom a group or replica began; one of those named is another. */
export function begunAnew(names: readonly string[]): string {
  const who = names.map((name) => `'${name}'`).join(', ');
  const worker = names.length === 1 ? 'worker' : 'one of the workers';
  return `${worker} ${who} has begun anew since this group or replica was made: make new ones on every worker`;
}

/** The same for every order of the names. */
const sortedText = (names: readonly string[]): string => [...names].sort().join('\n');

const keyOf = ({ names, line, number }: Replica): string => `${line} ${number}\n${sortedText(names)}`;

const hashOf = (lives: string): string => hashText(lives).toString(36);

/** Who is meant in an error; undefined for one that is gone. */
export function workerNamed(agent: AgentParts, name: string): WorkerInfo | undefined {
  return name === agent.name ? agent.self : agent.members.others().find(({ worker }) => worker.name === name)?.worker;
}
