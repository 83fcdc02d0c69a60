import { type Tensor, randn, sparseCooTensor, tensor, zeros } from '@backwire/tensor';
import { describe, expect, it } from 'vitest';
import {
  cloneSparseTensors,
  getRpcErrorType,
  makeRpcError,
  parseWireSections,
  readWrappedPayload,
  wireDeserialize,
  wireSerialize,
  writeWrappedPayload,
} from '../index.ts';

const text = (value: string): Uint8Array => new TextEncoder().encode(value);

describe('WireSerialize', () => {
  const payloads = [text(''), text('hi'), Uint8Array.from({ length: 1000 }, (_, i) => i)];
  const tensors: Tensor[][] = [[], [randn([5, 5])], [randn([3]), zeros([0]), tensor([1n], { dtype: 'int64' })]];
  it('Base', () => {
    for (const payload of payloads)
      for (const list of tensors) {
        const back = wireDeserialize(wireSerialize(payload, list));
        expect(back.payload).toEqual(payload);
        expect(back.tensors.map((t) => t.toArray())).toEqual(list.map((t) => t.toArray()));
      }
  });
  it('RecopySparseTensors', () => {
    const main = randn([1024, 1024]);
    expect(wireSerialize(text(''), [main]).length).toBeGreaterThan(4 << 20);
    const tiny = main.select(0, 2);
    const bytes = wireSerialize(text(''), [tiny]);
    expect(bytes.length).toBeLessThan(8 << 10);
    expect(wireDeserialize(bytes).tensors[0]?.toArray()).toEqual(tiny.toArray());
  });
  it('CloneSparseTensors', () => {
    const big = randn([1024, 1024]);
    expect(cloneSparseTensors([big])[0]).toBe(big);
    const tiny = big.select(0, 2);
    const [clone] = cloneSparseTensors([tiny]) as [Tensor];
    expect(clone).not.toBe(tiny);
    expect(clone.storage.nbytes).toBe(4096);
    expect(clone.toArray()).toEqual(tiny.toArray());
    const sparse = sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]);
    expect(cloneSparseTensors([sparse])[0]).toBe(sparse);
  });
  it('Errors', () => {
    expect(() => wireDeserialize(new Uint8Array(0))).toThrow('failed parse');
    expect(() => wireDeserialize(text('  '))).toThrow('failed parse');
    const bytes = wireSerialize(text(''), [randn([5, 5])]);
    expect(() => wireDeserialize(bytes.subarray(0, bytes.length >> 1))).toThrow('failed bounds');
    for (const head of [
      'payload\n\n',
      'payload -1\n\n',
      'payload 1e3\n\n',
      'pay load 3\n\n',
      `${'x'.repeat(300)} 0\n\n`,
      'a 0\na 0\n\n',
    ])
      expect(() => parseWireSections(text(head))).toThrow('failed parse');
    expect(() => parseWireSections(text('a 9007199254740991\n\n'))).toThrow('failed bounds');
    expect(() => parseWireSections(text('a 1\n\nxy'))).toThrow('failed bounds');
  });
  it('Sparse', () => {
    const sparse = sparseCooTensor(tensor([[0, 2]], { dtype: 'int64' }), tensor([1, 2]), [4]);
    const { tensors: back } = wireDeserialize(wireSerialize(text('x'), [sparse]));
    expect(back[0]?.toDense().toArray()).toEqual([1, 0, 2, 0]);
  });

  it('has sections by name', () => {
    const sections = parseWireSections(wireSerialize(text('p'), [tensor([1])]));
    expect([...sections.keys()]).toEqual(['payload', 'meta', '0']);
    expect(sections.get('0')?.length).toBe(4);
  });

  it('gives tensors that do not depend on the bytes', () => {
    const bytes = wireSerialize(text(''), [tensor([1, 2])]);
    const { tensors: back } = wireDeserialize(bytes);
    bytes.fill(0);
    expect(back[0]?.toArray()).toEqual([1, 2]);
  });
});

describe('wrapped payloads', () => {
  it('come apart again, also inside each other', () => {
    const once = writeWrappedPayload(text('call'), text('autograd'));
    expect([...once.subarray(-8)]).toEqual([0, 0, 0, 0, 0, 0, 0, 8]);
    const twice = readWrappedPayload(writeWrappedPayload(once, text('')));
    expect(twice.extra.length).toBe(0);
    const inner = readWrappedPayload(twice.payload);
    expect([inner.payload, inner.extra].map((bytes) => new TextDecoder().decode(bytes))).toEqual(['call', 'autograd']);
  });
  it('are checked', () => {
    expect(() => readWrappedPayload(new Uint8Array(7))).toThrow('shorter than its length field');
    expect(() => readWrappedPayload(new Uint8Array(9).fill(0xff))).toThrow('longer than the payload');
  });
});

describe('RPC error strings', () => {
  it('say their type', () => {
    expect(makeRpcError('gone', 'timeout')).toBe('RPCErr:1:gone');
    for (const type of ['unknown', 'timeout', 'intentional-failure'] as const) {
      expect(getRpcErrorType(makeRpcError('x', type))).toBe(type);
      expect(getRpcErrorType(new Error(`prefix ${makeRpcError('x', type)}`))).toBe(type);
    }
    for (const other of ['RPCErr:9:x', 'plain', undefined, 5, { message: 1 }])
      expect(getRpcErrorType(other)).toBe('unknown');
  });
  it('are recognised by the code of an error or of a cause', () => {
    const late = Object.assign(new Error('x'), { code: 'deadline-exceeded' });
    expect(getRpcErrorType(late)).toBe('timeout');
    expect(getRpcErrorType(new Error('outer', { cause: late }))).toBe('timeout');
    const cycle: Error = new Error('a');
    cycle.cause = cycle;
    expect(getRpcErrorType(cycle)).toBe('unknown');
    expect(getRpcErrorType(new Error('Send attempt failed intentionally for w1'))).toBe('intentional-failure');
  });
});
