/**
 * @file Things a group does together: all-gather, barrier, all-reduce, broadcast. The member with the smallest name collects and answers;
 * where a caller says so, another.
 */
import { currentExchange, type ReplicaSeat } from '@backwire/tensor/internal';
import { unwatchAbort, watchAbort } from '../base/abort-signals.ts';
import { cancelled } from '../base/cancelled.ts';
import { invalidArgument, RpcError, rpcInfo } from '../base/errors.ts';
import { MAX_OPEN_COLLECTIVES } from '../base/limits.ts';
import { checkSignal, checkTimeoutMs, checkWorkers, type CallOptions } from '../base/options.ts';
import { MAX_TIMER_MS } from '../base/platform.ts';
import { timedOut } from '../client/call-errors.ts';
import type { AgentParts } from '../inspection/agent-parts.ts';
import { besideLine, isMeetingOf, lineKey, meetingKey, nameInExchange, nameInLine } from '../protocol/meeting-keys.ts';
import { ARRIVE, Meetings, type MeetingEffect, type Opening } from '../protocol/meetings.ts';
import { adoptArguments } from '../server/handler.ts';
import { watchSilence, workersText } from '../server/silence.ts';
import { limited } from '../stores/limited.ts';
import {
  ask,
  MISSING,
  NO_TAGS,
  serveCollectives,
  type ArriveArguments,
  type Collecting,
  type Coming,
} from './collective-calls.ts';
import { answer, ownIn, type Brought, type CollectiveTags, type Combine } from './combine.ts';
import { endConflict } from './meeting-conflicts.ts';
import { checkMissing, functionOf, GONE, late, stillTo, type Missing } from './meeting-texts.ts';
import { PatientCalls } from './patient-calls.ts';
import type { GivenUp, Replica } from './replica-seats.ts';
import { Replicas } from './replicas.ts';

/** The first meeting of `shutdown()`. */
const ARRIVED = 'shutdown/arrive';

export interface GatherOptions extends CallOptions {
  readonly workers?: readonly string[] | undefined;
}

export interface MeetOptions extends GatherOptions {
  /** The line of meetings of the group that meets, if it has one. */
  readonly line?: string | undefined;
  /** Whether it goes on without those that are gone. */
  readonly survive?: boolean;
  readonly tags?: CollectiveTags | undefined;
  /** Which of the members, by name, collects. */
  readonly collector?: number;
  /**
   * Whether nobody changes the value until the meeting is over, nor what comes of it: where this worker collects, neither is copied by a
   * call of itself then.
   */
  readonly isPrivate?: boolean;
  /** Whether this is the meeting of several at once to say something of when the wait lasts. */
  readonly speaks?: () => boolean;
}

interface Arrival extends Brought {
  readonly tags: CollectiveTags;
}

/** The answer of the collecting member comes a little after the time given at worst, with the names of who is missing. */
const ANSWER_MS = 2_000;

/** The rounds that one worker collects for, and its own part in those of others. */
export class Collectives implements Collecting {
  readonly replicas: Replicas;
  private readonly calls: PatientCalls;
  private readonly agent: AgentParts;
  private readonly meetings = new Meetings<Arrival>();
  /**
   * The lives that this worker ends together with, since they have all come to the end of their programs. Those who join later do not
   * go through the same steps, and are not waited for.
   */
  private crew: ReadonlyMap<string, number> | undefined;
  private closed = false;
  /** Why this worker does not collect any more, although its turn it is. */
  private givenUp: RpcError | undefined;
  /** Handlers that had ended at the last look at a wait in `shutdown()`, and members that have asked whom they wait for, which are handlers too. */
  private handled = 0;
  private asked = 0;

  constructor(agent: AgentParts) {
    this.agent = agent;
    this.calls = new PatientCalls(agent);
    this.replicas = new Replicas(agent, this.calls, (replica, why) => this.replicaGivenUp(replica, why));
    serveCollectives(agent, this);
  }

  /** From here on the meetings that go on without the gone are those of `crew`: names and incarnations. */
  endWith(crew: ReadonlyMap<string, number>): void {
    this.crew = crew;
  }

  /** Resolves with what all brought, by name. */
  async gather<T>(value: T, options: GatherOptions): Promise<Map<string, T>> {
    return (await this.meet('gather', value, 'all', options)) as Map<string, T>;
  }

  /** Resolves when all have come. What each is told does not grow with their number. */
  async barrier(options: GatherOptions): Promise<void> {
    await this.meet('barrier', null, 'first', options);
  }

