/** @file Every interleaving of two production sessions over a link that breaks: sends, deliveries, acknowledgements, resumes. */
import { canonical, replaying, type Model, type ReplayedState } from '@backwire/testing';
import { AtLeastOnce, BlindReplay } from '../sim/broken-sessions.ts';
import { Session, type Resume, type SessionLimits, type SessionPort } from '../src/protocol/session.ts';

/** Bounds of the world. */
export interface SessionBounds {
  /** Frames each end sends at most. */
  readonly frames: number;
  /** Times the link may break. */
  readonly breaks: number;
  /** Frames that may be unacknowledged. @default 2 */
  readonly window?: number;
  /** Times an end may crash and come back in another life, without a memory. @default 0 */
  readonly restarts?: number;
  /**
   * A rule broken on purpose: the peer's position is ignored, duplicates are delivered as well, nothing is replayed, or a session goes on
   * with another life of its peer.
   */
  readonly broken?: 'position' | 'position and dedupe' | 'replay' | 'lives';
}

type Packet =
  | { readonly kind: 'resume'; readonly position: Resume }
  /** `to` is the life it was meant for; only the checks look at it. */
  | { readonly kind: 'frame'; readonly seq: number; readonly ack: number; readonly value: number; readonly to: number }
  | { readonly kind: 'ack'; readonly ack: number };

const FRAME_BYTES = 10;

/** One end: the real session and the smallest shell around it. */
class EndPoint {
  readonly session: Session<Packet[]>;
  readonly wire: Packet[] = [];
  readonly delivered: number[] = [];
  sent = 0;
  retained = 0;
  released = 0;
  wrong: string | undefined;
  readonly life: number;
  /** The life its session is with. */
  readonly peerLife: number;
  #connected = false;

  constructor(bounds: SessionBounds, life: number, peerLife: number) {
    this.life = life;
    this.peerLife = peerLife;
    const limits: SessionLimits = {
      windowBytes: 1_000,
      windowFrames: bounds.window ?? 2,
      ackFrames: 1_000,
      ackBytes: 100_000,
      ackMs: 20,
    };
    const port = {
      resend: (segment: Packet[]) => {
        if (bounds.broken !== 'replay') this.wire.push(...segment);
      },
      release: () => void this.released++,
    };
    this.session = makeSession(bounds.broken, port, limits);
  }

  connect(): void {
    this.#connected = true;
    this.wire.push({ kind: 'resume', position: this.session.position() });
  }

  disconnect(): void {
    this.#connected = false;
    this.wire.length = 0;
    this.session.linkLost();
  }

  send(): void {
    const seq = this.session.draw();
    const frame: Packet = { kind: 'frame', seq, ack: this.session.lastReceived, value: ++this.sent, to: this.peerLife };
    this.session.retain([frame], FRAME_BYTES);
    this.retained++;
    if (this.session.state !== 'up') return;
    this.wire.push(frame);
    this.session.ackCarried(frame.ack);
  }

  acknowledge(): void {
    const ack = this.session.lastReceived;
    this.wire.push({ kind: 'ack', ack });
    this.session.ackCarried(ack);
  }

  receive(packet: Packet): void {
    const { session } = this;
    if (packet.kind === 'resume') {
      if (!session.linkUp(packet.position)) this.wrong = 'the session was lost';
      return;
    }
    if (!session.acknowledged(packet.ack)) this.wrong = 'an acknowledgement of what was never sent';
    if (packet.kind === 'ack') return;
    const arrival = session.arrived(packet.seq, FRAME_BYTES, 0);
    if (arrival === 'gap') this.wrong = `a gap before ${packet.seq}`;
    if (arrival === 'deliver' && packet.to !== this.life)
      this.wrong = `a frame for life ${packet.to} in life ${this.life}`;
    if (arrival === 'deliver') this.delivered.push(packet.value);
  }

  get connected(): boolean {
    return this.#connected;
  }
}

function makeSession(
  broken: SessionBounds['broken'],
  port: SessionPort<Packet[]>,
  limits: SessionLimits,
): Session<Packet[]> {
  if (broken === 'position') return new BlindReplay(port, limits);
  return broken === 'position and dedupe' ? new AtLeastOnce(port, limits) : new Session(port, limits);
}

class World {
  readonly ends: [EndPoint, EndPoint];
  readonly bounds: SessionBounds;
  breaks = 0;
  restarts = 0;

  constructor(bounds: SessionBounds) {
    this.bounds = bounds;
    this.ends = [new EndPoint(bounds, 1, 1), new EndPoint(bounds, 1, 1)];
  }

