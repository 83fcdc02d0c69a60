/** @file Every operation there is, and which of the package's functions are left out and why. */
import type { Operation } from '../draw/operation.ts';
import { arithmetic } from './arithmetic.ts';
import { neural } from './neural.ts';
import { others } from './others.ts';
import { productRows } from './products.ts';
import { reductions } from './reductions.ts';
import { structure } from './structure.ts';
import { viewing } from './views.ts';

export const operations: readonly Operation[] = [
  ...arithmetic,
  ...reductions,
  ...viewing,
  ...structure,
  ...productRows,
  ...neural,
  ...others,
];