  /** At a step of `shutdown()`, with what those brought who have come, by name: the gone are not waited for. */
  async gatherRest<T>(step: string, value: T, timeoutMs: number): Promise<Map<string, T>> {
    return (await this.meet(`shutdown/${step}`, value, 'all', { timeoutMs, survive: true })) as Map<string, T>;
  }

  /**
   * Brings `value` to the meeting `what` of `options.workers`.
   * @throws RpcError 'failed-precondition' for all who have come to it, when their tags disagree.
   */
  async meet(what: string, value: unknown, combine: Combine, options: MeetOptions): Promise<unknown> {
    const { agent } = this;
    // Programs without types give null for what they leave out.
    const workers = options.workers ?? undefined;
    // What is called for an exchange between replicas meets in the line of these, and ends with it.
    const exchange = options.survive === true ? undefined : currentExchange();
    const name =
      exchange === undefined
        ? nameInLine(what, options.line)
        : nameInExchange(what, lineFor(exchange.seat, workers), exchange.bucket);
    const tags = exchange === undefined ? options.tags : { ...exchange.tags, ...options.tags };
    const { collector = 0, speaks = () => true } = options;
    const everybody = workers === undefined;
    // A meeting of all is under way in this very turn.
    if (!everybody) await this.checkNamed(workers, functionOf(name));
    const others = this.others(options.survive ?? false);
    const sorted = [...new Set(workers ?? [agent.name, ...others])].sort();
    // Who collects comes first.
    const names = [...sorted.slice(collector), ...sorted.slice(0, collector)];
    if (!names.includes(agent.name))
      throw invalidArgument(`worker '${agent.name}' is not among the workers of this collective`);
    const timeoutMs = options.timeoutMs === undefined ? 0 : checkTimeoutMs(options.timeoutMs);
    const leader = names[0] as string;
    const key = meetingKey(name, everybody ? [] : names);
    if (name === ARRIVED) this.isServing();
    const stop = watchSilence(agent.logger, (seconds) =>
      speaks() ? this.missingText(name, key, leader, seconds) : undefined,
    );
    const { survive = false, isPrivate = false } = options;
    const coming = { key, names: everybody ? [] : names, value, combine, survive, timeoutMs, tags: tags ?? NO_TAGS };
    try {
      return await untilEither(options.signal, exchange?.signal, async (signal) =>
        isPrivate && leader === agent.name && agent.refusal === undefined && signal !== undefined
          ? this.admit(leader, coming, signal)
          : this.bring(leader, coming, signal),
      );
    } catch (error) {
      throw this.explain(error, leader, survive, timeoutMs);
    } finally {
      stop();
    }
  }

  /** To the member that collects, by a call. */
  private bring(leader: string, coming: Coming, signal: AbortSignal | undefined): Promise<unknown> {
    const { key, names, value, combine, survive, timeoutMs, tags } = coming;
    const args: ArriveArguments = [key, names, value, combine, survive, timeoutMs, tags];
    const limits = { timeoutMs: timeoutMs === 0 ? 0 : timeoutMs + ANSWER_MS, signal };
    return this.calls.ask(leader, ARRIVE, args, limits);
  }

  /** @throws TypeError when `workers` is no list, RpcError 'not-found' with the workers that there are for one that nobody has. */
  private async checkNamed(workers: unknown, what: string): Promise<void> {
    checkWorkers(workers, what);
    const unknown = (workers as readonly string[]).filter((name) => !this.knows(name));
    if (unknown.length === 0) return;
    // They may have joined, and this worker not been told yet.
    await this.agent.members.freshen();
    for (const name of unknown) if (!this.knows(name)) this.agent.members.find(name);
  }

  /** Whether the group has such a worker, or had it. */
  private knows(name: string): boolean {
    try {
      this.agent.members.find(name);
      return true;
    } catch (error) {
      return rpcInfo(error)?.code !== 'not-found';
    }
  }

  /** Whom this worker waits for at a meeting, as the one that collects knows. */
  private async missingText(name: string, key: string, leader: string, seconds: number): Promise<string | undefined> {
    const { agent } = this;
    if (name === ARRIVED && this.isServing()) return undefined;
    const began = `worker '${agent.name}' has waited ${seconds} s in ${functionOf(name)} for`;
    const asked = { timeoutMs: ANSWER_MS };
    const missing: readonly Missing[] = await ask(agent, leader, MISSING, [key], asked).then(
      (found) => checkMissing(found),
      () => [],
    );
    if (missing.length === 0) return `${began} worker '${leader}', which collects for the group`;
    const places = [...new Set(missing.map(({ waitsAt }) => waitsAt))];
    const texts = places.map((place) => {
      const names = missing.filter(({ waitsAt }) => waitsAt === place).map((worker) => worker.name);
      const one = names.length === 1;
      const where =
        place === undefined ? stillTo(name, one) : `which ${one ? 'waits' : 'wait'} in ${functionOf(place)}`;
      return `${workersText(names)}, ${where}`;
    });
    return `${began} ${texts.join(', and for ')}`;
  }