  actions(): string[] {
    const actions: string[] = [];
    const connected = this.ends[0].connected;
    if (!connected) actions.push('link comes up');
    if (connected && this.breaks < this.bounds.breaks) actions.push('link breaks');
    if (this.restarts < (this.bounds.restarts ?? 0)) actions.push(...NAMES.map((name) => `${name} restarts`));
    for (const [i, end] of this.ends.entries()) {
      if (end.sent < this.bounds.frames && end.session.hasRoom()) actions.push(`${NAMES[i]} sends`);
      if (end.session.ackAt() !== Infinity) actions.push(`${NAMES[i]} acknowledges`);
      if (end.wire.length > 0) actions.push(`${NAMES[i]}'s next packet arrives`);
    }
    return actions;
  }

  apply(action: string): void {
    if (action === 'link comes up') for (const end of this.ends) end.connect();
    else if (action === 'link breaks') {
      this.breaks++;
      for (const end of this.ends) end.disconnect();
    } else if (action.endsWith('restarts')) this.restart(action.startsWith('A') ? 0 : 1);
    else {
      const [from, to] = action.startsWith('A') ? this.ends : ([this.ends[1], this.ends[0]] as const);
      if (action.endsWith('sends')) from.send();
      else if (action.endsWith('acknowledges')) from.acknowledge();
      else to.receive(from.wire.shift() as Packet);
    }
  }

  /** One end comes back without a memory; the other learns of it before the next link, ends its session, and begins another. */
  private restart(index: 0 | 1): void {
    this.restarts++;
    for (const end of this.ends) end.disconnect();
    const [gone, other] = index === 0 ? this.ends : ([this.ends[1], this.ends[0]] as const);
    const reborn = new EndPoint(this.bounds, gone.life + 1, other.life);
    let kept = other;
    // Counted by pairs of lives.
    other.delivered.length = 0;
    if (this.bounds.broken !== 'lives') {
      other.session.close();
      kept = new EndPoint(this.bounds, other.life, reborn.life);
      if (other.released !== other.retained) kept.wrong = 'a session that ended has not let go of all';
    }
    this.ends[index] = reborn;
    this.ends[1 - index] = kept;
  }

  encode(ends: readonly EndPoint[] = this.ends): string {
    const view = ends.map(({ session, wire, delivered, sent, connected, released, life, peerLife }) => {
      return {
        ...session.snapshot(),
        due: session.ackAt() !== Infinity,
        wire,
        delivered,
        sent,
        connected,
        released,
        life,
        peerLife,
      };
    });
    return canonical([view, this.breaks, this.restarts]);
  }

  wrong(): string | undefined {
    for (const [i, end] of this.ends.entries()) {
      const sender = this.ends[1 - i] as EndPoint;
      if (end.wrong !== undefined) return `${NAMES[i]}: ${end.wrong}`;
      const broken = end.delivered.findIndex((value, at) => value !== at + 1);
      if (broken >= 0) return `${NAMES[i]} was given ${end.delivered.join()}`;
      if (end.delivered.length > sender.sent) return `${NAMES[i]} was given more than was sent`;
      if (end.released > end.retained) return `${NAMES[i]} released a segment twice`;
    }
    return undefined;
  }

  unsettled(): string | undefined {
    for (const [i, end] of this.ends.entries()) {
      const sender = this.ends[1 - i] as EndPoint;
      if (end.delivered.length !== sender.sent)
        return `${NAMES[i]} was given ${end.delivered.length} of ${sender.sent}`;
      if (end.sent < this.bounds.frames) return `${NAMES[i]} cannot send`;
      if (end.released !== end.retained) return `${NAMES[i]} still retains what its peer has`;
    }
    return undefined;
  }
}

const NAMES = ['A', 'B'] as const;

/** The model of two sessions within `bounds`. */
export function sessionModel(bounds: SessionBounds): Model<ReplayedState> {
  const { frames, breaks, restarts = 0, broken } = bounds;
  return replaying<World>({
    name: `session, ${frames} frames each way, ${breaks} breaks${restarts > 0 ? `, ${restarts} restarts` : ''}${broken === undefined ? '' : `, without ${broken}`}`,
    create: () => new World(bounds),
    actions: (world) => world.actions(),
    apply: (world, action) => world.apply(action),
    encode: (world) => world.encode(),
    // The two ends are interchangeable.
    symmetric: (world) => [world.encode([...world.ends].reverse())],
    invariant: (world) => world.wrong(),
    terminal: (world) => world.unsettled(),
  });
}
