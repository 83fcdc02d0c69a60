/** @file What models that were written for PyTorch reach for, beyond arithmetic: a row for each function. */
import type { Operation } from '../../draw/operation.ts';
import { arrangements } from './arranging.ts';
import { creations } from './creating.ts';
import { distributionRows } from './distributions.ts';
import { interpolations } from './interpolation.ts';
import { layers } from './layers.ts';
import { activationRows, factorRows, lossRows } from './losses.ts';
import { optimising } from './optimising.ts';
import { precisionRows } from './precision.ts';
import { subscripts } from './subscripts.ts';
import { windowRows } from './windows.ts';

export const ported: readonly Operation[] = [
  ...creations,
  ...subscripts,
  ...arrangements,
  ...layers,
  ...lossRows,
  ...factorRows,
  ...activationRows,
  ...optimising,
  ...distributionRows,
  ...windowRows,
  ...interpolations,
  ...precisionRows,
];
