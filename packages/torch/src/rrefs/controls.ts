/** @file What the tables of RRefs tell other workers, as torch's messages. */
import { formatId, type Control, type GlobalId, type UserFork } from '@backwire/rref/internal';
import { RpcError } from '@backwire/rpc';
import { writeCommand } from '../messages/codec.ts';
import type { Body } from '../messages/commands.ts';
import { torchId } from './ids.ts';

export interface ControlHost {
  /** Sends a request that is no call of the program; resolves when it is acknowledged. */
  tell(to: number, body: Body): Promise<unknown>;
  /** A member said something about a fork. */
  heard(from: number, message: Control): void;
  /** What could not be told, and is now only a leak. */
  lost(error: unknown, what: string): void;
  /** Everything told so far is acknowledged, or has failed. */
  idle(): void;
}

/** torch deletes a fork by its RRef, too: which that is, is kept from the moment a fork leaves the table until it is told. */
export class ControlSender {
  private readonly host: ControlHost;
  private readonly dropped = new Map<string, GlobalId>();
  /** Forks of values whose creation their owner refused: it has never had them. */
  private readonly refused = new Set<string>();
  /** Messages that are not acknowledged. */
  pending = 0;

  constructor(host: ControlHost) {
    this.host = host;
  }

  /** A fork left the table; what is told of it next needs its RRef. */
  left(fork: UserFork): void {
    this.dropped.set(formatId(fork), fork.rref);
  }

  /** The owner would not create the value of this fork. */
  refusedBy(fork: UserFork): void {
    this.refused.add(formatId(fork));
  }

  send(to: number, message: Control): void {
    switch (message.kind) {
      case 'fork-request': {
        const { rref, fork } = message;
        const body = writeCommand({ kind: 'rref-fork-request', rref: torchId(rref), fork: torchId(fork) });
        this.tell(to, body, `that fork ${formatId(fork)} is here`).then(
          () => this.host.heard(to, { kind: 'fork-ack', fork, refused: undefined }),
          (error: unknown) => {
            const { code, message: text } = RpcError.from(error);
            this.host.heard(to, { kind: 'fork-ack', fork, refused: { code, text } });
          },
        );
        return;
      }
      case 'child-accept':
        void this.tell(
          to,
          writeCommand({ kind: 'rref-child-accept', fork: torchId(message.fork) }),
          'that a child is known',
        );
        return;
      case 'user-delete':
        for (const fork of message.forks) this.delete(to, fork);
        return;
      default:
        // Acknowledgements are the answers of requests; of failed creations, and of fences, torch knows nothing.
        return;
    }
  }

  private delete(to: number, fork: GlobalId): void {
    const key = formatId(fork);
    const rref = this.dropped.get(key);
    this.dropped.delete(key);
    if (this.refused.delete(key) || rref === undefined) return;
    const body = writeCommand({ kind: 'rref-user-delete', rref: torchId(rref), fork: torchId(fork) });
    void this.tell(to, body, `that ${key} is released`);
  }

  private tell(to: number, body: Body, what: string): Promise<unknown> {
    this.pending++;
    const told = this.host.tell(to, body).finally(() => {
      if (--this.pending === 0) this.host.idle();
    });
    told.catch((error: unknown) => this.host.lost(error, `worker ${to} was not told ${what}`));
    return told;
  }
}
