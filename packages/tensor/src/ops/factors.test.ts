/** @file What integers are multiplied by in addmm, addcmul and baddbmm: whole, and within their range. */
import { describe, expect, it } from 'vitest';
import { addcmul, baddbmm, ones, tensor, type DType, type Tensor } from '../index.ts';

const matrix = (dtype: DType): Tensor => tensor([1, 2, 3, 4]).reshape([2, 2]).to(dtype);
const forms: Readonly<Record<string, (dtype: DType, factor: number) => Tensor>> = {
  'addmm alpha': (dtype, alpha) => ones([2, 2], { dtype }).addmm(matrix(dtype), matrix(dtype), { alpha, beta: 0 }),
  'addmm beta': (dtype, beta) => matrix(dtype).addmm(matrix(dtype), matrix(dtype), { beta, alpha: 0 }),
  'baddbmm alpha': (dtype, alpha) => {
    const batch = matrix(dtype).unsqueeze(0);
    return baddbmm(batch, batch, batch, { alpha, beta: 0 });
  },
  'baddbmm beta': (dtype, beta) => {
    const batch = matrix(dtype).unsqueeze(0);
    return baddbmm(batch, batch, batch, { beta, alpha: 0 });
  },
  'addcmul value': (dtype, value) => addcmul(ones([2, 2], { dtype }), matrix(dtype), matrix(dtype), { value }),
};

describe.each(Object.entries(forms))('%s', (_, form) => {
  it('has its fraction cut off for integers', () => {
    for (const dtype of ['int64', 'int32', 'int8'] as const)
      expect(form(dtype, -1.75).toArray()).toEqual(form(dtype, -1).toArray());
  });

  it.each([
    ['int64', NaN],
    ['int64', 1e20],
    ['int32', Infinity],
    ['int32', 3e9],
    ['int16', 40_000],
    ['int8', -129],
    ['uint8', 300],
    ['uint8', -1.5],
  ] as const)('is refused by %s when it is %s', (dtype, factor) => {
    expect(() => form(dtype, factor)).toThrow(
      new RangeError(`value ${factor} cannot be converted to type ${dtype} without overflow`),
    );
  });

  it('wraps for bytes when it is negative and whole, and is anything for floats', () => {
    expect(form('uint8', -1).toArray()).toEqual(form('uint8', 255).toArray());
    expect(form('float32', NaN).isNaN().any().item()).toBe(1);
  });
});
