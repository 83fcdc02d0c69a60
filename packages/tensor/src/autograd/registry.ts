/** @file The derivative table by operation name; install.ts fills it, so that operations need not import their formulas. */
import type { Derivative } from './op-node.ts';

export const derivatives = new Map<string, Derivative>();
