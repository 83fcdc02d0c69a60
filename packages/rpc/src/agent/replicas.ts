/** @file The replicas of data-parallel models that this worker has: how much of a pass may be under way, and what is told when one fails. */
import { MOST_ROOM, type ReplicaSeat, type Room } from '@backwire/tensor/internal';
import { RpcError, rpcInfo } from '../base/errors.ts';
import { MAX_REPLICA_FAILURE_TEXT } from '../base/limits.ts';
import type { AgentParts } from '../inspection/agent-parts.ts';
import { GIVEN_UP, MISSING } from './collective-calls.ts';
import { GONE } from './meeting-texts.ts';
import type { PatientCalls } from './patient-calls.ts';
import { begunAnew, ReplicaSeats, workerNamed, type GivenUp, type Place, type Replica } from './replica-seats.ts';

/** Replicas that make a pass beside each other without waiting for each other's room. */
const REPLICAS_BESIDE = 8;

/** So long a member is waited for that has not been called before. */
const FIRST_CALL_MS = 10_000;

/** So long a member is tried to be told that a replica was given up. */
const GIVEN_UP_MS = 60_000;

export class Replicas {
  readonly seats: ReplicaSeats;
  private readonly agent: AgentParts;
  private readonly calls: PatientCalls;
  private readonly givenUp: (replica: Replica, why: GivenUp) => void;

  /** @param givenUp told of each that this worker gives up, as of those that others do. */
  constructor(agent: AgentParts, calls: PatientCalls, givenUp: (replica: Replica, why: GivenUp) => void) {
    this.agent = agent;
    this.calls = calls;
    this.givenUp = givenUp;
    this.seats = new ReplicaSeats(agent);
  }

  /** The seat of one over these workers. */
  seatAt(names: readonly string[], { line, lives }: Place, number: number): ReplicaSeat {
    const replica = { names, line, number };
    return {
      number,
      line,
      workers: names,
      room: () => this.roomFor(names),
      fail: (cause, after) => this.giveUp(replica, cause, after),
      watch: (told) => {
        this.seats.checkLives(names, lives);
        return this.seats.watch(replica, told);
      },
    };
  }

  /** Refuses meetings of a line whose workers are not those with whom it began: some of the living never come to it. */
  async checkLine(key: string, names: readonly string[]): Promise<void> {
    const { seats, agent } = this;
    if (seats.isOfTheLiving(key)) return;
    // Who came may know of somebody that this worker was not told of yet.
    await agent.members.freshen();
    if (!seats.isOfTheLiving(key) && names.every((name) => workerNamed(agent, name) !== undefined))
      throw new RpcError('barrier-broken', begunAnew(names));
  }

  /**
   * How much of one replica's pass may be on its way to these workers. Who collects answers when all have come, and others may come to
   * something else first: what each may send without being answered has to hold all that, also of a few replicas beside each other.
   */
  private roomFor(names: readonly string[]): Room | Promise<Room> {
    const unknown = names.filter((name) => name !== this.agent.name && this.allowanceOf(name) === undefined);
    if (unknown.length === 0) return this.knownRoom(names);
    // A first call of each, of whatever it makes of it: it says what it takes when the connection begins.
    const asked = unknown.map((name) => this.calls.ask(name, MISSING, [''], { timeoutMs: FIRST_CALL_MS }));
    return Promise.allSettled(asked).then(() => this.knownRoom(names));
  }

  private allowanceOf(name: string): { readonly calls: number; readonly bytes: number } | undefined {
    const { agent } = this;
    const worker = workerNamed(agent, name);
    return worker && agent.members.find(worker).sender.session.credits.peerAllows;
  }

  private knownRoom(names: readonly string[]): Room {
    const { maxBufferedBytesPerPeer: bytes, maxInboundCalls: calls } = this.agent.limits;
    const all = [{ bytes, calls }, ...names.flatMap((name) => this.allowanceOf(name) ?? [])];
    const least = (most: number, ...others: number[]): number =>
      Math.min(most, ...others.map((other) => other / REPLICAS_BESIDE));
    return {
      bytes: least(MOST_ROOM.bytes, ...all.map((peer) => peer.bytes)),
      buckets: least(MOST_ROOM.buckets, ...all.map((peer) => peer.calls)),
    };
  }

  /** This worker makes no exchange with a replica after the first `after`: the other members are told, for whom it may be the next. */
  private giveUp(replica: Replica, cause: unknown, after: number): void {
    const { agent } = this;
    const text = (cause instanceof Error ? cause.message : String(cause)).slice(0, MAX_REPLICA_FAILURE_TEXT);
    const code = rpcInfo(cause)?.code;
    // A worker that leaves is as good as gone for the others.
    const broken = code === 'barrier-broken' || (code !== undefined && GONE.has(code));
    this.givenUp(replica, { by: agent.name, after, broken, text });
    for (const name of replica.names) {
      if (name === agent.name) continue;
      // One that is gone need not hear of it.
      const args = [replica.names, replica.line, replica.number, after, broken, text];
      this.calls.ask(name, GIVEN_UP, args, { timeoutMs: GIVEN_UP_MS }).catch(() => undefined);
    }
  }
}
