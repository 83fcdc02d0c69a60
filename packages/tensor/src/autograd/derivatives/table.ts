/** @file The derivative of every operation, in one table. */
import type { Derivative } from '../op-node.ts';
import { complex } from './complex.ts';
import { convolutions } from './convolutions.ts';
import { factor } from './factor.ts';
import { elementwise } from './elementwise.ts';
import { indexing } from './indexing.ts';
import { linalg } from './linalg.ts';
import { losses } from './losses.ts';
import { matrices } from './matrices.ts';
import { normalisation } from './normalisation.ts';
import { reductions } from './reductions.ts';
import { shapes } from './shapes.ts';
import { softmaxes } from './softmax.ts';
import { sparse } from './sparse.ts';
import { structure } from './structure.ts';

export const derivativeTable: Readonly<Record<string, Derivative>> = {
  ...elementwise,
  ...reductions,
  ...shapes,
  ...indexing,
  ...matrices,
  ...convolutions,
  ...linalg,
  ...factor,
  ...complex,
  ...losses,
  ...normalisation,
  ...structure,
  ...softmaxes,
  ...sparse,
};
