/** @file A simulated worker: calls, handlers, deadlines and the group's view over the production call table and sessions. */
import type { End, NodeEnv, SimNode } from '@backwire/testing';
import { CallTable } from '../src/protocol/call-table.ts';
import { DialQueue } from '../src/protocol/dial-queue.ts';
import { Session, type SessionLimits } from '../src/protocol/session.ts';
import { AtLeastOnce, WithoutWindow } from './broken-sessions.ts';
import { lifeKey, type Life, type Numbered, type Packet, type Payload } from './frames.ts';
import { answerOf, type Oracle, type Outcome } from './oracle.ts';
import type { Queued } from './outbox.ts';
import { SimPeer, type PeerOwner } from './sim-peer.ts';

/** Protocol rules that a test may break on purpose. */
export interface Rules {
  /** Each number is taken once, whatever is sent again. */
  readonly dedupe: boolean;
  /** A link that comes up replays what the peer has not. */
  readonly replay: boolean;
  /** A call that was numbered may have run when its peer dies. */
  readonly sentMayHaveRun: boolean;
  /** Frames are numbered only while the window has room. */
  readonly window: boolean;
  /** A worker that drains serves the calls that it has. */
  readonly drainServes: boolean;
  /** Storages are sent at the pace of a slow link. */
  readonly pace: boolean;
  /** What comes from, or is meant for, an earlier life is refused. */
  readonly lives: boolean;
}

export const SOUND: Rules = {
  dedupe: true,
  replay: true,
  sentMayHaveRun: true,
  window: true,
  drainServes: true,
  pace: true,
  lives: true,
};

/** The group's view: who is a member in which life. It stands for the store. */
export interface Directory {
  readonly members: Map<string, number>;
}

/** One step of a worker's program. */
export interface Op {
  readonly at: number;
  readonly node: string;
  readonly to: string;
  readonly kind: 'call' | 'control' | 'drain';
  readonly bytes: number;
  readonly bodies: readonly number[];
  readonly deadlineMs: number;
  readonly durationMs: number;
  readonly cancelAfterMs: number;
}

const VIEW_POLL_MS = 40;
const SWEEP_MS = 20;
const SLOW_DIAL_MS = 200;

interface Open {
  readonly uid: number;
  readonly peer: SimPeer;
  queued: Queued | undefined;
  seq: number;
}

interface Running {
  cancelled: boolean;
}

/** One incarnation of a worker. */
export class SimWorker implements SimNode, PeerOwner {
  readonly env: NodeEnv;
  readonly self: Life;
  readonly oracle: Oracle;
  readonly #directory: Directory;
  readonly #rules: Rules;
  /** Links are slow, and nothing else is wrong with them. */
  readonly slow: boolean;
  readonly #failed: (rule: string, why: string) => void;
  readonly #peers = new Map<string, SimPeer>();
  readonly #closed: SimPeer[] = [];
  readonly #calls = new CallTable<Open>(64);
  /** Where each session stood when the drain began. */
  readonly #lastTaken = new Map<SimPeer, number>();
  /** One at a time, so that dials stand in line. */
  readonly #dials = new DialQueue<SimWorker>(1, SLOW_DIAL_MS, () => this.env.random.float());
  #draining = false;
  readonly #running = new Map<string, Running>();

  constructor(
    env: NodeEnv,
    oracle: Oracle,
    directory: Directory,
    rules: Rules,
    slow: boolean,
    failed: (rule: string, why: string) => void,
  ) {
    this.env = env;
    this.self = { name: env.name, incarnation: env.incarnation };
    this.oracle = oracle;
    this.#directory = directory;
    this.#rules = rules;
    this.slow = slow;
    this.#failed = failed;
    this.#directory.members.set(env.name, env.incarnation);
    this.#watch();
    this.#sweep();
  }

  /** Runs one step of the program. */
  perform(op: Op): void {
    if (op.kind === 'drain') return this.#drain();
    const peer = this.#peer(op.to);
    if (peer === undefined) return;
    if (op.kind === 'control') {
      const uid = this.oracle.uid();
      this.oracle.asked(uid);
      peer.control({ kind: 'control', uid }, op.bytes);
    } else this.#call(peer, op);
  }

