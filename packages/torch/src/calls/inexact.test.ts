/** @file Arguments with floats in them, in whatever containers. */
import { expect, it } from 'vitest';
import { PyTuple, tupleOf } from '../values/containers.ts';
import { PyFloat } from '../values/numbers.ts';
import { inexact } from './inexact.ts';

it('makes numbers of floats, in all containers', () => {
  const map = new Map<unknown, unknown>([[new PyFloat(1), [new PyFloat(2), 'a']]]);
  expect(inexact([new PyFloat(3), map, tupleOf([new PyFloat(4)]), null])).toEqual([
    3,
    new Map([[1, [2, 'a']]]),
    PyTuple.of(4),
    null,
  ]);
});

it('takes no longer for what is met again and again', () => {
  const innermost: unknown[] = [new PyFloat(1)];
  let shared: unknown = innermost;
  for (let i = 0; i < 64; i++) shared = tupleOf([shared, shared]);
  inexact([shared]);
  expect(innermost).toEqual([1]);
});

it('takes containers that are deep in each other, or in themselves', () => {
  const innermost: unknown[] = [new PyFloat(1)];
  innermost.push(innermost);
  let deep: unknown[] = innermost;
  for (let i = 0; i < 200_000; i++) deep = [deep];
  inexact([deep]);
  expect(innermost[0]).toBe(1);
});
