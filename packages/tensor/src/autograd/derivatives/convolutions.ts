/** @file Derivatives of convolutions. Images, filters and results are linear in each other: each gradient is one of the other two operations. */
import { convolve, filterGradient, imageGradient } from '../../ops/convolve.ts';
import type { Windows } from '../../ops/windows.ts';
import type { Derivative } from '../op-node.ts';
import { crossed, rule } from './rule.ts';

export const convolutions: Readonly<Record<string, Derivative>> = {
  convolve: rule(crossed, (grad, saved, s: Windows) => [
    saved.needs[0] === true ? imageGradient(grad, saved.input(1), s) : null,
    saved.needs[1] === true ? filterGradient(saved.input(0), grad, s) : null,
  ]),
  // Its gradient is of filters.
  convolveFilter: rule(crossed, (grad, saved, s: Windows) => [
    saved.needs[0] === true ? imageGradient(saved.input(1), grad, s) : null,
    saved.needs[1] === true ? convolve(saved.input(0), grad, s) : null,
  ]),
  // Its gradient is of images.
  convolveImages: rule(crossed, (grad, saved, s: Windows) => [
    saved.needs[0] === true ? convolve(grad, saved.input(1), s) : null,
    saved.needs[1] === true ? filterGradient(grad, saved.input(0), s) : null,
  ]),
};
