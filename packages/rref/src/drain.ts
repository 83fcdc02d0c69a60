/** @file The end of a session in good order: every handle is given back, and every fork of what is owned here comes home. */
import type { Logger } from '@backwire/rpc';
import { MAX_TIMER_MS } from '@backwire/rpc/internal';
import { MAX_DRAIN_MS } from './limits.ts';
import type { MemberDirectory } from './members.ts';
import type { MemberKey } from './protocol/ids.ts';
import type { ProtocolWorker } from './protocol/worker.ts';

/** What a drain needs of the extension that is drained. */
export interface DrainHost {
  readonly worker: Pick<ProtocolWorker<unknown>, 'owners' | 'users'>;
  readonly host: { readonly logger: Logger };
  readonly members: MemberDirectory;
  readonly changes: Changes;
  readonly closed: boolean;
  /** Sends what is still to be sent of this turn. */
  flush(): void;
  debugInfo(): Record<string, number>;
}

/** What follows a drain, the last meeting of the group, needs a part of the same deadline. */
const SHARE_OF_DEADLINE = 0.9;

/** Tells those who wait that something in the tables changed. */
export class Changes {
  private waiting: (() => void)[] = [];

  notify(): void {
    if (this.waiting.length === 0) return;
    for (const resolve of this.waiting.splice(0)) resolve();
  }

  /** The next change. */
  next(): Promise<void> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}

/** How often it is looked whether somebody who is waited for cannot be reached any more, in milliseconds. */
const LOOK_MS = 50;

/**
 * Waits until the handles here are confirmed and their children accepted, gives all of them back, and waits until others have given
 * theirs back. No call is started any more by then. Who cannot be reached is not waited for: a group without its store cannot remove
 * its dead. `deadlineMs` from now (0 = `MAX_DRAIN_MS`) bounds all of it; what is left over then is what `leaks()` names.
 */
export async function drain(session: DrainHost, deadlineMs: number): Promise<void> {
  const { worker, host, changes } = session;
  let expired = false;
  const expire = (): void => {
    expired = true;
    changes.notify();
  };
  const longestMs = deadlineMs > 0 ? deadlineMs * SHARE_OF_DEADLINE : MAX_DRAIN_MS;
  const timer = setTimeout(expire, Math.min(longestMs, MAX_TIMER_MS));
  const looks = setInterval(() => changes.notify(), LOOK_MS);
  const until = async (condition: () => boolean, otherwise: string): Promise<void> => {
    while (!condition() && !expired && !session.closed) await changes.next();
    if (!condition() && !session.closed) host.logger.warn(session.debugInfo(), otherwise);
  };
  try {
    const { owners, users } = worker;
    // Nobody is looked for twice among a million handles.
    const waits = <T>(all: Iterable<T>, whom: (each: T) => MemberKey | undefined): boolean => {
      // Nor is anybody who is no member: a handle may name an owner that there never was.
      const known = new Map<MemberKey, boolean>();
      for (const each of all) {
        const member = whom(each);
        if (member === undefined) continue;
        const reachable = known.get(member) ?? session.members.reachable(member);
        if (reachable) return true;
        known.set(member, reachable);
      }
      return false;
    };
    await until(
      () =>
        (users.pendingUsers === 0 || !waits(users.all(), (fork) => (fork.settled ? undefined : fork.owner))) &&
        !waits(users.childHolders(), (member) => member),
      'Timed out waiting for pending UserRRefs to be confirmed by owner and parent.',
    );
    for (const fork of [...users.all()]) users.release(fork);
    session.flush();
    await until(
      () => !waits(users.all(), ({ owner }) => owner) && !waits(owners.allForks(), ({ holder }) => holder),
      'Timed out waiting for pending OwnerRRefs to be deleted.',
    );
  } finally {
    clearTimeout(timer);
    clearInterval(looks);
  }
}
