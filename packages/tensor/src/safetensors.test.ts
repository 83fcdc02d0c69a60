/** @file The safetensors format. */
import { describe, expect, it } from 'vitest';
import {
  DTypeError,
  imag,
  loadSafetensors,
  nn,
  rand,
  real,
  saveSafetensors,
  tensor,
  TensorError,
  zeros,
  type Tensor,
} from './index.ts';

describe('safetensors', () => {
  it('round-trips every dtype, empty tensors and views', () => {
    const tensors = new Map<string, Tensor>([
      ['half', tensor([1.5, -2], { dtype: 'float16' })],
      ['bytes', tensor([1, 2, 255], { dtype: 'uint8' })],
      ['double', tensor([[Math.PI]], { dtype: 'float64' })],
      ['big', tensor([2n ** 62n])],
      ['flags', tensor([true, false])],
      ['none', zeros([0, 3])],
      ['turned', rand([2, 3]).transpose(0, 1)],
      ['__proto__x', zeros([])],
    ]);
    const { tensors: back, metadata } = loadSafetensors(saveSafetensors(tensors, { format: 'pt' }));
    expect(metadata).toEqual({ format: 'pt' });
    expect([...back.keys()].sort()).toEqual([...tensors.keys()].sort());
    for (const [name, t] of tensors) expect(back.get(name)?.equal(t), name).toBe(true);
  });

  it.each([0, 1, 4])(
    'reads a Buffer, as readFile() gives, that lies %i bytes into its memory, and leaves it as it is',
    (at) => {
      const file = saveSafetensors(
        new Map<string, Tensor>([
          ['w', tensor([1.5, -2])],
          ['n', tensor([3n])],
        ]),
      );
      const memory = Buffer.alloc(at + file.length);
      memory.set(file, at);
      const { tensors } = loadSafetensors(memory.subarray(at));
      const w = tensors.get('w') as Tensor;
      const [copy, n] = [w.clone(), tensors.get('n')?.add(1)];
      w.add_(1);
      expect([w.toArray(), copy.toArray(), n?.toArray()]).toEqual([[2.5, -1], [1.5, -2], [4n]]);
      expect(Buffer.compare(memory.subarray(at), file)).toBe(0);
    },
  );

  it('carries a state dict', () => {
    const [a, b] = [new nn.Linear(3, 2), new nn.Linear(3, 2)];
    b.loadStateDict(loadSafetensors(saveSafetensors(a.stateDict())).tensors);
    expect(b.weight.equal(a.weight)).toBe(true);
  });

  it('reads the file that the reference implementation documents', () => {
    const header = '{"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}';
    const bytes = new Uint8Array(8 + header.length + 16);
    new DataView(bytes.buffer).setBigUint64(0, BigInt(header.length), true);
    bytes.set(new TextEncoder().encode(header), 8);
    expect(loadSafetensors(bytes).tensors.get('test')?.toArray()).toEqual([
      [0, 0],
      [0, 0],
    ]);
  });

  const file = (header: unknown, data = 0): Uint8Array => {
    const json = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
    const bytes = new Uint8Array(8 + json.length + data);
    new DataView(bytes.buffer).setBigUint64(0, BigInt(json.length), true);
    bytes.set(json, 8);
    return bytes;
  };
  const f32 = (shape: number[], data_offsets: number[]): object => ({ dtype: 'F32', shape, data_offsets });

  it.each<[string, Uint8Array, RegExp]>([
    ['too short', new Uint8Array(7), /shorter than/],
    ['a huge header', new Uint8Array(8).fill(255), /a header of 18446744073709551615 bytes/],
    ['no JSON', file('{'), /not JSON/],
    ['a list', file([]), /not an object/],
    ['an unknown dtype', file({ a: { dtype: 'F8', shape: [1], data_offsets: [0, 1] } }, 1), /dtype F8/],
    ['offsets outside', file({ a: f32([1], [0, 4]) }, 3), /offsets \[0, 4\]/],
    ['offsets that do not fit the shape', file({ a: f32([2], [0, 4]) }, 4), /offsets/],
    ['a negative dimension', file({ a: f32([-1], [0, 4]) }, 4), /invalid dimension/],
    ['a huge shape', file({ a: f32([2 ** 30, 2 ** 30], [0, 4]) }, 4), /too many elements/],
    ['an overlap', file({ a: f32([1], [0, 4]), b: f32([1], [0, 4]) }, 4), /overlap/],
    ['bytes left over', file({ a: f32([1], [0, 4]) }, 5), /belong to no tensor/],
    ['metadata of another type', file({ __metadata__: { a: 1 } }), /not strings/],
    ['metadata in a list', file({ __metadata__: ['a'] }), /not an object/],
    ['metadata that are a text', file('{"__metadata__":"a"}'), /not an object/],
    ['no entry', file({ a: null }), /dtype undefined/],
    [
      'a dtype that has no text',
      file({ a: { dtype: { toString: 1 }, shape: [1], data_offsets: [0, 4] } }, 4),
      /dtype object/,
    ],
  ])('refuses %s', (_what, bytes, message) => {
    expect(() => loadSafetensors(bytes)).toThrow(message);
  });

  it('takes whatever stands where something else belongs for a malformed file, or for nothing', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const textless = '{"toString":1,"valueOf":1,"constructor":{"name":{"toString":1}},"then":1}';
    const odd = [
      'null',
      'true',
      '-0',
      '1e400',
      '0.5',
      '9007199254740993',
      '""',
      '[]',
      '{}',
      deep,
      textless,
      `[${textless}]`,
      '{"__proto__":1}',
      `[0,${deep}]`,
    ];
    const places: ((text: string) => string)[] = [
      (text) => text,
      (text) => `{"a":${text}}`,
      (text) => `{"__metadata__":${text}}`,
      (text) => `{"__metadata__":{"a":${text}}}`,
      (text) => `{"a":{"dtype":${text},"shape":[1],"data_offsets":[0,4]}}`,
      (text) => `{"a":{"dtype":"F32","shape":${text},"data_offsets":[0,4]}}`,
      (text) => `{"a":{"dtype":"F32","shape":[1,${text}],"data_offsets":[0,4]}}`,
      (text) => `{"a":{"dtype":"F32","shape":[1],"data_offsets":${text}}}`,
      (text) => `{"a":{"dtype":"F32","shape":[1],"data_offsets":[${text},4]}}`,
      (text) => `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,${text}]}}`,
    ];
    for (const place of places)
      for (const text of odd)
        try {
          loadSafetensors(file(place(text), 4));
        } catch (error) {
          expect(error, place(text).slice(0, 100)).toBeInstanceOf(TensorError);
        }
  });

  it('writes nothing that it would not read', () => {
    const weight = new Map([['w', zeros([1])]]);
    expect(() => saveSafetensors(weight, { epoch: 3 as unknown as string })).toThrow(
      "saveSafetensors(): metadata are texts, but 'epoch' is 3: write String(…)",
    );
    expect(() => saveSafetensors(new Map([['w', [1, 2] as unknown as Tensor]]))).toThrow(
      "saveSafetensors(): 'w' is a list instead of a tensor",
    );
  });

  it('reads complex numbers as its reference writes them, and writes them so', () => {
    // safetensors 0.8.0 of torch.tensor([1 + 2j, -0.5j]).
    const header = '{"c":{"dtype":"C64","shape":[2],"data_offsets":[0,16]}} ';
    const file = new Uint8Array(8 + header.length + 16);
    file[0] = header.length;
    file.set(new TextEncoder().encode(header), 8);
    file.set(new Uint8Array(Float32Array.of(1, 2, -0, -0.5).buffer), 8 + header.length);
    const { tensors } = loadSafetensors(file);
    const c = tensors.get('c') as Tensor;
    expect([c.dtype, real(c).toArray(), imag(c).toArray()]).toEqual(['complex64', [1, -0], [2, -0.5]]);
    expect(saveSafetensors(tensors)).toEqual(file);
  });

  it.each(['U16', 'F8_E4M3'])('says which dtype of the format it has none of: %s', (dtype) => {
    const header = JSON.stringify({ x: { dtype, shape: [0], data_offsets: [0, 0] } }).padEnd(64);
    const file = new Uint8Array([64, 0, 0, 0, 0, 0, 0, 0, ...new TextEncoder().encode(header)]);
    expect(() => loadSafetensors(file)).toThrow(DTypeError);
    expect(() => loadSafetensors(file)).toThrow(`tensor 'x' is ${dtype} in the safetensors file`);
  });
});
