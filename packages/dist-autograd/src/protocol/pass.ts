/**
 * @file The backward pass over several workers: a discovery wave, then execution, both ended by an acknowledgement tree.
 *
 * Discovery marks the send functions that the roots reach: a receive function that is reached tells its sender, which walks on from
 * the matching send function. Execution then runs over just those: each marked receive function sends exactly one message, so every
 * worker knows what it still waits for. The first message that engages a worker is acknowledged when all messages it sent have been
 * (Dijkstra and Scholten 1980), so the tree's root, the pass's origin, knows when all is done. Gradients for whoever is answered
 * go with the answer. In fast mode there is no wave:
 * every send function of the context is taken to be reached. Neither is there one when every message told what its gradients come to:
 * then the origin knows what is reached, and each message of the pass says it.
 */
import { MAX_FAILED_NAMED, MAX_RETURNED } from '@backwire/wire/internal';
import { MAX_RETURNED_TENSORS } from '../limits.ts';
import type { Context } from './context.ts';
import { sameMember, samePass, comparePasses, type MemberRef, type PassId } from './ids.ts';
import {
  failedBefore,
  inProgress,
  noContext,
  originDied,
  overtaken,
  PassError,
  protocolFailure,
  stale,
  thrown,
  unknownSend,
} from './pass-failures.ts';
import { planOf } from './plan.ts';
import type {
  Failure,
  Fired,
  LocalGraph,
  Parent,
  PassOptions,
  PassPort,
  PassState,
  Reply,
  Target,
} from './pass-types.ts';

type AnyContext = Context<unknown, unknown>;

/** All passes of one worker. `C` is its kind of context. */
export class PassMachine<G, C extends AnyContext = AnyContext> {
  readonly self: MemberRef;
  private readonly port: PassPort<G, C>;
  private readonly outgoing = new Map<number, { context: C; state: PassState }>();
  /** By worker: lives up to this one are over. */
  private readonly dead = new Map<number, number>();
  private tokens = 0;
  private passes = 0;
  private running = 0;

  constructor(self: MemberRef, port: PassPort<G, C>) {
    this.self = self;
    this.port = port;
  }

  /** Passes in progress on this worker. */
  get active(): number {
    return this.running;
  }

  /**
   * Starts a pass here. The outcome comes by `settled`, which may be at once, unless this throws the failure.
   * @param began called when the context is this pass's.
   */
  start(context: C, roots: unknown, flags: Pick<PassOptions, 'retainGraph' | 'fast'>, began?: () => void): PassId {
    const { worker, incarnation } = this.self;
    const id: PassId = { worker, incarnation, n: ++this.passes };
    const busy = context.pass;
    // Two in one place cannot both be meant; another origin's pass gives way only to a lower id.
    if (busy !== undefined) {
      if (sameMember(busy.id, id) || comparePasses(busy.id, id) < 0) throw inProgress(context);
      this.fail(context, busy, overtaken(context));
    }
    const { retainGraph, fast } = flags;
    const { failed } = context;
    const state = this.open(context, id, true, { retainGraph, fast, plan: undefined, failed }, roots);
    began?.();
    this.guarded(context, state, () => {
      const reached = this.graphOf(state).walk('roots');
      if (!fast) state.options = { retainGraph, fast, plan: planOf(reached), failed };
      this.expand(context, state, reached);
    });
    this.discovered(context, state);
    return id;
  }

  /** A pass of ours that cannot even begin, in a context where none is in progress: everybody is told, as of one that failed. */
  refuse(context: C, failure: Failure): void {
    const { worker, incarnation } = this.self;
    const id: PassId = { worker, incarnation, n: ++this.passes };
    context.ended.add(id, true);
    this.spread(context, id, this.prefixed(failure), undefined);
  }

  /** A peer reached receive functions of ours: `messages` are the send functions they belong to. */
  onDiscover(
    context: C | undefined,
    pass: PassId,
    messages: readonly number[],
    options: PassOptions,
    from: Parent,
  ): void {
    const { reply } = from;
    const state = this.enter(context, pass, options, reply);
    if (state === undefined || context === undefined) return;
    if (state.phase !== 'discover') return reply(protocolFailure('discovery after execution began'));
    const engages = engage(state, from);
    const failure = this.guarded(context, state, () => this.mark(context, state, messages));
    if (!engages) reply(failure);
    this.discovered(context, state);
  }

