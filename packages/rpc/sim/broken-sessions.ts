/** @file Sessions with a rule broken on purpose: what the simulator and the explorer must notice. */
import { Session, type Resume } from '../src/protocol/session.ts';

/** Replays all that is not acknowledged instead of what the peer says it has not. The duplicate check makes up for it. */
export class BlindReplay<S, B = unknown> extends Session<S, B> {
  override linkUp(peer: Resume): boolean {
    return super.linkUp({ ...peer, received: Math.min(peer.received, this.lastAcked) });
  }
}

/** Numbers frames whether or not the peer keeps up: its memory is bounded by nothing. */
export class WithoutWindow<S, B = unknown> extends Session<S, B> {
  override hasRoom(): boolean {
    return this.state !== 'closed';
  }
}

/** The same as `BlindReplay` without the duplicate check: at least once, as naive retries are. */
export class AtLeastOnce<S, B = unknown> extends BlindReplay<S, B> {
  override arrived(seq: number, bytes: number, now: number): ReturnType<Session<S, B>['arrived']> {
    const arrival = super.arrived(seq, bytes, now);
    return arrival === 'duplicate' ? 'deliver' : arrival;
  }
}
