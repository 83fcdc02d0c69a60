/** @file Single operations on drawn tensors, and their gradients. */
import type { Random } from '@backwire/testing';
import { Draw, drawDType } from '../draw/draw.ts';
import { drawCall, type Operation } from '../draw/operation.ts';
import { operations } from '../operations/table.ts';
import type { Suite } from './suite.ts';

/** One of them, by weight. */
function pickOperation(random: Random, rows: readonly Operation[]): Operation {
  const total = rows.reduce((sum, { weight = 1 }) => sum + weight, 0);
  let left = random.float() * total;
  for (const row of rows) {
    left -= row.weight ?? 1;
    if (left < 0) return row;
  }
  return rows[0] as Operation;
}

export const operationSuite: Suite = {
  name: 'operations',
  perSeed: 3000,
  draw(random, seed) {
    const operation = pickOperation(random, operations);
    const dtype =
      operation.dtypes !== undefined && random.chance(0.9) ? random.pick(operation.dtypes) : drawDType(random);
    const draw = new Draw(random, { dtype });
    const result = drawCall(draw, operation);
    draw.backward(result);
    return draw.program('operations', seed);
  },
};