  /** Whether the others' calls have been served since the last look: a worker that only serves comes to `shutdown()` at once and is at work there. */
  private isServing(): boolean {
    const { active, handled } = this.agent.dispatcher.handlers;
    const before = this.handled;
    this.handled = handled - this.asked;
    return active > 0 || this.handled !== before;
  }

  /** For a member that waits here: whom it waits for. */
  missing(key: string, from: string): Missing[] {
    this.asked++;
    return this.meetings.missing(key, from).map(({ name, waitsAt }) => ({ name, waitsAt: waitsAt?.split('\n')[0] }));
  }

  /**
   * A member has arrived at a meeting that this worker collects for. Who has to come to a meeting of all is known from the store: whoever
   * has joined before the first one came is waited for, also when this worker was not told of it yet.
   */
  async arrive(from: string, coming: Coming, signal: AbortSignal): Promise<unknown> {
    const result = await this.admit(from, coming, signal);
    // Handles of this arrival's own, whose memory goes back to the pool when the answer is written.
    adoptArguments(ownIn(result));
    return result;
  }

  private async admit(from: string, coming: Coming, signal: AbortSignal): Promise<unknown> {
    const { key, names, survive } = coming;
    if (!isMeetingOf(key, names, from, this.agent.name)) throw new TypeError('malformed arrival');
    if (!this.meetings.isOpen(key, from)) {
      if (names.length === 0 && !survive) await this.agent.members.freshen();
      else await this.replicas.checkLine(key, names);
    }
    return this.take(from, coming, signal);
  }