  /** Gradients for the send function `message`. */
  onBackward(
    context: C | undefined,
    pass: PassId,
    message: number,
    grads: G,
    options: PassOptions,
    from: Parent,
  ): void {
    const { reply } = from;
    const state = this.enter(context, pass, options, reply);
    if (state === undefined || context === undefined) return this.port.drop?.(grads);
    const engages = engage(state, from);
    const back: Fired<unknown>[] = engages ? state.back : [];
    const failure = this.guarded(context, state, () => {
      if (state.phase === 'discover') this.execute(context, state);
      this.feed(context, state, message, grads, from.worker, back);
    });
    if (!engages) this.answer(reply, failure, back);
    this.executed(context, state);
  }

  /** A message of ours was acknowledged, and `back` came with it. */
  onAck(token: number, back: readonly Fired<G>[] = []): void {
    const entry = this.outgoing.get(token);
    if (entry !== undefined) this.outgoing.delete(token);
    for (const { message, grads } of back) {
      if (entry === undefined) this.port.drop?.(grads);
      else this.returned(entry.context, entry.state, message, grads);
    }
    if (entry === undefined) return;
    const { context, state } = entry;
    state.deficit--;
    if (state.phase === 'discover') this.discovered(context, state);
    else this.executed(context, state);
  }

  /** A message of ours failed. */
  onNack(token: number, failure: Failure): void {
    const entry = this.outgoing.get(token);
    if (entry === undefined) return;
    this.outgoing.delete(token);
    this.fail(entry.context, entry.state, failure);
  }

  /**
   * A peer says that the pass failed. Goes on to everybody this worker knows, once. False where it has no say: it is neither in the context,
   * where anybody can name one, nor the pass's origin; or the pass is this worker's, which alone knows what became of it.
   */
  onAbort(context: C, by: MemberRef, pass: PassId, failure: Failure): boolean {
    const state = context.pass;
    const isCurrent = state !== undefined && samePass(state.id, pass);
    const met = context.hasMet(by);
    if ((!met && !sameMember(by, pass)) || (!isCurrent && sameMember(this.self, pass))) return false;
    if (isCurrent) this.fail(context, state, failure, by.worker);
    else this.undo(context, by, pass, failure, met);
    return true;
  }

  /** A pass that is not in progress here failed: it is over, and what it did is taken back. */
  private undo(context: C, by: MemberRef, pass: PassId, failure: Failure, met: boolean): void {
    const undone = this.port.rollback(context, pass, failure);
    const unspread = context.unspread !== undefined && samePass(context.unspread, pass);
    const ofOrigin = sameMember(by, pass);
    const isNews = !context.ended.has(pass) && (ofOrigin || !context.ended.isOld(pass));
    context.ended.add(pass, ofOrigin);
    if (!undone && !unspread && !isNews) return;
    if (unspread) context.unspread = undefined;
    context.latest = { pass, failure };
    // An origin that is not in the context has none to end but its own.
    if (!undone && !unspread && !met) return;
    // What it would have done here another one that is in progress does.
    if (isNews && context.pass === undefined) this.port.missed?.(context, failure);
    this.spread(context, pass, failure, by.worker);
  }

  /** Fails the pass in progress in a context, if there is one: its time is up, its caller gave up, or the context goes. */
  abort(context: C, failure: Failure, pass?: PassId): void {
    const state = context.pass;
    if (state !== undefined && (pass === undefined || samePass(state.id, pass))) this.fail(context, state, failure);
  }

  /** A member is no more: no pass of it begins or goes on here, whoever is late to hear of it. */
  died(member: MemberRef): void {
    this.dead.set(member.worker, Math.max(member.incarnation, this.dead.get(member.worker) ?? -1));
  }

  /**
   * A worker that takes part in a context becomes known here, since another that stood between them died: who handed on what failed may have
   * died with it, so all that failed is told again, and from now on they tell each other.
   */
  meet(context: C, { worker, incarnation }: MemberRef): void {
    context.known.set(worker, incarnation);
    for (const pass of context.aborted) this.port.abort(worker, context, pass, this.prefixed(failedBefore()));
  }

  /** A call in the context says which passes of it have failed: a step ahead of their aborts, which may still be on their way through others. */
  heardFailed(context: C, by: MemberRef, passes: readonly PassId[]): void {
    for (const pass of passes) this.onAbort(context, by, pass, failedBefore());
  }

  private enter(context: C | undefined, pass: PassId, options: PassOptions, reply: Reply): PassState | undefined {
    if (context === undefined) return void reply(noContext());
    const current = context.pass;
    if (current !== undefined && samePass(current.id, pass)) return current;
    // Of its own passes this worker has begun no other than the one in progress.
    const isOver = context.ended.has(pass) || sameMember(pass, this.self);
    if (isOver) return void reply(endOf(context, pass));
    if (pass.incarnation <= (this.dead.get(pass.worker) ?? -1)) return void reply(originDied(pass));
    if (current !== undefined) {
      // An origin that starts its next pass has given up the one before.
      const wins = sameMember(current.id, pass) ? pass.n > current.id.n : comparePasses(pass, current.id) < 0;
      if (!wins) return void reply(overtaken(context));
      this.fail(context, current, overtaken(context));
    }
    return this.open(context, pass, false, options, undefined);
  }

