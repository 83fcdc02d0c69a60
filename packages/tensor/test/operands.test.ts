/** @file What the types forbid is refused at run time too: a peer's call is not checked by our compiler. */
import { expect, it } from 'vitest';
import { add, mul, ones, type Tensor } from '../src/index.ts';

it.each([
  ['a string', 'x'],
  ['null', null],
  ['undefined', undefined],
  ['an object', {}],
])('refuses %s as an operand', (_what, operand) => {
  const x = ones([2]);
  expect(() => add(x, operand as unknown as Tensor)).toThrow(TypeError);
  expect(() => mul(x, operand as unknown as number)).toThrow('must be a Tensor or a number');
});