  private take(
    from: string,
    { key, names, value, combine, survive, timeoutMs, tags }: Coming,
    signal: AbortSignal,
  ): Promise<unknown> {
    if (signal.aborted) return Promise.reject(cancelled('the collective', signal.reason));
    const conflict = this.replicas.seats.failure(key, tags) ?? endConflict(this.agent, this.meetings, key, from, tags);
    if (conflict !== undefined) return Promise.reject(conflict);
    if (this.closed) return Promise.reject(new RpcError('unavailable', `worker '${this.agent.name}' has shut down`));
    if (survive && (this.givenUp !== undefined || !this.collects())) return Promise.reject(this.elsewhere());
    const opening = this.meetings.isOpen(key, from) ? undefined : this.opening(from, names, survive);
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const stop = (): void => {
        clearTimeout(timer);
        unwatchAbort(signal, onAbort);
      };
      const onAbort = (): void => leave(() => cancelled('the collective', signal.reason));
      const leave = (why: (missing: readonly string[]) => RpcError): void => {
        stop();
        const missing = this.meetings.withdraw(from, arrival);
        if (missing !== undefined) reject(why(missing));
      };
      const arrival: Arrival = {
        value,
        tags,
        combine,
        resolve: (result) => {
          stop();
          resolve(result);
        },
        reject: (error) => {
          stop();
          reject(error);
        },
      };
      // A longer wait than a timer can have is no limit.
      if (timeoutMs > 0 && timeoutMs <= MAX_TIMER_MS)
        timer = setTimeout(() => leave((missing) => late(key.split('\n')[0] as string, missing, timeoutMs)), timeoutMs);
      watchAbort(signal, onAbort);
      this.apply(this.meetings.arrive(key, from, arrival, () => opening ?? { expected: [], survive }));
    });
  }

  /** A member has given a replica up: what is brought to its meetings here, by whoever has not heard of it, meets nothing. */
  replicaGivenUp(replica: Replica, why: GivenUp): void {
    const { seats } = this.replicas;
    const error = seats.giveUp(replica, why);
    const line = lineKey(replica.line, replica.names, this.agent.name);
    const isOver = (key: string, { tags }: Arrival): boolean => seats.failure(key, tags) !== undefined;
    for (const arrival of this.meetings.breakInLine(line, isOver)) arrival.reject(error);
  }

  /** A worker died or left, or is merely out of reach: whoever waits for it is told, or goes on without it. */
  gone(name: string, onlyUnreachable = false): void {
    if (!onlyUnreachable) this.replicas.seats.gone(name);
    this.apply(this.meetings.gone(name, onlyUnreachable));
  }

  /** A member joined. One that takes the place of a former life is waited for as that one was, until the group has begun to end. */
  joined(name: string): void {
    this.replicas.seats.changed();
    if (this.crew !== undefined || this.meetings.size === 0) return;
    this.meetings.joined(name);
    if (!this.collects()) for (const arrival of this.meetings.handOver()) arrival.reject(this.elsewhere());
  }

  /** Whether it is this worker that collects for all who can be reached. */
  private collects(): boolean {
    const { name } = this.agent;
    return this.others(true).every((other) => other > name);
  }

  /** This worker ends without having met the others: they meet elsewhere, and know for whom it has waited. */
  giveUp(): void {
    for (const { arrivals, missing } of this.meetings.giveUp()) {
      const absent = missing.map((name) => `'${name}'`).join(', ');
      const text = `worker '${this.agent.name}' has given up waiting for ${absent}`;
      this.givenUp = new RpcError('unavailable', text, { executed: 'yes' });
      for (const arrival of arrivals) arrival.reject(this.givenUp);
    }
  }

  private elsewhere(): RpcError {
    if (this.givenUp !== undefined) return this.givenUp;
    return new RpcError('unavailable', `it is not worker '${this.agent.name}' any more that collects for the group`, {
      executed: 'yes',
    });
  }

  close(): void {
    this.closed = true;
    const error = new RpcError('unavailable', `worker '${this.agent.name}' has shut down`);
    for (const arrival of this.meetings.close()) arrival.reject(error);
  }

  private apply(effects: readonly MeetingEffect<Arrival>[]): void {
    for (const effect of effects) {
      if (effect.type === 'released') {
        answer(effect.arrivals, this.agent.name);
        continue;
      }
      if (effect.type === 'left') {
        // One that is merely out of reach may hear of it when it is back, and comes again.
        const text = `worker '${effect.name}' is out of reach: the others go on without it`;
        effect.arrival.reject(new RpcError('unavailable', text, { executed: 'yes' }));
        continue;
      }
      const { gone, arrived } = effect.why;
      const text = `worker '${gone}' is gone; '${arrived.join(', ')}' had arrived`;
      const error = new RpcError('barrier-broken', text, { executed: 'yes' });
      for (const arrival of effect.arrivals.values()) arrival.reject(error);
    }
  }

  /** All other members; those that cannot be reached, or do not end with this one, only where it would not do to go on without them. */
  private others(survive: boolean): string[] {
    const { crew } = this;
    const { members } = this.agent;
    const peers = survive
      ? members
          .reachable()
          .filter(({ worker, incarnation }) => crew === undefined || crew.get(worker.name) === incarnation)
      : members.others();
    return peers.map(({ worker }) => worker.name);
  }

  /** Who has to come to a meeting that begins now. */
  private opening(from: string, names: readonly string[], survive: boolean): Opening {
    if (!this.meetings.mayOpen(from, MAX_OPEN_COLLECTIVES))
      throw new RpcError('resource-exhausted', 'too many collectives are open');
    const { agent } = this;
    if (names.length === 0) return { expected: [agent.name, ...this.others(survive)], survive };
    const expected = names.filter((name) => name === agent.name || agent.membership.member(name) !== undefined);
    const stranger = names.find((name) => !expected.includes(name));
    if (stranger !== undefined && !survive) throw new RpcError('barrier-broken', agent.members.whyAbsent(stranger));
    return { expected, survive };
  }

  /** The end of the collecting member breaks the meeting for all; the time that is up is the program's, not that of the call, which is longer. */
  private explain(error: unknown, leader: string, survive: boolean, timeoutMs: number): unknown {
    const info = rpcInfo(error);
    if (info === undefined || survive) return error;
    if (info.code === 'deadline-exceeded' && info.executed !== 'yes' && info.peer !== undefined)
      return timedOut(timeoutMs, info.executed, info.peer);
    // A worker that ends itself is told so, and waits for nobody.
    if (!GONE.has(info.code) || (info.code === 'draining' && leader === this.agent.name)) return info;
    return new RpcError('barrier-broken', `worker '${leader}', which collects for the group, is gone`, {
      executed: 'maybe',
      cause: error,
    });
  }
}

/** Other workers than the replica's meet in a line of their own beside its. */
function lineFor({ line, workers }: ReplicaSeat, meeting: readonly string[] | undefined): string | undefined {
  if (line === undefined || meeting === undefined || workers === undefined) return line;
  const isOwn = meeting.length === workers.length && meeting.every((name) => workers.includes(name));
  return isOwn ? line : besideLine(line);
}

/** Runs `fn` with one signal that fires when the first of them does. */
function untilEither<T>(
  given: AbortSignal | undefined,
  other: AbortSignal | undefined,
  fn: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  checkSignal(given);
  if (given === undefined || other === undefined || given === other) return fn(given ?? other);
  return limited(0, [given, other], fn);
}
