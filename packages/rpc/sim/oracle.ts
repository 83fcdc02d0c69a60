/** @file Sees everything in the simulated group at once and says what no worker may ever do. */
import type { Simulation } from '@backwire/testing';
import { lifeKey, type Life } from './frames.ts';

/** How a call ended for its caller. */
export type Outcome =
  { readonly value: number } | { readonly error: string; readonly executed: 'no' | 'maybe' | 'yes' };

interface CallRecord {
  readonly caller: Life;
  readonly deadline: number;
  runs: number;
  /** It was with its callee before that began to drain. */
  due: boolean;
  outcome: Outcome | undefined;
}

/** Rounds of the deadline sweep and of the node's clock. */
const TICK_MS = 25;

/** What a handler answers; the oracle knows it, so a mixed-up result shows. */
export function answerOf(uid: number): number {
  return (uid * 2_654_435_761) % 1_000_003;
}

/** The global view of one run. */
export class Oracle {
  readonly #simulation: Simulation;
  readonly #sent = new Map<string, number[]>();
  readonly #delivered = new Map<string, number>();
  readonly #calls = new Map<number, CallRecord>();
  /** The latest life of each worker that anything was delivered of, by who got it. */
  readonly #lives = new Map<string, number>();
  readonly #paused = new Set<string>();
  /** When each small message was to go, and how long it may take then; Infinity = as long as it likes. */
  readonly #asked = new Map<number, number>();
  readonly #patienceMs: number;
  #nextUid = 1;
  frames = 0;
  outcomes: Record<string, number> = {};

  constructor(simulation: Simulation, paused: Iterable<string>, patienceMs = Infinity) {
    this.#simulation = simulation;
    this.#patienceMs = patienceMs;
    for (const name of paused) this.#paused.add(name);
  }

  uid(): number {
    return this.#nextUid++;
  }

  /** Calls whose caller lives and that are not settled. */
  open(alive: (life: Life) => boolean): number[] {
    return [...this.#calls].filter(([, call]) => call.outcome === undefined && alive(call.caller)).map(([uid]) => uid);
  }

  /** A small message is to go now. */
  asked(uid: number): void {
    this.#asked.set(uid, this.#simulation.clock.now);
  }

  /** A frame got a number. */
  sent(from: Life, to: Life, uid: number): void {
    const key = pairKey(from, to);
    const list = this.#sent.get(key);
    if (list === undefined) this.#sent.set(key, [uid]);
    else list.push(uid);
  }

  /** A frame is delivered: it must be the next one that was sent from this life to that life. */
  delivered(from: Life, to: Life, uid: number): void {
    const key = pairKey(from, to);
    const at = this.#delivered.get(key) ?? 0;
    const expected = this.#sent.get(key)?.[at];
    if (expected !== uid) {
      this.#simulation.fail(
        'delivered = sent prefix',
        `${key}: frame ${uid} at place ${at} instead of ${String(expected)}`,
      );
    }
    this.#delivered.set(key, at + 1);
    const took = this.#simulation.clock.now - (this.#asked.get(uid) ?? Infinity);
    if (took > this.#patienceMs)
      this.#simulation.fail('small messages do not wait for storages', `frame ${uid} took ${Math.round(took)} ms`);
    this.frames++;
    this.#fromLatestLife(from, to);
  }

  #fromLatestLife(from: Life, to: Life): void {
    const key = `${from.name}>${lifeKey(to)}`;
    const latest = this.#lives.get(key) ?? from.incarnation;
    if (from.incarnation < latest)
      this.#simulation.fail(
        'nothing of an earlier life is delivered',
        `${lifeKey(from)} after ${latest} to ${lifeKey(to)}`,
      );
    this.#lives.set(key, from.incarnation);
  }

  /** So many frames are numbered and not acknowledged. */
  unacknowledged(from: Life, to: Life, frames: number, most: number): void {
    if (frames > most)
      this.#simulation.fail(
        'what is not acknowledged is bounded',
        `${pairKey(from, to)}: ${frames} frames, at most ${most}`,
      );
  }

  /** Frames sent from one life to another that were not delivered. */
  missing(from: Life, to: Life): number {
    const key = pairKey(from, to);
    return (this.#sent.get(key)?.length ?? 0) - (this.#delivered.get(key) ?? 0);
  }

  called(uid: number, caller: Life, deadline: number): void {
    this.#calls.set(uid, { caller, deadline, runs: 0, due: false, outcome: undefined });
  }

  /** A call is with a worker that takes calls: it will be served. */
  taken(uid: number): void {
    this.#call(uid).due = true;
  }

  /** A handler starts. */
  ran(uid: number): void {
    const call = this.#call(uid);
    if (++call.runs > 1) this.#simulation.fail('a handler runs at most once', `call ${uid} ran ${call.runs} times`);
    if (claimsNotRun(call.outcome)) this.#simulation.fail("executed: 'no' means never", `call ${uid} ran after that`);
  }

  /** The caller's promise settles. */
  settled(uid: number, outcome: Outcome, now: number): void {
    const call = this.#call(uid);
    if (call.outcome !== undefined) this.#simulation.fail('a call settles once', `call ${uid} settled twice`);
    call.outcome = outcome;
    const kind = 'error' in outcome ? `${outcome.error} ${outcome.executed}` : 'ok';
    this.outcomes[kind] = (this.outcomes[kind] ?? 0) + 1;
    if ('value' in outcome && (outcome.value !== answerOf(uid) || call.runs !== 1)) {
      this.#simulation.fail("the answer is the handler's", `call ${uid} got ${outcome.value} after ${call.runs} runs`);
    }
    if ('error' in outcome && outcome.error === 'draining' && call.due)
      this.#simulation.fail('a drain loses nothing', `call ${uid} was there before the drain began`);
    if (claimsNotRun(outcome) && call.runs > 0)
      this.#simulation.fail("executed: 'no' means never", `call ${uid} had run`);
    if ('error' in outcome && outcome.executed === 'yes' && call.runs !== 1) {
      this.#simulation.fail("executed: 'yes' means once", `call ${uid} ran ${call.runs} times`);
    }
    if (now > call.deadline + TICK_MS && !this.#paused.has(call.caller.name)) {
      this.#simulation.fail('a call settles by its deadline', `call ${uid} settled ${now - call.deadline} ms late`);
    }
  }

  #call(uid: number): CallRecord {
    return this.#calls.get(uid) ?? this.#simulation.fail('only calls that were made run', `call ${uid}`);
  }
}

function claimsNotRun(outcome: Outcome | undefined): boolean {
  return outcome !== undefined && 'error' in outcome && outcome.executed === 'no';
}

function pairKey(from: Life, to: Life): string {
  return `${lifeKey(from)}>${lifeKey(to)}`;
}