  private open(context: C, id: PassId, origin: boolean, options: PassOptions, roots: unknown): PassState {
    const graph = this.port.open(context, id, options, roots);
    const state: PassState = {
      id,
      origin,
      graph: graph as LocalGraph<never>,
      options,
      phase: 'discover',
      finishing: false,
      left: new Set(),
      marked: new Set(),
      deficit: 0,
      parent: undefined,
      back: [],
      told: new Map(),
    };
    context.pass = state;
    this.running++;
    return state;
  }

  private mark(context: C, state: PassState, messages: readonly number[]): void {
    const fresh = messages.filter((message) => !state.marked.has(message));
    for (const message of fresh) {
      if (!context.sends.has(message)) throw new PassError(unknownSend(message));
      state.marked.add(message);
      state.left.add(message);
    }
    if (fresh.length > 0) this.expand(context, state, this.graphOf(state).walk(fresh));
  }

  /** Tells the senders of the receive functions that were reached. */
  private expand(context: C, state: PassState, reached: readonly Target[]): void {
    if (state.options.fast || state.options.plan !== undefined) return;
    const grouped = new Map<number, number[]>();
    for (const { to, message } of reached) {
      let told = state.told.get(to);
      if (told === undefined) state.told.set(to, (told = new Set()));
      if (told.has(message)) continue;
      told.add(message);
      const list = grouped.get(to);
      if (list === undefined) grouped.set(to, [message]);
      else list.push(message);
    }
    for (const [to, messages] of grouped) {
      this.port.discover(to, this.expectAck(context, state), context, state.id, messages, state.options);
    }
  }

  /** Goes on when all of this worker's part of the wave is acknowledged. */
  private discovered(context: C, state: PassState): void {
    if (context.pass !== state || state.deficit > 0 || state.phase !== 'discover') return;
    if (!state.origin) return this.disengage(state);
    this.guarded(context, state, () => {
      this.execute(context, state);
      this.emit(context, state, this.graphOf(state).run('roots'));
    });
    this.executed(context, state);
  }

  /** Gives a send function its gradients. What that makes for `worker` is put into `back`. */
  private feed(
    context: C,
    state: PassState,
    message: number,
    grads: G,
    worker: number | undefined,
    back: Fired<unknown>[],
  ): void {
    if (!state.left.delete(message)) {
      this.port.drop?.(grads);
      throw new PassError(unknownSend(message));
    }
    this.emit(context, state, this.graphOf(state).run({ message, grads }), worker, back);
  }

  /** Gradients came with an answer. */
  private returned(context: C, state: PassState, message: number, grads: G): void {
    if (context.pass !== state) return this.port.drop?.(grads);
    this.guarded(context, state, () => {
      if (state.phase === 'discover') throw new PassError(protocolFailure('gradients in answer to a discovery'));
      this.feed(context, state, message, grads, state.parent?.worker, state.back);
    });
  }

  /** Answers one message that engaged nobody. */
  private answer(reply: Reply, failure: Failure | undefined, back: readonly Fired<unknown>[]): void {
    if (failure === undefined) return reply(undefined, back);
    for (const { grads } of back) this.port.drop?.(grads as G);
    reply(failure);
  }

  /** From here on nothing more is marked. */
  private execute(context: C, state: PassState): void {
    const { fast, plan } = state.options;
    if (fast) this.mark(context, state, [...context.sends.keys()]);
    else if (plan !== undefined) this.mark(context, state, own(plan, this.self.worker));
    state.phase = 'execute';
    this.graphOf(state).seal();
  }

  /** Sends what fired; what is for `worker` is put into `back`. */
  private emit(
    context: C,
    state: PassState,
    fired: readonly Fired<G>[],
    worker?: number,
    back: Fired<unknown>[] = [],
  ): void {
    for (const one of fired) {
      if (one.to === worker && fits(back, one)) back.push(one);
      else this.send(context, state, one);
    }
  }

  private send(context: C, state: PassState, fired: Fired<G>): void {
    this.port.backwardTo(fired, this.expectAck(context, state), context, state.id, state.options);
  }

  /** The parent cannot be answered yet: its gradients do not wait for that. */
  private sendBack(context: C, state: PassState): void {
    for (const one of state.back.splice(0)) this.send(context, state, one as Fired<G>);
  }

