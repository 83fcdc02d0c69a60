/** @file Tables of tensors that are known: the same messages as before, nothing shared between them, nothing accepted that was not checked. */
import { describe, expect, it } from 'vitest';
import { ones, tensor, zeros, type Tensor } from '@backwire/tensor';
import {
  DEFAULT_WIRE_LIMITS,
  FrameKind,
  FrameReader,
  FrameWriter,
  frameTensors,
  planTensors,
  type CallFields,
  type WireLimits,
} from '../internal.ts';

const fields: CallFields = {
  kind: FrameKind.CALL,
  flags: 0,
  messageType: 0,
  seq: 1,
  ack: 0,
  callId: 1,
  fn: 1,
  remainingMs: -1,
};

/** The bytes of a call frame with these tensors; `change` may spoil them. */
function frameOf(tensors: readonly Tensor[], change: (bytes: Uint8Array) => void = () => undefined): Uint8Array {
  const writer = new FrameWriter();
  writer.begin();
  writer.endCall(fields, undefined, undefined, planTensors(tensors));
  const write = writer.flush();
  const bytes = new Uint8Array(Buffer.concat(write?.chunks ?? []));
  write?.release();
  change(bytes);
  return bytes;
}

function arrive(bytes: Uint8Array, limits: WireLimits = DEFAULT_WIRE_LIMITS): Tensor[] {
  let tensors: Tensor[] = [];
  const reader = new FrameReader({
    frame: (header, at, _, end) => (tensors = frameTensors(header, at, end, limits)?.tensors() ?? []),
    body: () => undefined,
    bodyEnd: () => undefined,
  });
  reader.phase = 'open';
  reader.push(bytes);
  return tensors;
}

describe('tables that were seen before', () => {
  it('give each message tensors of its own', () => {
    const [first] = arrive(
      frameOf([
        tensor([
          [1, 2],
          [3, 4],
        ]),
      ]),
    ) as [Tensor];
    (first.shape as number[]).push(7);
    (first.strides as number[])[0] = 99;
    const [second] = arrive(
      frameOf([
        tensor([
          [5, 6],
          [7, 8],
        ]),
      ]),
    ) as [Tensor];
    expect(second.shape).toEqual([2, 2]);
    expect(second.strides).toEqual([2, 1]);
    expect(second.toArray()).toEqual([
      [5, 6],
      [7, 8],
    ]);
    expect(
      arrive(
        frameOf([
          tensor([
            [5, 6],
            [7, 8],
          ]),
        ]),
      )[0]?.storage,
    ).not.toBe(second.storage);
  });

  it('are told apart by one byte: dtype, shape, stride, offset, gradient', () => {
    const base = tensor([1, 2, 3, 4, 5, 6]);
    const grad = tensor([1, 2, 3, 4, 5, 6], { requiresGrad: true });
    const all: Tensor[] = [
      base,
      tensor([1, 2, 3, 4, 5, 6], { dtype: 'int32' }),
      base.reshape([2, 3]),
      base.reshape([3, 2]),
    ];
    all.push(
      base.reshape([2, 3]).transpose(0, 1),
      base.narrow(0, 1, 3),
      base.narrow(0, 2, 3),
      grad,
      zeros([0]),
      ones([]),
    );
    for (let round = 0; round < 3; round++) {
      for (const each of all) {
        const [back] = arrive(frameOf([each])) as [Tensor];
        expect([back.dtype, back.shape, back.requiresGrad]).toEqual([each.dtype, each.shape, each.requiresGrad]);
        expect(back.toArray()).toEqual(each.toArray());
      }
    }
  });

  it('are checked again under other limits', () => {
    const bytes = frameOf([ones([64])]);
    expect(arrive(bytes)).toHaveLength(1);
    const tight = { ...DEFAULT_WIRE_LIMITS, maxMaterialisedBytes: 100 };
    expect(() => arrive(bytes, tight)).toThrow('tensors written out');
    expect(() => arrive(bytes, tight)).toThrow('tensors written out');
  });

  it('still need all of the bytes they announce', () => {
    expect(arrive(frameOf([ones([5])]))).toHaveLength(1);
    // One inline byte fewer in the header's count, and one more byte of value before the table: the table itself is a known one.
    const short = frameOf([ones([5])]);
    const header = new DataView(short.buffer);
    const inlineAt = [...Array(56).keys()].find((at) => at % 4 === 0 && header.getUint32(at, true) === 20) as number;
    expect(inlineAt).toBeDefined();
    header.setUint32(inlineAt, 19, true);
    expect(() => arrive(short)).toThrow();
  });
});

describe('a plan of one tensor', () => {
  it('pins its storage until it is written or released', () => {
    const one = tensor([1, 2]);
    const plan = planTensors([one]);
    expect(one.storage).toMatchObject({ ioRefs: 1 });
    plan.release();
    plan.release();
    expect(one.storage).toMatchObject({ ioRefs: 0 });
    const held = planTensors([one]);
    one.dispose();
    expect([...(held.storages[0]?.bytes ?? [])]).toHaveLength(8);
    held.release();
    expect(() => planTensors([one])).toThrow('disposed');
  });
});
