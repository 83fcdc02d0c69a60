/** @file Connections that came: each has proved whose it is, says so once more in its HELLO, and goes to that peer's session. */
import type { handshakeProto } from '@backwire/wire/internal';
import { MAX_PENDING_HELLOS } from '../base/limits.ts';
import type { ExtendedEnvironment } from '../extensions/chain.ts';
import type { Membership, View } from '../protocol/membership.ts';
import { Link, type LinkOwner } from '../session/link.ts';
import { PROTOCOL_VERSION } from '../session/identity.ts';
import type { Peer } from '../session/peer.ts';
import type { Connection } from '../transports/transport.ts';

/** Owns links on which nothing may come but a HELLO, or nothing at all. */
const SILENT: LinkOwner = {
  handshake: (link) => link.refuse('protocol-error', 'a HELLO was sent twice'),
  resumed: (link) => link.end(),
  frame: () => undefined,
  body: () => undefined,
  bodyEnd: () => undefined,
  batch: () => undefined,
  closed: () => undefined,
};

export interface ReceptionOptions {
  readonly environment: ExtendedEnvironment;
  readonly membership: Membership;
  /** The member of that name. */
  peerNamed(name: string): Peer | undefined;
  /** Takes the view as the store has it now. */
  refresh(): Promise<View>;
}

export class Reception {
  private readonly options: ReceptionOptions;
  private readonly hellos = new Set<Link>();
  private closed = false;

  constructor(options: ReceptionOptions) {
    this.options = options;
  }

  /** Someone connected and has proved that it is `claim`, a name and an incarnation. */
  welcome(connection: Connection, claim: string): void {
    if (this.closed) {
      connection.destroy();
      return;
    }
    if (this.hellos.size >= MAX_PENDING_HELLOS)
      for (const oldest of this.hellos) {
        oldest.end();
        this.hellos.delete(oldest);
        break;
      }
    const doorman: LinkOwner = {
      ...SILENT,
      handshake: (from, step) => this.handshake(from, step, claim),
      closed: (gone) => void this.hellos.delete(gone),
    };
    const link = new Link(connection, doorman, this.options.environment.wireLimits);
    this.hellos.add(link);
    link.start();
  }

  close(): void {
    this.closed = true;
    for (const link of this.hellos) link.end();
    this.hellos.clear();
  }

  /** A link says whose it is. */
  private handshake(link: Link, step: NonNullable<handshakeProto.Handshake['step']>, claim: string): void {
    this.hellos.delete(link);
    const identity = step.$case === 'hello' ? step.value.identity : undefined;
    if (identity === undefined) {
      link.refuse('protocol-error', 'a HELLO was due');
      return;
    }
    const { environment } = this.options;
    if (identity.minVersion > PROTOCOL_VERSION || identity.maxVersion < PROTOCOL_VERSION) {
      link.refuse('version-mismatch', `this side speaks version ${PROTOCOL_VERSION}`);
    } else if (`${identity.name}#${identity.incarnation}` !== claim)
      link.refuse('unauthenticated', 'another worker than the one that proved itself');
    else if (identity.group !== environment.group) link.refuse('permission-denied', 'another group');
    else if (identity.peerIncarnation !== environment.incarnation)
      link.refuse('unavailable', 'another life of this worker was meant');
    else this.introduce(link, identity);
  }

  private introduce(link: Link, identity: handshakeProto.Identity): void {
    const known = this.options.peerNamed(identity.name);
    if (known?.incarnation === identity.incarnation) {
      known.hello(link, identity);
      return;
    }
    // Its view may be newer than this one.
    link.handTo(SILENT);
    this.hellos.add(link);
    const settle = (): void => {
      this.hellos.delete(link);
      const peer = this.options.peerNamed(identity.name);
      if (link.state === 'closed') return;
      if (peer?.incarnation === identity.incarnation) peer.hello(link, identity);
      else if (this.options.membership.stored.epoch >= identity.epoch)
        link.refuse('fenced', 'the group has no such member');
      else link.refuse('unavailable', 'this worker does not know the newest view', 100);
    };
    this.options.refresh().then(settle, settle);
  }
}