  private executed(context: C, state: PassState): void {
    if (context.pass !== state || state.phase !== 'execute') return;
    // In fast mode a worker may be left with functions that nobody sends gradients for: the parent has to wait for those.
    const { fast } = state.options;
    if (state.deficit > 0 || (fast && state.left.size > 0)) return this.sendBack(context, state);
    // Whoever sends the next gradients engages this worker again.
    if (state.left.size > 0) return this.disengage(state);
    if (!state.finishing) {
      state.finishing = true;
      const token = this.expectAck(context, state);
      if (this.port.finish?.(token, context, this.graphOf(state)) === true) return this.sendBack(context, state);
      this.outgoing.delete(token);
      state.deficit--;
    }
    if (this.guarded(context, state, () => state.graph.commit()) !== undefined) return;
    this.end(context, state);
    this.disengage(state);
    if (state.origin) this.port.settled(context, state.id);
  }

  private expectAck(context: C, state: PassState): number {
    const token = ++this.tokens;
    state.deficit++;
    this.outgoing.set(token, { context, state });
    return token;
  }

  private disengage(state: PassState, failure?: Failure): void {
    const { parent } = state;
    const back = state.back.splice(0);
    state.parent = undefined;
    if (parent !== undefined) this.answer(parent.reply, failure, back);
  }

  /** Runs code of the graph; a throw fails the pass. Returns the failure. */
  private guarded(context: C, state: PassState, fn: () => void): Failure | undefined {
    if (context.pass !== state) return stale();
    try {
      fn();
      return undefined;
    } catch (error) {
      const failure = error instanceof PassError ? error.failure : thrown(error);
      this.fail(context, state, failure);
      return this.prefixed(failure);
    }
  }

  /**
   * Ends a pass here. The failure climbs the acknowledgement tree to the origin, which tells everybody; a worker that nobody waits
   * for tells everybody itself.
   */
  private fail(context: C, state: PassState, failure: Failure, from?: number): void {
    if (context.pass !== state) return;
    const named = from === undefined ? this.prefixed(failure) : failure;
    const orphan = state.parent === undefined && !state.origin && from === undefined;
    this.end(context, state);
    context.latest = { pass: state.id, failure: named };
    for (const [token, entry] of this.outgoing) if (entry.state === state) this.outgoing.delete(token);
    state.graph.discard(failure);
    this.disengage(state, named);
    if (state.origin || from !== undefined || orphan) this.spread(context, state.id, named, from);
    else context.unspread = state.id;
    if (!state.origin) return;
    context.failed = [...context.failed, state.id.n].slice(-MAX_FAILED_NAMED);
    this.port.settled(context, state.id, named);
  }

  private end(context: C, state: PassState): void {
    context.pass = undefined;
    context.ended.add(state.id, state.origin);
    this.running--;
  }

  private spread(context: C, pass: PassId, failure: Failure, from: number | undefined): void {
    const earlier = context.aborted.filter((one) => !samePass(one, pass));
    context.aborted = [...earlier, pass].slice(-MAX_FAILED_NAMED);
    for (const to of context.met()) {
      if (to !== this.self.worker && to !== from) this.port.abort(to, context, pass, failure);
    }
  }

  /** What torch calls the path of an error: one prefix for each worker it went through. */
  private prefixed(failure: Failure): Failure {
    return { ...failure, text: `Error on Node ${this.self.worker}: ${failure.text}` };
  }

  private graphOf(state: PassState): LocalGraph<G> {
    return state.graph;
  }
}

/** The send functions of one worker in a plan. */
function own(plan: readonly Target[], worker: number): number[] {
  return plan.filter(({ to }) => to === worker).map(({ message }) => message);
}

/** Whether gradients can go with an answer that has some already: one message carries so many tensors and no more. */
function fits(back: readonly Fired<unknown>[], { tensors }: Fired<unknown>): boolean {
  if (back.length === 0) return true;
  const total = back.reduce((sum, one) => sum + one.tensors, tensors);
  return back.length < MAX_RETURNED && total <= MAX_RETURNED_TENSORS;
}

/** The first message since this worker was idle makes its sender the parent. Returns whether this one did. */
function engage(state: PassState, from: Parent): boolean {
  if (state.parent !== undefined || state.origin) return false;
  state.parent = from;
  return true;
}

/** Why messages of a pass that has ended are refused: whoever hears it first may be the one that tells the origin. */
function endOf({ latest }: AnyContext, pass: PassId): Failure {
  return latest !== undefined && samePass(latest.pass, pass) ? latest.failure : stale();
}
