/** @file The options of each loss, and their checks: of the functions when they are called, of the modules when they are made. */
import { kindOf } from '../given.ts';
import { checkOptionNames } from '../option-names.ts';
import { checkTensors } from './takes.ts';

export const LOSS_OPTIONS: ReadonlySet<string> = new Set(['reduction']);
export const WEIGHT_OPTIONS: ReadonlySet<string> = new Set(['reduction', 'weight']);
export const LOGIT_OPTIONS: ReadonlySet<string> = new Set(['reduction', 'weight', 'posWeight']);
export const KL_OPTIONS: ReadonlySet<string> = new Set(['reduction', 'logTarget']);
export const SMOOTH_L1_OPTIONS: ReadonlySet<string> = new Set(['reduction', 'beta']);
export const HUBER_OPTIONS: ReadonlySet<string> = new Set(['reduction', 'delta']);
export const CLASS_LOSS_OPTIONS: ReadonlySet<string> = new Set(['reduction', 'ignoreIndex', 'weight']);
export const CROSS_ENTROPY_OPTIONS: ReadonlySet<string> = new Set([...CLASS_LOSS_OPTIONS, 'labelSmoothing']);
export const MARGIN_OPTIONS: ReadonlySet<string> = new Set(['reduction', 'margin']);
export const POISSON_OPTIONS: ReadonlySet<string> = new Set(['reduction', 'logInput', 'full', 'eps']);
export const GAUSSIAN_OPTIONS: ReadonlySet<string> = new Set(['reduction', 'full', 'eps']);
export const TRIPLET_OPTIONS: ReadonlySet<string> = new Set(['reduction', 'margin', 'p', 'eps', 'swap']);

/** What a loss does with its elements: their mean, their sum, or nothing. */
export type Reduction = (typeof REDUCTIONS)[number];
const REDUCTIONS = ['mean', 'sum', 'none'] as const;

/** What every loss may be told. */
export interface LossOptions {
  /** What becomes of the elements: their mean, their sum, or 'none': they are the result. @default 'mean' */
  reduction?: Reduction;
}

/** Checks the options of the loss `name`, whose tensors are `operands`. */
export function checkLoss(
  name: string,
  known: ReadonlySet<string>,
  options: { readonly reduction?: string | undefined },
  operands: readonly unknown[] = [],
): void {
  checkOptionNames(options, known, name.includes('.') ? name : `${name}()`);
  checkTensors(name, operands);
  const { reduction } = options;
  const reductions: readonly string[] = known === KL_OPTIONS ? [...REDUCTIONS, 'batchmean'] : REDUCTIONS;
  if (reduction !== undefined && !reductions.includes(reduction))
    throw new RangeError(`${name}: reduction is one of '${reductions.join("', '")}', got ${kindOf(reduction)}`);
}
