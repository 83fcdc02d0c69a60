/** @file The header entries of the replies that were made inside of extensions for one call: each is sent with its answer, or taken back. */
import type { HeaderEntry } from '@backwire/wire/internal';
import type { RpcMessage } from '../extensions/extension.ts';

/** Of one call. Extensions may run it more than once, fail with a reply in their hands, or answer with another one. */
export class DrawnEntries {
  private readonly takeBack: (header: readonly HeaderEntry[]) => void;
  private drawn: HeaderEntry[] = [];
  private isOver = false;

  constructor(takeBack: (header: readonly HeaderEntry[]) => void) {
    this.takeBack = takeBack;
  }

  /** A reply was made, which goes to the extensions. */
  noted(reply: RpcMessage): RpcMessage {
    const { header = [] } = reply;
    // One that the extensions have not waited for is sent by nobody.
    if (this.isOver) this.takeBack(header);
    else if (header.length > 0) this.drawn.push(...header);
    return reply;
  }

  /**
   * The answer that the extensions gave, as it is sent. One without entries of its own takes all along: it may be another message with
   * the same content, and the other side lets go of what no value asks for.
   */
  sentWith(reply: RpcMessage): RpcMessage {
    const { drawn } = this;
    this.isOver = true;
    if (drawn.length === 0) return reply;
    if (reply.header === undefined) {
      const { type, id, payload, tensors } = reply;
      return { type, id, payload, tensors, header: drawn };
    }
    const sent = new Set(reply.header);
    const others = drawn.filter((entry) => !sent.has(entry));
    if (others.length === 0) return reply;
    // An extension may have copied what it sends.
    const copied = new Set(reply.header.map(keyOf));
    this.takeBack(others.filter((entry) => !copied.has(keyOf(entry))));
    return reply;
  }

  /** There is no answer, or an error. */
  unsent(): void {
    this.isOver = true;
    this.takeBack(this.drawn);
  }
}

/** The same for a copy. */
function keyOf({ extension, data }: HeaderEntry): string {
  return `${extension} ${data.join(' ')}`;
}
