/** @file The value codec: JavaScript values to the `Value` message and back, with the caller's extensions. */
import { type Tensor } from '@backwire/tensor';
import { ByteWriter } from '../bytes/byte-writer.ts';
import { WireError, decodeError } from '../errors.ts';
import { DEFAULT_WIRE_LIMITS, type WireLimits } from '../limits.ts';
import { ValueReader } from './reader.ts';
import { type Findings, type ValueExtension } from './types.ts';
import { ValueWriter } from './writer.ts';

/**
 * Writes and reads values: null, undefined, booleans, numbers, bigints, strings, bytes and typed arrays, dates, maps, sets, arrays,
 * plain objects, errors, tensors (by their index in the message's tensor list), registered types and the given extensions.
 * One per agent; `C` is the context its extensions get. Safe to use from inside its own extensions.
 */
export class ValueCodec<C = unknown> {
  private readonly extensions: readonly ValueExtension<C>[];
  private readonly limits: WireLimits;
  private readonly opaque: boolean;
  private readonly writers: ValueWriter[] = [];
  private readonly readers: ValueReader[] = [];

  /** `opaque`: values of unknown extensions and types are read as `TaggedValue`s, and those are written. */
  constructor(
    extensions: readonly ValueExtension<C>[] = [],
    limits: WireLimits = DEFAULT_WIRE_LIMITS,
    { opaque = false }: { readonly opaque?: boolean } = {},
  ) {
    this.extensions = extensions;
    this.limits = limits;
    this.opaque = opaque;
  }

  /**
   * Appends `value` to `out` and its tensors to `tensors`.
   * @throws TypeError for what cannot travel (functions, cycles, unregistered classes), naming the place; WireError 'limit'. What was
   * written of it is then garbage: the caller drops the frame.
   */
  write(out: ByteWriter, value: unknown, tensors: Tensor[], ctx: C): void {
    const writer = this.writers.pop() ?? new ValueWriter(this.extensions, this.limits, this.opaque);
    try {
      writer.write(out, value, tensors, ctx);
    } finally {
      this.writers.push(writer);
    }
  }

  /**
   * Reads the value in `bytes[start, end)`; it refers to nothing in there. `findings`: for who will free what is in the value.
   * @throws WireError 'decode-error' or 'limit'. An extension's or type's own throw arrives as the cause of a 'decode-error'.
   */
  read(
    bytes: Uint8Array,
    start: number,
    end: number,
    tensors: readonly Tensor[],
    ctx: C,
    findings?: Findings,
  ): unknown {
    const reader = this.readers.pop() ?? new ValueReader(this.extensions, this.limits, this.opaque);
    try {
      return reader.read(bytes, start, end, tensors, ctx, findings);
    } catch (error) {
      throw error instanceof WireError ? error : decodeError('a value could not be rebuilt', error);
    } finally {
      this.readers.push(reader);
    }
  }
}

const plainCodec = new ValueCodec<undefined>();

/**
 * Encodes a value on its own: what `decodeValue` reads. `tensors` are those inside the value, in order of appearance; they are not
 * copied.
 * @param value what travels in calls: plain values, lists, maps, sets, dates, bytes, tensors, registered types
 * @throws TypeError for a value that cannot travel, WireError 'limit' for one too large.
 * @example
 * ```ts
 * const { bytes, tensors } = encodeValue({ step: 3n, loss: ones([2]) });
 * console.log(decodeValue(bytes, tensors)); // { step: 3n, loss: …
 * ```
 */
export function encodeValue(value: unknown): { bytes: Uint8Array; tensors: Tensor[] } {
  const out = new ByteWriter();
  const tensors: Tensor[] = [];
  plainCodec.write(out, value, tensors, undefined);
  return { bytes: out.finish(), tensors };
}

/**
 * Decodes what `encodeValue` gave, with the tensors that travelled beside it. Keys of plain objects are own properties, whatever their names.
 * @param bytes of `encodeValue`
 * @param tensors of `encodeValue`, in its order
 * @throws WireError 'decode-error' or 'limit'.
 * @example
 * ```ts
 * const { bytes, tensors } = encodeValue(new Map([['a', 1]]));
 * console.log(decodeValue(bytes, tensors)); // Map(1) { 'a' => 1 }
 * ```
 */
export function decodeValue(bytes: Uint8Array, tensors: readonly Tensor[]): unknown {
  return plainCodec.read(bytes, 0, bytes.length, tensors, undefined);
}
