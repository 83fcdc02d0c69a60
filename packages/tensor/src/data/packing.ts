/** @file Batches on their way from one thread to another: tensors as the memory that holds them, all else as it is cloned. */
import { sparseFromParts, tensorFromParts } from '../creation.ts';
import type { DType } from '../dtype.ts';
import { readBytes } from '../host.ts';
import { contiguousStrides, type Shape } from '../shape.ts';
import { storageFromBytes } from '../storage.ts';
import { Tensor } from '../tensor.ts';

/** A batch as a message has it. */
export type Packed =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'list'; readonly items: readonly Packed[] }
  | { readonly kind: 'record'; readonly entries: readonly (readonly [key: string, value: Packed])[] }
  | {
      readonly kind: 'tensor';
      readonly dtype: DType;
      readonly shape: Shape;
      readonly requiresGrad: boolean;
      /** Little-endian, row-major. */
      readonly bytes: Uint8Array<ArrayBuffer>;
    }
  | {
      readonly kind: 'sparse';
      readonly shape: Shape;
      readonly requiresGrad: boolean;
      readonly coalesced: boolean;
      readonly indices: Packed;
      readonly values: Packed;
    };

/** A batch that is packed, and the memory that is to be handed over with it. */
export interface Parcel {
  readonly packed: Packed;
  readonly transfer: readonly ArrayBuffer[];
}

/**
 * Takes a batch apart. Of a batch that nobody else holds (`own`), tensors give their memory away where it is theirs alone, and are disposed;
 * of others, and of views, a copy is packed.
 * @throws TypeError for what does not come out of a message as it went in: instances of classes, functions, results of recorded operations.
 */
export function pack(batch: unknown, own: boolean): Parcel {
  const known = new Map<Tensor, Packed>();
  const transfer: ArrayBuffer[] = [];
  const give = (bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> => {
    transfer.push(bytes.buffer);
    return bytes;
  };
  const packTensor = (t: Tensor): Packed => {
    const { shape, dtype, requiresGrad, sparse } = t;
    if (requiresGrad && !t.isLeaf)
      throw new TypeError(
        'a tensor that requires grad and is no leaf cannot leave its thread: its history stays behind. Use detach()',
      );
    if (sparse !== undefined) {
      const [indices, values] = [packOnce(sparse.indices), packOnce(sparse.values)];
      return { kind: 'sparse', shape, requiresGrad, coalesced: sparse.coalesced, indices, values };
    }
    return { kind: 'tensor', dtype, shape: [...shape], requiresGrad, bytes: give(bytesOf(t, own)) };
  };
  const packOnce = (t: Tensor): Packed => {
    const packed = known.get(t) ?? packTensor(t);
    known.set(t, packed);
    return packed;
  };
  const go = (value: unknown, where: string): Packed => {
    if (value instanceof Tensor) return packOnce(value as Tensor);
    if (Array.isArray(value)) return { kind: 'list', items: value.map((one: unknown, i) => go(one, `${where}[${i}]`)) };
    if (isPlain(value))
      return {
        kind: 'record',
        entries: Object.entries(value).map(([key, one]) => [key, go(one, `${where}.${key}`)] as const),
      };
    if (!travels(value))
      throw new TypeError(
        `${where} is ${typeof value === 'object' ? `an instance of ${value?.constructor?.name ?? 'a class'}` : `a ${typeof value}`}, which cannot leave its thread: a batch is made of tensors, typed arrays, lists, plain objects and values`,
      );
    return { kind: 'value', value };
  };
  const packed = go(batch, 'the batch');
  if (own) for (const t of known.keys()) t.dispose();
  return { packed, transfer };
}

/** The elements, in memory that nothing else uses. */
function bytesOf(t: Tensor, own: boolean): Uint8Array<ArrayBuffer> {
  const { storage } = t;
  const bytes = readBytes(t);
  // Elements that did not lie in order were just copied.
  if (!t.isContiguous) return bytes as Uint8Array<ArrayBuffer>;
  const alone = storage.refs === 1 && storage.ioRefs === 0 && !storage.escaped && !storage.onDevice;
  if (!own || !alone || bytes.byteLength !== bytes.buffer.byteLength) return bytes.slice();
  // It is not to be used for anything else when the tensor goes.
  storage.escaped = true;
  return bytes as Uint8Array<ArrayBuffer>;
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Whether a message brings it as it is. */
function travels(value: unknown): boolean {
  if (typeof value === 'function' || typeof value === 'symbol') return false;
  if (typeof value !== 'object' || value === null) return true;
  return (
    value instanceof Date ||
    value instanceof RegExp ||
    value instanceof ArrayBuffer ||
    (typeof SharedArrayBuffer === 'function' && value instanceof SharedArrayBuffer) ||
    ArrayBuffer.isView(value)
  );
}

/** The batch again; its tensors lie over the memory that came. */
export function unpack(packed: Packed): unknown {
  const known = new Map<Packed, Tensor>();
  const go = (one: Packed): unknown => {
    switch (one.kind) {
      case 'value':
        return one.value;
      case 'list':
        return one.items.map(go);
      case 'record':
        return Object.fromEntries(one.entries.map(([key, value]) => [key, go(value)]));
      default: {
        const t = known.get(one) ?? unpackTensor(one);
        known.set(one, t);
        return t;
      }
    }
  };
  return go(packed);
}

function unpackTensor(one: Extract<Packed, { kind: 'tensor' | 'sparse' }>): Tensor {
  const { shape, requiresGrad } = one;
  if (one.kind === 'tensor')
    return tensorFromParts({
      storage: storageFromBytes(one.bytes),
      dtype: one.dtype,
      shape,
      strides: contiguousStrides(shape),
      offset: 0,
      requiresGrad,
      trusted: true,
    });
  const [indices, values] = [one.indices, one.values].map((part) =>
    unpackTensor(part as Extract<Packed, { kind: 'tensor' }>),
  ) as [Tensor<'int64'>, Tensor];
  try {
    return sparseFromParts({ indices, values, shape, coalesced: one.coalesced, requiresGrad });
  } finally {
    indices.dispose();
    values.dispose();
  }
}