  /** What is not settled here; undefined when all is quiet. */
  open(): string | undefined {
    if (this.#calls.size > 0) return `${this.self.name}: ${this.#calls.size} calls are open`;
    for (const peer of [...this.#peers.values(), ...this.#closed]) {
      const open = peer.open();
      if (open !== undefined) return `${this.self.name} to ${lifeKey(peer.life)}: ${open}`;
    }
    return this.#running.size > 0 ? `${this.self.name}: a handler runs` : undefined;
  }

  /** The session with a live peer, for the checks at the end. */
  sessionWith(name: string): Session<Numbered[], number> | undefined {
    return this.#peers.get(name)?.session;
  }

  onConnection(end: End): void {
    end.onMessage = (packet) => {
      const hello = packet as Packet;
      const known = hello.kind === 'hello' && hello.to.incarnation === this.self.incarnation;
      const member = hello.kind === 'hello' && this.#directory.members.get(hello.from.name) === hello.from.incarnation;
      if (hello.kind !== 'hello' || (this.#rules.lives && !(known && member))) {
        end.send({ kind: 'reject', code: 'fenced' } satisfies Packet);
        end.close();
        return;
      }
      // The view is as new as the store's here: a HELLO of a later life ends the earlier one first.
      this.#refresh();
      this.#peer(hello.from.name)?.hello(end, hello);
    };
  }

  // PeerOwner

  makeSession(
    port: { resend(segment: Numbered[]): void; release(segment: Numbered[]): void },
    limits: SessionLimits,
  ): Session<Numbered[], number> {
    const broken = {
      resend: (segment: Numbered[]) => {
        if (this.#rules.replay) port.resend(segment);
      },
      release: (segment: Numbered[]) => port.release(segment),
    };
    if (!this.#rules.window) return new WithoutWindow(broken, limits);
    return this.#rules.dedupe ? new Session(broken, limits) : new AtLeastOnce(broken, limits);
  }

  waitToDial(again: boolean, start: () => void): () => void {
    const turn = this.#dials.enter(this, again, start);
    this.#dialSoon();
    return () => {
      this.#dials.leave(turn, this.env.now());
      this.#dialSoon();
    };
  }

  #dialSoon(): void {
    this.env.setTimer(0, 'dials', () => {
      for (const { start } of this.#dials.next(this.env.now())) start();
      const at = this.#dials.nextAt();
      if (at !== Infinity) this.env.setTimer(Math.max(1, at - this.env.now()), 'slow dials', () => this.#dialSoon());
    });
  }

  get paced(): boolean {
    return this.#rules.pace;
  }

  accused(peer: SimPeer): void {
    this.#failed('a link that carries bytes is not cut', `${lifeKey(this.self)} accuses ${lifeKey(peer.life)}`);
  }

  get tellsLives(): boolean {
    return this.#rules.lives;
  }

  arrived(uid: number): void {
    if (!this.#draining) this.oracle.taken(uid);
  }

  received(peer: SimPeer, payload: Payload, seq: number): void {
    switch (payload.kind) {
      case 'call':
        if (this.#draining && (!this.#rules.drainServes || seq > (this.#lastTaken.get(peer) ?? 0)))
          return this.#refuse(peer, payload);
        return this.#handle(peer, payload);
      case 'drain':
        return this.#drained(peer, payload.lastSeq);
      case 'result': {
        const open = this.#calls.take(payload.callId);
        if (open === undefined) return;
        this.#settle(
          open,
          payload.ran ? { value: payload.value } : { error: payload.refused ?? 'refused', executed: 'no' },
        );
        return;
      }
      case 'cancel': {
        const running = this.#running.get(handlerKey(peer, payload.callId));
        if (running !== undefined) running.cancelled = true;
        return;
      }
      case 'control':
      case 'body-lost':
        return;
    }
  }

  unreachable(peer: SimPeer): void {
    this.#failAll(peer, 'unavailable');
  }

  sessionLost(peer: SimPeer, why: string): void {
    this.#failed('a live session is never lost', `${lifeKey(this.self)} with ${lifeKey(peer.life)}: ${why}`);
  }

  #call(peer: SimPeer, op: Op): void {
    const uid = this.oracle.uid();
    const deadline = this.env.now() + op.deadlineMs;
    this.oracle.called(uid, this.self, deadline);
    const open: Open = { uid, peer, queued: undefined, seq: 0 };
    const callId = this.#calls.open(open, deadline);
    if (callId === 0) return this.oracle.settled(uid, { error: 'resource-exhausted', executed: 'no' }, this.env.now());
    if (peer.lastServed !== Infinity) {
      this.#calls.take(callId);
      return this.#settle(open, { error: 'draining', executed: 'no' });
    }
    const { deadlineMs: remainingMs, durationMs, bodies } = op;
    const bytes = bodies.reduce((sum, size) => sum + size, op.bytes);
    const payload: Payload = { kind: 'call', callId, uid, remainingMs, durationMs, bytes, bodies };
    open.queued = peer.call(payload, bytes, (seq) => (open.seq = seq));
    if (open.queued === undefined) {
      this.#calls.take(callId);
      this.#settle(open, { error: 'resource-exhausted', executed: 'no' });
    } else if (op.cancelAfterMs > 0) {
      this.env.setTimer(op.cancelAfterMs, 'cancel', () => this.#abort(callId, 'cancelled'));
    }
  }

  #abort(callId: number, error: string): void {
    const open = this.#calls.take(callId);
    if (open === undefined) return;
    if (open.seq === 0) {
      if (open.queued !== undefined) open.queued.withdrawn = true;
      return this.#settle(open, { error, executed: 'no' });
    }
    open.peer.control({ kind: 'cancel', callId });
    open.peer.dropBodies(open.seq);
    this.#settle(open, { error, executed: 'maybe' });
  }

  #handle(peer: SimPeer, call: Extract<Payload, { kind: 'call' }>): void {
    const key = handlerKey(peer, call.callId);
    const running: Running = { cancelled: false };
    this.#running.set(key, running);
    this.oracle.ran(call.uid);
    this.env.setTimer(call.durationMs, 'handler', () => {
      this.#running.delete(key);
      if (this.#peers.get(peer.life.name) !== peer) return;
      peer.finished(call.bytes);
      const value = answerOf(call.uid);
      if (!running.cancelled)
        peer.control({ kind: 'result', callId: call.callId, uid: this.oracle.uid(), ran: true, value });
    });
  }

  /** Takes no more calls, finishes those it has, and tells everybody. */
  #drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    for (const peer of this.#peers.values()) this.#tellDrain(peer);
  }

  #tellDrain(peer: SimPeer): void {
    const lastSeq = peer.session.lastReceived;
    this.#lastTaken.set(peer, lastSeq);
    peer.control({ kind: 'drain', lastSeq });
  }

  /** A peer takes no more calls: those without a number have not run, and never will. */
  #drained(peer: SimPeer, lastSeq: number): void {
    peer.lastServed = Math.min(peer.lastServed, lastSeq);
    for (const id of this.#calls.ids((open) => open.peer === peer && open.seq === 0)) {
      const open = this.#calls.take(id) as Open;
      if (open.queued !== undefined) open.queued.withdrawn = true;
      this.#settle(open, { error: 'draining', executed: 'no' });
    }
  }

  #refuse(peer: SimPeer, call: Extract<Payload, { kind: 'call' }>): void {
    peer.finished(call.bytes);
    const uid = this.oracle.uid();
    peer.control({ kind: 'result', callId: call.callId, uid, ran: false, refused: 'draining', value: 0 });
  }

  #settle(open: Open, outcome: Outcome): void {
    this.oracle.settled(open.uid, outcome, this.env.now());
  }

  #failAll(peer: SimPeer, error: string): void {
    for (const id of this.#calls.ids((open) => open.peer === peer)) {
      const open = this.#calls.take(id) as Open;
      const mayHave = open.seq > 0 && open.seq <= peer.lastServed;
      const ran = mayHave && this.#rules.sentMayHaveRun ? 'maybe' : 'no';
      if (open.queued !== undefined) open.queued.withdrawn = true;
      if (error === 'unavailable' && open.seq > 0) open.peer.dropBodies(open.seq);
      this.#settle(open, { error, executed: ran });
    }
  }

