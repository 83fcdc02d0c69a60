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
  /** A rule broken on purpose: the peer's position is ignored, duplicates are delivered as well, or nothing is replayed. */
  readonly broken?: 'position' | 'position and dedupe' | 'replay';
}

type Packet =
  | { readonly kind: 'resume'; readonly position: Resume }
  | { readonly kind: 'frame'; readonly seq: number; readonly ack: number; readonly value: number }
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
  #connected = false;

  constructor(bounds: SessionBounds) {
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
    const frame: Packet = { kind: 'frame', seq, ack: this.session.lastReceived, value: ++this.sent };
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
  readonly ends: readonly [EndPoint, EndPoint];
  readonly bounds: SessionBounds;
  breaks = 0;

  constructor(bounds: SessionBounds) {
    this.bounds = bounds;
    this.ends = [new EndPoint(bounds), new EndPoint(bounds)];
  }

  actions(): string[] {
    const actions: string[] = [];
    const connected = this.ends[0].connected;
    if (!connected) actions.push('link comes up');
    if (connected && this.breaks < this.bounds.breaks) actions.push('link breaks');
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
    } else {
      const [from, to] = action.startsWith('A') ? this.ends : ([this.ends[1], this.ends[0]] as const);
      if (action.endsWith('sends')) from.send();
      else if (action.endsWith('acknowledges')) from.acknowledge();
      else to.receive(from.wire.shift() as Packet);
    }
  }

  encode(ends: readonly EndPoint[] = this.ends): string {
    const view = ends.map(({ session, wire, delivered, sent, connected, released }) => {
      return { ...session.snapshot(), due: session.ackAt() !== Infinity, wire, delivered, sent, connected, released };
    });
    return canonical([view, this.breaks]);
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
  const { frames, breaks, broken } = bounds;
  return replaying<World>({
    name: `session, ${frames} frames each way, ${breaks} breaks${broken === undefined ? '' : `, without ${broken}`}`,
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
