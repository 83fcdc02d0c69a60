import { describe, expect, it } from 'vitest';
import { Random } from '@backwire/testing';
import {
  decodeAbort,
  decodeBackward,
  decodeContextMessage,
  decodeDiscover,
  decodeOutcome,
  decodeWrap,
  encodeAbort,
  encodeBackward,
  encodeContextMessage,
  encodeDiscover,
  encodeOutcome,
  encodeWrap,
} from './autograd-codec.ts';
import { WireError } from '../errors.ts';

const context = { worker: 0xffff, incarnation: 0xffff_ffff, local: 2 ** 48 - 1 };
const pass = { worker: 3, incarnation: 1_800_000_000, n: 12 };
const options = { retainGraph: true, fast: false, failed: [3, 4, 11] };
const failure = {
  code: 'peer-died',
  name: 'RpcError',
  text: 'Error on Node 2: worker «ü» died \ud83d\ude80',
  peer: { id: 0, name: 'w0' },
};

const samples: [string, unknown, Uint8Array, (bytes: Uint8Array) => unknown][] = (() => {
  const wrap = { type: 0x102, context, oldest: 17, message: 2 ** 48 - 1, path: [0, 5, 2 ** 40], graph: true };
  const reach = [
    { to: 0, message: 0 },
    { to: 65_535, message: 2 ** 48 - 1 },
  ];
  const told = { ...wrap, reach };
  const toldNothing = { ...wrap, reach: [] };
  const sender = { messageWorker: 0xffff, worker: 0xffff, deviceMap: [['cpu', 'gpu:0'], ['__proto__', 'ü']] as const }; // prettier-ignore
  const named = { ...told, sender };
  const retried = { ...named, failed: [pass, { worker: 65_535, incarnation: 2 ** 52, n: 2 ** 52 }] };
  const planned = { context, pass, options: { ...options, plan: reach }, message: 5, present: [] };
  const discover = { context, pass, options, messages: [0, 2 ** 38, 7] };
  const backward = { context, pass, options: { ...options, fast: true }, message: 5, present: [true, false, true] };
  const owned = { ...backward, messageWorker: 0x7fff };
  const abort = { context, pass, failure };
  const ended = { context, oldest: 2 ** 48 - 2 };
  return [
    ['wrap', wrap, encodeWrap(wrap), decodeWrap],
    ['wrap that says what it reaches', told, encodeWrap(told), decodeWrap],
    ['wrap that names its sender', named, encodeWrap(named), decodeWrap],
    ['wrap after passes that failed', retried, encodeWrap(retried), decodeWrap],
    ['wrap that reaches nothing', toldNothing, encodeWrap(toldNothing), decodeWrap],
    ['backward by a plan', planned, encodeBackward(planned), (bytes) => decodeBackward(bytes, 0)],
    ['discover', discover, encodeDiscover(discover), decodeDiscover],
    ['backward', backward, encodeBackward(backward), (bytes) => decodeBackward(bytes, 2)],
    ['backward that names a worker', owned, encodeBackward(owned), (bytes) => decodeBackward(bytes, 2)],
    ['abort', abort, encodeAbort(abort), decodeAbort],
    ['outcome', { failure, back: [] }, encodeOutcome(failure), (bytes: Uint8Array) => decodeOutcome(bytes, 0)],
    ['good outcome', { back: [] }, encodeOutcome(undefined), (bytes: Uint8Array) => decodeOutcome(bytes, 0)],
    [
      'outcome with gradients',
      { back: [{ message: 9, present: [true, false, true] }] },
      encodeOutcome(undefined, [{ message: 9, present: [true, false, true] }]),
      (bytes: Uint8Array) => decodeOutcome(bytes, 2),
    ],
    ['context', ended, encodeContextMessage(ended), decodeContextMessage],
  ];
})();

describe.each(samples)('the bytes of %s', (_, value, bytes, decode) => {
  it('say the same again', () => expect(decode(bytes)).toEqual(value));

  it('are refused when cut anywhere, or longer than they say', () => {
    for (let length = 0; length < bytes.length; length++)
      expect(() => decode(bytes.subarray(0, length))).toThrow(WireError);
    expect(() => decode(Uint8Array.of(...bytes, 0))).toThrow(WireError);
  });

  it('when garbled are refused or say something else, but do no harm', () => {
    const random = new Random(`garbled ${_}`);
    for (let i = 0; i < 3_000; i++) {
      const garbled = bytes.slice();
      for (let n = random.int(1, 4); n > 0; n--) garbled[random.int(0, garbled.length)] = random.int(0, 256);
      try {
        decode(garbled);
      } catch (error) {
        expect(error).toBeInstanceOf(WireError);
      }
    }
  });
});

describe('sizes', () => {
  it('of device maps are checked before anything is allocated', () => {
    const sender = { messageWorker: 1, worker: 1, deviceMap: [] };
    const bytes = encodeWrap({ type: 1, context, oldest: 0, message: 0, path: [], graph: false, sender });
    const lying = Uint8Array.of(...bytes.subarray(0, -1), 0xff, 0xff, 0xff, 0xff, 0x0f);
    expect(() => decodeWrap(lying)).toThrow('a device map of 4294967295 entries');
  });

  it('of failed passes are checked before anything is allocated', () => {
    const bytes = encodeWrap({ type: 1, context, oldest: 0, message: 0, path: [], graph: true, failed: [] });
    const lying = Uint8Array.from([...bytes.subarray(0, -1), 255, 255, 255, 255, 15]);
    expect(() => decodeWrap(lying)).toThrow('failed passes of 4294967295 entries');
  });

  it('of what a message reaches are checked before anything is allocated', () => {
    const bytes = encodeWrap({ type: 1, context, oldest: 0, message: 0, path: [], graph: true, reach: [] });
    const at = bytes.findLastIndex((byte) => byte === 1);
    const lying = Uint8Array.of(...bytes.subarray(0, at), 0xff, 0xff, 0xff, 0xff, 0x0f, ...bytes.subarray(at + 1));
    expect(() => decodeWrap(lying)).toThrow('send functions, 4294967294 of them');
  });

  it('are checked before anything is allocated', () => {
    const huge = { context, pass, options, messages: [] };
    const bytes = encodeDiscover(huge);
    const lying = Uint8Array.of(...bytes.subarray(0, -1), 0xff, 0xff, 0xff, 0xff, 0x0f);
    expect(() => decodeDiscover(lying)).toThrow('a discovery of 4294967295 entries');
  });

  it('of gradients must be those of the tensors that came', () => {
    const bytes = encodeBackward({ context, pass, options, message: 5, present: [true, false] });
    expect(() => decodeBackward(bytes, 2)).toThrow('gradients do not match their tensors');
  });

  it('of texts are cut', () => {
    const long = { code: '', name: 'Error', text: 'x'.repeat(100_000) };
    const { failure: outcome } = decodeOutcome(encodeOutcome(long), 0);
    expect(outcome?.text).toHaveLength(16_384);
  });
});