  #peer(name: string): SimPeer | undefined {
    const incarnation = this.#directory.members.get(name);
    if (incarnation === undefined) return undefined;
    this.#refresh();
    let peer = this.#peers.get(name);
    if (peer === undefined) {
      this.#peers.set(name, (peer = new SimPeer({ name, incarnation }, this)));
      if (this.#draining) this.#tellDrain(peer);
    }
    return peer;
  }

  /** Takes in the group's view: sessions with lives that are over end, and their calls fail. */
  #refresh(): void {
    for (const [name, peer] of this.#peers) {
      if (!this.#rules.lives || this.#directory.members.get(name) === peer.life.incarnation) continue;
      this.#peers.delete(name);
      peer.close();
      this.#closed.push(peer);
      this.#failAll(peer, 'peer-died');
    }
  }

  #watch(): void {
    this.#refresh();
    this.env.setTimer(VIEW_POLL_MS, 'view', () => this.#watch());
  }

  #sweep(): void {
    for (const id of this.#calls.expired(this.env.now())) this.#abort(id, 'deadline-exceeded');
    this.env.setTimer(SWEEP_MS, 'sweep', () => this.#sweep());
  }
}

function handlerKey(peer: SimPeer, callId: number): string {
  return `${lifeKey(peer.life)} ${callId}`;
}
