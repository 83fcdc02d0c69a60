/** @file The autograd contexts of one worker of a torch group, by the ids that torch gives them. */
import { RpcError } from '@backwire/rpc';
import { LiveContext } from '@backwire/dist-autograd/internal';

const LOCAL_BITS = 48n;
const LOCAL_MASK = (1n << LOCAL_BITS) - 1n;
/** Contexts at once. */
const MAX_CONTEXTS = 10_000;
/** Ended contexts that are remembered, so that a message that is late does not bring one back. */
const MAX_ENDED = 16_384;

/** An id of torch's: the worker that drew it in the upper 16 bits, its counter below. */
export function idOf(worker: number, local: number): bigint {
  return (BigInt(worker) << LOCAL_BITS) | BigInt(local);
}

export function workerIn(id: bigint): number {
  return Number(id >> LOCAL_BITS);
}

export function localIn(id: bigint): number {
  return Number(id & LOCAL_MASK);
}

export class Contexts {
  private readonly self: number;
  private readonly byId = new Map<bigint, LiveContext>();
  private readonly ended = new Set<bigint>();
  private drawn = 0;
  private messages = 0;

  constructor(self: number) {
    this.self = self;
  }

  get size(): number {
    return this.byId.size;
  }

  find(id: bigint): LiveContext | undefined {
    // Ids that came as values of Python are numbers where they are small.
    return this.byId.get(typeof id === 'number' && Number.isSafeInteger(id) ? BigInt(id) : id);
  }

  [Symbol.iterator](): IterableIterator<LiveContext> {
    return this.byId.values();
  }

  /** A new context of this worker. @throws RpcError 'resource-exhausted' */
  create(): LiveContext {
    return this.make(idOf(this.self, this.drawn++));
  }

  /** The context of a message, made now if it is new here. @throws RpcError 'failed-precondition' when it was released. */
  accept(id: bigint): LiveContext {
    const known = this.byId.get(id);
    if (known !== undefined) return known;
    if (this.ended.has(id)) throw new RpcError('failed-precondition', `autograd context ${id} was released`);
    return this.make(id);
  }

  /** The number of the next message of this worker. */
  nextMessage(): number {
    return this.messages++;
  }

  /** Takes a context out, for good. */
  release(id: bigint): LiveContext | undefined {
    const known = this.byId.get(id);
    this.byId.delete(id);
    this.ended.add(id);
    for (const oldest of this.ended) {
      if (this.ended.size <= MAX_ENDED) break;
      this.ended.delete(oldest);
    }
    if (known !== undefined) known.released = true;
    return known;
  }

  private make(id: bigint): LiveContext {
    if (this.byId.size >= MAX_CONTEXTS)
      throw new RpcError('resource-exhausted', `more than ${MAX_CONTEXTS} autograd contexts are open`);
    const made = new LiveContext({ worker: workerIn(id), incarnation: 0, local: localIn(id) }, performance.now());
    this.byId.set(id, made);
    return made;
  }
}
