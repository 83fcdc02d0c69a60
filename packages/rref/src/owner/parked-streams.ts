/** @file Generators that a method returned and whose caller has not asked for items yet. */
import { RpcError } from '@backwire/rpc';
import { systemError } from '@backwire/rpc/internal';
import { MAX_PARKED_STREAMS_PER_PEER, PARKED_STREAM_MS } from '../limits.ts';

type Stream = AsyncGenerator | Generator;

interface Parked {
  readonly caller: number;
  readonly stream: Stream;
  readonly timer: ReturnType<typeof setTimeout>;
}

/** Each is taken once, by its caller; one that is not taken in time, or whose caller is gone, is ended. */
export class ParkedStreams {
  private readonly parked = new Map<number, Parked>();
  private readonly perCaller = new Map<number, number>();
  private next = 0;

  get size(): number {
    return this.parked.size;
  }

  /** @throws RpcError 'resource-exhausted' when the caller has too many; the stream is ended then. */
  park(caller: number, stream: Stream): number {
    const count = this.perCaller.get(caller) ?? 0;
    if (count >= MAX_PARKED_STREAMS_PER_PEER) {
      end(stream);
      throw systemError(
        new RpcError('resource-exhausted', `more than ${MAX_PARKED_STREAMS_PER_PEER} streams wait to be read`, {
          executed: 'yes',
        }),
      );
    }
    const ticket = this.next++;
    const timer = setTimeout(() => this.drop(ticket), PARKED_STREAM_MS);
    (timer as { unref?: () => void }).unref?.();
    this.parked.set(ticket, { caller, stream, timer });
    this.perCaller.set(caller, count + 1);
    return ticket;
  }

  /** @throws RpcError 'not-found' */
  take(ticket: unknown, caller: number): Stream {
    const found = typeof ticket === 'number' ? this.parked.get(ticket) : undefined;
    if (found === undefined || found.caller !== caller)
      throw systemError(new RpcError('not-found', 'no stream waits under this ticket'));
    this.remove(ticket as number, found);
    return found.stream;
  }

  callerGone(caller: number): void {
    for (const [ticket, found] of [...this.parked]) if (found.caller === caller) this.drop(ticket);
  }

  close(): void {
    for (const ticket of [...this.parked.keys()]) this.drop(ticket);
  }

  private drop(ticket: number): void {
    const found = this.parked.get(ticket);
    if (found === undefined) return;
    this.remove(ticket, found);
    end(found.stream);
  }

  private remove(ticket: number, { caller, timer }: Parked): void {
    clearTimeout(timer);
    this.parked.delete(ticket);
    const rest = (this.perCaller.get(caller) ?? 1) - 1;
    if (rest === 0) this.perCaller.delete(caller);
    else this.perCaller.set(caller, rest);
  }
}

function end(stream: Stream): void {
  // A generator that fails while it is ended has nobody left to tell.
  void (async () => stream.return(undefined))().catch(() => undefined);
}
