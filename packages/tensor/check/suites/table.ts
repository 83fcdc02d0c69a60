/** @file Every suite. */
import { chainSuite } from './chains.ts';
import { curvatureSuite } from './curvature.ts';
import { dtypeSuite } from './dtypes.ts';
import { layerSuite } from './layers.ts';
import { moduleSuite } from './modules.ts';
import { operationSuite } from './operations.ts';
import { optimizerSuite } from './optimizers.ts';
import { secondSuite } from './second.ts';
import { portedSuite } from './ported.ts';
import { refusalSuite } from './refusals.ts';
import { scheduleSuite } from './schedules.ts';
import { sharedSuite } from './shared.ts';
import type { Suite } from './suite.ts';
import { thresholdSuite } from './thresholds.ts';
import { trainingSuite } from './training.ts';
import { viewSuite } from './views.ts';

export const suites: readonly Suite[] = [
  operationSuite,
  dtypeSuite,
  viewSuite,
  chainSuite,
  secondSuite,
  moduleSuite,
  optimizerSuite,
  thresholdSuite,
  portedSuite,
  scheduleSuite,
  layerSuite,
  sharedSuite,
  curvatureSuite,
  trainingSuite,
  refusalSuite,
];
