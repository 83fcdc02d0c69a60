/** @file What the types forbid is refused at run time too: a peer's call is not checked by our compiler. */
import { expect, it } from 'vitest';
import { add, bitwiseAnd, div, eq, gt, mish, mul, ones, pow, relu, sub, type Tensor } from '../src/index.ts';

it.each([
  ['a string', 'x'],
  ['null', null],
  ['undefined', undefined],
  ['an object', {}],
])('refuses %s as an operand', (_what, operand) => {
  const x = ones([2]);
  expect(() => add(x, operand as unknown as Tensor)).toThrow(TypeError);
  expect(() => mul(x, operand as unknown as number)).toThrow('mul(): b is a number or a Tensor, got');
});

it.each([
  ['a number', 1, '1'],
  ['a text', 'a', "the text 'a'"],
])('refuses %s where a tensor comes first, before it has taken any', (_what, first, words) => {
  const given = first as unknown as Tensor;
  for (const [name, binary] of Object.entries({ add, mul, div, pow, eq, gt, bitwiseAnd }))
    expect(() => binary(given, 1)).toThrow(new TypeError(`${name}(): a is a Tensor, got ${words}`));
  // Nothing in this file has called these with a tensor.
  expect(() => sub(given, 1)).toThrow(new TypeError(`sub(): a is a Tensor, got ${words}`));
  for (const [name, unary] of Object.entries({ relu, mish }))
    expect(() => unary(given)).toThrow(new TypeError(`${name}(): t is a Tensor, got ${words}`));
});
